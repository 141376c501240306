/*
 * What a program for libcxi compiles in from HPE's inline headers: command
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
#define CMD_RESTRICTED 26, 1
#define CMD_DFA 32, 32
#define CMD_REMOTE_OFFSET 64, 56
#define CMD_LOCAL_ADDR 128, 57
#define CMD_REQUEST_LEN 192, 32
#define CMD_CT 224, 11
#define CMD_EQ 240, 11
#define CMD_INITIATOR 288, 32
#define CSTATE_INITIATOR 32, 32
#define CSTATE_INDEX_EXT 64, 5
#define CSTATE_USER_PTR 128, 64
/* Target commands [3.13] */
#define TGT_LIST 8, 2
#define TGT_PTE 16, 11
#define TGT_EVENT_COMM_DISABLE 37, 1
#define TGT_OP_GET 45, 1
#define TGT_OP_PUT 46, 1
#define TGT_BUFFER_ID 64, 16
#define TGT_LAC 80, 3
#define TGT_RESTART_SEQ 88, 1
#define TGT_START 128, 57
#define TGT_LENGTH 192, 56
#define TGT_MATCH_ID 288, 32
#define TGT_IGNORE_BITS 384, 64
#define STATE_STATE 8, 3
/* Events [6.2]; the return code is in the last byte */
#define EVENT_TYPE 114, 5
#define EV_STATE 64, 3
#define EV_PTE 96, 11
#define EV_BUFFER_ID 192, 16

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
