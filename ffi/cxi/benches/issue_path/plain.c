/*
 * The same operations in plain C, for comparison: each step of nic.md 2.3 to 2.8 and 5.3 to 5.4 as
 * it is written there, compiled with -O2. The numbers in brackets are sections of nic.md.
 *
 * The functions named floor_* store and load the same words, with the same fences, and do nothing
 * else.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Every command [3.1] */
struct header {
	uint8_t cmd_type : 2;
	uint8_t cmd_size : 2;
	uint8_t opcode : 4;
};

/* A command of 32, 64 or 256 bytes [3.5, 3.7 to 3.9]; emitting changes the header and the length */
struct command {
	struct header header;
	uint8_t length;
	uint8_t rest[254];
};

/* A command queue [2.2, 2.3]; positions are in half-slots */
struct queue {
	uint8_t *ring;
	uint8_t *launch;
	uint32_t size32;
	uint32_t wp;
	uint32_t hw_wp;
	uint32_t rp;
};

/* An event queue [5.2] */
struct events {
	uint8_t *buf;
	uint64_t *sw_state;
	uint32_t byte_size;
	uint32_t rd_offset;
	uint32_t prev_rd_offset;
	uint64_t state;
};

enum { FIRST = 8, LL64 = 1024, LL128A = 2048, LL128U = 3072 };
enum { TYPE_IDC = 0, TYPE_DMA = 1, OPCODE_PUT = 1, OPCODE_ATOMIC = 4 };
enum { NULL_EVENT = 31, SLOT = 64 };

static inline void store_fence(void)
{
#if defined(__x86_64__)
	__asm__ volatile("sfence" ::: "memory");
#else
	__asm__ volatile("dmb oshst" ::: "memory");
#endif
}

static inline uint8_t *half(const struct queue *q, uint32_t at)
{
	return q->ring + 32 * (uint64_t)at;
}

static inline struct header *header(const struct queue *q, uint32_t at)
{
	return (struct header *)half(q, at);
}

static inline uint32_t advance(const struct queue *q, uint32_t at, uint32_t n)
{
	at += n;
	return at >= q->size32 ? FIRST : at;
}

static inline uint32_t free_halves(const struct queue *q)
{
	return q->wp >= q->rp ? q->size32 - q->wp + q->rp - 2 - FIRST : q->rp - q->wp - 2;
}

/* [2.4] */
static inline uint32_t usable(struct queue *q)
{
	uint32_t f = free_halves(q);

	if (f < 16) {
		q->rp = 2 * *(volatile uint16_t *)q->ring;
		f = free_halves(q);
	}
	return f;
}

/* [2.5, 2.6] */
static inline bool pad(struct queue *q, uint32_t halves)
{
	uint32_t n = -q->wp & (halves - 1);

	if (usable(q) < n + halves)
		return false;
	for (uint32_t i = 0; i < n; i++)
		memset(half(q, q->wp + i), 0, 8);
	q->wp = advance(q, q->wp, n);
	return true;
}

/* [2.7] */
static inline void fill_slot(struct queue *q)
{
	if (q->wp % 2) {
		memset(half(q, q->wp), 0, 8);
		q->wp = advance(q, q->wp, 1);
	}
}

static inline void ring(struct queue *q)
{
	if (q->wp == q->hw_wp)
		return;
	fill_slot(q);
	store_fence();
	q->hw_wp = q->wp;
	*(volatile uint64_t *)q->launch = q->wp / 2;
	store_fence();
}

static inline void copy(struct queue *q, uint32_t window, uint32_t slots)
{
	const uint64_t *from = (const uint64_t *)half(q, q->hw_wp);
	volatile uint64_t *to =
		(volatile uint64_t *)(q->launch + window + ((q->hw_wp / 2) & 15) * SLOT);

	for (uint32_t i = 0; i < slots * 8; i++)
		to[i] = from[i];
	q->hw_wp = advance(q, q->hw_wp, 2 * slots);
}

/* [2.8] */
static inline void ll_ring(struct queue *q)
{
	uint32_t n;

	if (q->wp == q->hw_wp)
		return;
	if (header(q, q->hw_wp)->cmd_size == 3) {
		ring(q);
		return;
	}
	fill_slot(q);
	store_fence();
	n = q->wp > q->hw_wp ? q->wp - q->hw_wp : q->size32 - q->hw_wp;
	if (n == 2) {
		copy(q, LL64, 1);
	} else if (q->hw_wp % 4) {
		if (header(q, q->hw_wp)->opcode) {
			copy(q, LL64, 1);
		} else if (n < 6 || header(q, q->hw_wp + 2)->cmd_size == 3) {
			ring(q);
			return;
		} else {
			q->hw_wp += 2;
			copy(q, LL128U, 2);
		}
	} else {
		copy(q, LL128A, 2);
	}
	store_fence();
	if (q->wp != q->hw_wp)
		ring(q);
}

/* [3.2]: a command of `length` bytes, made from a template */
static inline bool emit(struct queue *q, const struct command *template, uint32_t type,
			uint32_t size, uint32_t opcode, uint32_t length, bool immediate)
{
	struct command *to;

	if (!pad(q, 1u << size))
		return false;
	to = (struct command *)half(q, q->wp);
	memcpy(to, template, length);
	to->header.cmd_type = type;
	to->header.cmd_size = size;
	if (immediate) {
		to->header.opcode = opcode;
		to->length = length;
	}
	q->wp = advance(q, q->wp, 1u << size);
	return true;
}

static inline void commit(struct queue *q, bool low_latency)
{
	if (low_latency)
		ll_ring(q);
	else
		ring(q);
}

/* A DMA command of 32 or 64 bytes, `count` times */
bool plain_nomatch(struct queue *q, const struct command *template, uint32_t count,
		   bool low_latency)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!emit(q, template, TYPE_DMA, 0, 0, 32, false))
			return false;
		commit(q, low_latency);
	}
	return true;
}

bool plain_dma(struct queue *q, const struct command *template, uint32_t count, bool low_latency)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!emit(q, template, TYPE_DMA, 1, 0, 64, false))
			return false;
		commit(q, low_latency);
	}
	return true;
}

/* `count` DMA commands to ascending places, in lists of `list` with one doorbell each */
bool plain_list(struct queue *q, struct command *template, uint32_t count, uint32_t list)
{
	for (uint32_t i = 0; i < count; i += list) {
		for (uint64_t k = 0; k < list; k++) {
			memcpy(template->rest + 6, &(uint64_t){ 64 * k }, 8);
			memcpy(template->rest + 14, &(uint64_t){ 64 * k }, 8);
			if (!emit(q, template, TYPE_DMA, 1, 0, 64, false))
				return false;
		}
		ring(q);
	}
	return true;
}

/* A put of `payload` bytes in the command */
static inline bool put(struct queue *q, const struct command *template, const uint8_t *payload,
		       uint32_t bytes, uint32_t size)
{
	struct command *to;

	if (!pad(q, 1u << size))
		return false;
	to = (struct command *)half(q, q->wp);
	memcpy(to, template, 16);
	to->header.cmd_type = TYPE_IDC;
	to->header.cmd_size = size;
	to->header.opcode = OPCODE_PUT;
	to->length = 16 + bytes;
	memcpy((uint8_t *)to + 16, payload, bytes);
	q->wp = advance(q, q->wp, 1u << size);
	return true;
}

bool plain_idc_put(struct queue *q, const struct command *template, const uint8_t *payload,
		   uint32_t bytes, uint32_t count, bool low_latency)
{
	uint32_t total = 16 + bytes;
	uint32_t size = total <= 32 ? 0 : total <= 64 ? 1 : total <= 128 ? 2 : 3;

	for (uint32_t i = 0; i < count; i++) {
		if (!put(q, template, payload, bytes, size))
			return false;
		commit(q, low_latency);
	}
	return true;
}

/* Puts of 8 bytes to ascending places, in lists of `list` with one doorbell each */
bool plain_idc_list(struct queue *q, struct command *template, const uint8_t *payload,
		    uint32_t count, uint32_t list)
{
	for (uint32_t i = 0; i < count; i += list) {
		for (uint64_t k = 0; k < list; k++) {
			memcpy(template->rest + 6, &(uint64_t){ 8 * k }, 8);
			if (!put(q, template, payload + 8 * k, 8, 0))
				return false;
		}
		ring(q);
	}
	return true;
}

/* An atomic operation in the command, small form, with another operand each time */
bool plain_idc_amo(struct queue *q, struct command *template, uint32_t count, bool low_latency)
{
	for (uint64_t i = 0; i < count; i++) {
		memcpy(template->rest + 22, &i, 8);
		if (!emit(q, template, TYPE_IDC, 0, OPCODE_ATOMIC, 32, true))
			return false;
		commit(q, low_latency);
	}
	return true;
}

/* [5.3] */
static inline const uint8_t *peek(struct events *e)
{
	for (;;) {
		const volatile uint8_t *event = e->buf + e->rd_offset;
		uint32_t size = event[14] & 3, length = 8 << size;

		if (!size || !(event[length - 1] & 0x3f))
			return NULL;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if ((event[14] >> 2 & 31) != NULL_EVENT)
			return (const uint8_t *)event;
		e->rd_offset += length;
		if (e->rd_offset >= e->byte_size)
			e->rd_offset = SLOT;
	}
}

static inline void next(struct events *e)
{
	e->rd_offset += 8 << (e->buf[e->rd_offset + 14] & 3);
	if (e->rd_offset >= e->byte_size)
		e->rd_offset = SLOT;
}

/* [5.4] */
static inline void acknowledge(struct events *e)
{
	if (e->rd_offset < e->prev_rd_offset) {
		memset(e->buf + e->prev_rd_offset, 0, e->byte_size - e->prev_rd_offset);
		memset(e->buf + SLOT, 0, e->rd_offset - SLOT);
	} else {
		memset(e->buf + e->prev_rd_offset, 0, e->rd_offset - e->prev_rd_offset);
	}
	e->prev_rd_offset = e->rd_offset;
	e->state = (e->state & ~0x3ffffffULL) | e->rd_offset / SLOT;
#if !defined(__x86_64__)
	store_fence();
#endif
	*(volatile uint64_t *)e->sw_state = e->state;
}

/* Polls, checks type and return code, and acknowledges; returns how many events were as expected */
uint32_t plain_poll(struct events *e, uint32_t type, uint32_t count)
{
	uint32_t seen = 0;

	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *event = peek(e);

		if (!event)
			continue;
		seen += (event[14] >> 2 & 31) == type &&
			(event[(8 << (event[14] & 3)) - 1] & 0x3f) == 1;
		next(e);
		acknowledge(e);
	}
	return seen;
}

/* The bare stores of a command of one slot and its launch: by window, or by doorbell */
static inline void launch_floor(struct queue *q, const uint64_t *command, uint32_t words,
				uint32_t count, bool low_latency)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t *at = (uint64_t *)half(q, FIRST + 2 * (i & 15));
		volatile uint64_t *to = (volatile uint64_t *)(q->launch + LL64);

		memcpy(at, command, 8 * words);
		if (words == 4)
			at[4] = 0;
		store_fence();
		if (low_latency) {
			for (uint32_t k = 0; k < 8; k++)
				to[k] = command[k];
		} else {
			*(volatile uint64_t *)q->launch = i;
		}
		store_fence();
	}
}

void floor_launch(struct queue *q, const uint64_t *command, uint32_t words, uint32_t count,
		  bool low_latency)
{
	/* Copies of constant length */
	if (words == 4)
		launch_floor(q, command, 4, count, low_latency);
	else
		launch_floor(q, command, 8, count, low_latency);
}

/* The bare loads and stores of an event of 16 bytes that is seen and acknowledged */
uint32_t floor_poll(struct events *e, uint32_t count)
{
	uint32_t seen = 0;

	for (uint32_t i = 0; i < count; i++) {
		volatile uint64_t *event = (volatile uint64_t *)(e->buf + SLOT + 16 * i);
		uint64_t word = event[1];

		if (!word)
			continue;
		seen++;
		event[0] = 0;
		event[1] = 0;
		*(volatile uint64_t *)e->sw_state = i;
	}
	return seen;
}
