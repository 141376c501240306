/*
 * What HPE's headers have inline and a program for libcxi compiles in: command
 * queues, event queues, addresses. Written from the documents on the NIC; the
 * numbers in brackets are sections of nic.md.
 */
#ifndef NIC_H
#define NIC_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cxi.h"

/* Bits of a record: where they begin, and how many there are */

static inline void put_bits(void *record, unsigned at, unsigned width, uint64_t value)
{
	uint8_t *bytes = record;

	for (unsigned bit = 0; bit < width; bit++) {
		uint8_t mask = 1 << ((at + bit) % 8);

		if (value >> bit & 1)
			bytes[(at + bit) / 8] |= mask;
		else
			bytes[(at + bit) / 8] &= ~mask;
	}
}

static inline uint64_t get_bits(const void *record, unsigned at, unsigned width)
{
	const uint8_t *bytes = record;
	uint64_t value = 0;

	for (unsigned bit = 0; bit < width; bit++)
		value |= (uint64_t)(bytes[(at + bit) / 8] >> ((at + bit) % 8) & 1) << bit;
	return value;
}

/* Every command [3.1] */
#define CMD_TYPE 0, 2
#define CMD_SIZE 2, 2
#define CMD_OPCODE 4, 4
/* Options of commands of transmit queues [3.3], and of C_STATE [3.4] */
#define CMD_LENGTH 8, 8
#define CMD_INDEX_EXT 8, 5
#define CMD_LAC 16, 3
#define CMD_SEND_DISABLE 19, 1
#define CMD_SUCCESS_DISABLE 20, 1
#define CMD_CT_ACK 23, 1
#define CMD_CT_REPLY 22, 1
#define CMD_RESTRICTED 26, 1
#define CMD_FLUSH 28, 1
#define CMD_DFA 32, 32
#define CMD_REMOTE_OFFSET 64, 56
#define CMD_LOCAL_ADDR 128, 57
#define CMD_REQUEST_LEN 192, 32
#define CMD_CT 224, 11
#define CMD_EQ 240, 11
#define CMD_EAGER_LENGTH 256, 20
#define CMD_RENDEZVOUS_ID 280, 8
#define CMD_INITIATOR 288, 32
#define CMD_MATCH_BITS 320, 64
#define CMD_HEADER_DATA 384, 64
#define CMD_USER_PTR 448, 64
#define CSTATE_INITIATOR 32, 32
#define CSTATE_INDEX_EXT 64, 5
#define CSTATE_USER_PTR 128, 64
/* Atomic operations [3.7, 3.10] */
#define IDC_AMO_OP 192, 4
#define IDC_AMO_TYPE 200, 4
#define IDC_AMO_CSWAP 208, 3
#define IDC_AMO_OP1 256, 64
#define IDC_AMO_OP2 384, 64
#define AMO_WRITE_ADDR 512, 57
#define AMO_OP 576, 4
#define AMO_TYPE 584, 4
#define AMO_CSWAP 592, 3
#define AMO_WRITE_LAC 608, 3
#define AMO_OP2 640, 64
/* Small messages [3.6] */
#define MSG_MATCH_BITS 64, 64
#define MSG_HEADER_DATA 128, 64
#define MSG_USER_PTR 192, 64
/* Commands about the queue [3.11] */
#define CQ_LCID 32, 4
/* Counter commands [3.12] */
#define CT_CT 16, 11
#define CT_TRIG_CT 32, 11
#define CT_EQ 48, 11
#define CT_SUCCESS 64, 48
#define CT_FAILURE 112, 7
#define CT_SET_SUCCESS 126, 1
#define CT_SET_FAILURE 127, 1
#define CT_THRESHOLD 128, 48
#define CT_DMA_AT 24
/* Target commands [3.13] */
#define TGT_LIST 8, 2
#define TGT_PTE 16, 11
#define TGT_CT_COMM 34, 1
#define TGT_UNLINK_DISABLE 35, 1
#define TGT_LINK_DISABLE 38, 1
#define TGT_USE_ONCE 42, 1
#define TGT_MANAGE_LOCAL 44, 1
#define TGT_OP_GET 45, 1
#define TGT_OP_PUT 46, 1
#define TGT_CT 48, 11
#define TGT_BUFFER_ID 64, 16
#define TGT_LAC 80, 3
#define TGT_START 128, 57
#define TGT_LENGTH 192, 56
#define TGT_MATCH_ID 288, 32
#define TGT_MATCH_BITS 320, 64
#define TGT_IGNORE_BITS 384, 64
#define STATE_STATE 8, 3
#define STATE_PTE 16, 11
#define STATE_DROP_COUNT 128, 24
/* Events [6.2]; the return code is in the last byte */
#define EVENT_SIZE 112, 2
#define EVENT_TYPE 114, 5
#define INI_USER_PTR 0, 64
#define INI_MLENGTH 64, 32
#define INI_LIST 96, 2
#define INI_RENDEZVOUS 100, 1
#define INI_TGT_ERROR 102, 1
#define TRIG_THRESHOLD 0, 48
#define TRIG_CT 64, 11
#define EV_HEADER_DATA 0, 64
#define EV_INITIATOR 64, 32
#define EV_STATE 64, 3
#define EV_PTE 96, 11
#define EV_LIST 120, 2
#define EV_RENDEZVOUS 122, 1
#define EV_GET_ISSUED 123, 1
#define EV_AUTO_UNLINKED 124, 1
#define EV_MATCH_BITS 128, 64
#define EV_BUFFER_ID 192, 16
#define EV_VNI 208, 16
#define EV_SHORT_LENGTH 224, 20
#define EV_MLENGTH 256, 32
#define EV_RLENGTH 288, 32
#define EV_REMOTE_OFFSET 320, 56
#define EV_START 384, 57
#define FAIL_CQ 0, 10
#define FAIL_IS_TARGET 10, 1
#define FAIL_SLOT 16, 16

/* Order of stores: commands, then the pointer that announces them [2.7] */
static inline void store_fence(void)
{
#if defined(__x86_64__)
	__asm__ volatile("sfence" ::: "memory");
#else
	__asm__ volatile("dmb oshst" ::: "memory");
#endif
}

/* Command queues. Positions count halves of 32 bytes; the first 8 are status [2.2]. */

#define FIRST_HALF 8

static inline uint8_t *half(struct cxi_cq *cq, uint64_t at)
{
	return (uint8_t *)cq->cmds32 + 32 * at;
}

static inline uint64_t step(struct cxi_cq *cq, uint64_t at, unsigned halves)
{
	at += halves;
	return at == cq->size32 ? FIRST_HALF : at;
}

static inline uint16_t slots_read(struct cxi_cq *cq)
{
	return *(volatile uint16_t *)cq->status;
}

/* Halves that may be written [2.4] */
static inline unsigned cq_space(struct cxi_cq *cq)
{
	for (int again = 0;; again++) {
		unsigned space = cq->wp32 >= cq->rp32
			? cq->size32 - cq->wp32 + cq->rp32 - 2 - FIRST_HALF
			: cq->rp32 - cq->wp32 - 2;

		if (space >= 16 || again)
			return space;
		cq->rp32 = 2 * slots_read(cq);
	}
}

/* Puts a command of 32, 64, 128 or 256 bytes into the ring, at a multiple of its size [2.5] */
static inline int cq_emit(struct cxi_cq *cq, const void *command, unsigned len)
{
	unsigned halves = len / 32;
	unsigned pad = (halves - cq->wp32 % halves) % halves;

	if (cq_space(cq) < halves + pad)
		return -ENOSPC;
	for (; pad; pad--) {
		memset(half(cq, cq->wp32), 0, 8);
		cq->wp32 = step(cq, cq->wp32, 1);
	}
	memcpy(half(cq, cq->wp32), command, len);
	cq->wp32 = step(cq, cq->wp32, halves);
	return 0;
}

/* The same for trigger queues, whose padding is a counter command that does nothing [2.6] */
static inline int cq_emit_trigger(struct cxi_cq *cq, const void *command, unsigned len)
{
	uint8_t noop[64] = { 0 };

	put_bits(noop, CMD_TYPE, C_CMD_TYPE_CT);
	put_bits(noop, CMD_SIZE, C_CMD_SIZE_64B);
	if (len == 128 && cq->wp32 % 4 && cq_emit(cq, noop, 64))
		return -ENOSPC;
	return cq_emit(cq, command, len);
}

static inline void fill_slot(struct cxi_cq *cq)
{
	if (cq->wp32 % 2) {
		memset(half(cq, cq->wp32), 0, 8);
		cq->wp32 = step(cq, cq->wp32, 1);
	}
}

/* Commits by doorbell [2.7] */
static inline void cq_ring(struct cxi_cq *cq)
{
	if (cq->wp32 == cq->hw_wp32)
		return;
	fill_slot(cq);
	store_fence();
	cq->hw_wp32 = cq->wp32;
	*(volatile uint64_t *)cq->wp_addr = cq->wp32 / 2;
	store_fence();
}

static inline void copy_words(uint8_t *to, const uint8_t *from, unsigned len)
{
	for (unsigned at = 0; at < len; at += 8) {
		uint64_t word;

		memcpy(&word, from + at, 8);
		*(volatile uint64_t *)(to + at) = word;
	}
}

/* Commits by a low-latency write, and what that does not take by doorbell [2.8] */
static inline void cq_ll_ring(struct cxi_cq *cq)
{
	int64_t pending;
	uint8_t *first = half(cq, cq->hw_wp32);
	bool is_noop = first[0] >> 4 == 0;

	if (cq->wp32 == cq->hw_wp32)
		return;
	if ((first[0] >> 2 & 3) == C_CMD_SIZE_256B) {
		cq_ring(cq);
		return;
	}
	fill_slot(cq);
	store_fence();
	pending = (int64_t)cq->wp32 - (int64_t)cq->hw_wp32;
	if (pending < 0)
		pending = cq->size32 - cq->hw_wp32;
	if (pending == 2 || (cq->hw_wp32 % 4 && !(is_noop && pending >= 6))) {
		copy_words(cq->ll_64 + (cq->hw_wp32 / 2 & 15) * 64, first, 64);
		cq->hw_wp32 = step(cq, cq->hw_wp32, 2);
	} else if (cq->hw_wp32 % 4) {
		if ((first[64] >> 2 & 3) == C_CMD_SIZE_256B) {
			cq_ring(cq);
			return;
		}
		cq->hw_wp32 = step(cq, cq->hw_wp32, 2);
		copy_words(cq->ll_128u + (cq->hw_wp32 / 2 & 15) * 64, half(cq, cq->hw_wp32), 128);
		cq->hw_wp32 = step(cq, cq->hw_wp32, 4);
	} else {
		copy_words(cq->ll_128a + (cq->hw_wp32 / 2 & 15) * 64, first, 128);
		cq->hw_wp32 = step(cq, cq->hw_wp32, 4);
	}
	store_fence();
	cq_ring(cq);
}

/* Event queues [5.3, 5.4] */

static inline unsigned event_len(const volatile uint8_t *event)
{
	return 8 << (event[14] & 3);
}

static inline unsigned after(const struct cxi_eq *eq, unsigned at, unsigned len)
{
	at += len;
	return at >= eq->byte_size ? C_EE_CFG_ECB_SIZE : at;
}

/* The next event, or null */
static inline const uint8_t *eq_peek(struct cxi_eq *eq)
{
	for (;;) {
		const volatile uint8_t *event = eq->events + eq->rd_offset;

		if (!(event[14] & 3) || !(event[event_len(event) - 1] & 63))
			return NULL;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if ((event[14] >> 2 & 31) != C_EVENT_NULL_EVENT)
			return (const uint8_t *)event;
		eq->rd_offset = after(eq, eq->rd_offset, event_len(event));
	}
}

static inline void eq_next(struct cxi_eq *eq)
{
	eq->rd_offset = after(eq, eq->rd_offset, event_len(eq->events + eq->rd_offset));
}

/* Gives consumed events back: zeroed first, for zero is what says "no event" */
static inline void eq_ack(struct cxi_eq *eq)
{
	unsigned from = eq->prev_rd_offset, to = eq->rd_offset;

	if (to < from) {
		memset(eq->events + from, 0, eq->byte_size - from);
		from = C_EE_CFG_ECB_SIZE;
	}
	memset(eq->events + from, 0, to - from);
	eq->prev_rd_offset = to;
	put_bits(&eq->sw_state.qw, 0, 26, to / C_EE_CFG_ECB_SIZE);
	store_fence();
	*(volatile uint64_t *)eq->sw_state_addr = eq->sw_state.qw;
}

static inline unsigned event_code(const uint8_t *event)
{
	return event[event_len(event) - 1] & 63;
}

/* Addresses [4.1, 4.2], for 9 bits of PID */

static inline uint32_t dfa(uint32_t nid, uint32_t pid, uint32_t index)
{
	return nid << CXI_DFA_EP_WIDTH | (index >> CXI_DFA_EXT_WIDTH) << 9 | pid;
}

static inline uint8_t index_ext(uint32_t index)
{
	return index & 31;
}

static inline uint32_t match_id(uint32_t nid, uint32_t pid)
{
	return (pid & 511) << 23 | (nid & ((1 << 23) - 1));
}

static inline uint64_t iova(const struct cxi_md *md, const void *address)
{
	return md->iova + ((uintptr_t)address - md->va);
}

#endif
