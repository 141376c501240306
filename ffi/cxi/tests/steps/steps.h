/*
 * What a producer of commands and a consumer of events do, step by step as nic.md writes it. The
 * numbers in brackets are sections of nic.md.
 *
 * The benchmark issue_path times these steps, and recorded.c, the second opinion of the tests,
 * records them. Each defines the accesses to memory that are only declared here.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A command queue [2.2, 2.3]; positions are in half-slots of 32 bytes */
struct queue {
	uint8_t *ring;
	uint8_t *launch;
	uint32_t size32;
	uint32_t wp;
	uint32_t hw_wp;
	uint32_t rp;
	bool is_trigger;
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

/* The first half-slot of a ring [2.2], and the windows of a launch page [2.8] */
enum { FIRST = 8, LL64 = 1024, LL128A = 2048, LL128U = 3072 };
enum { CMD_SIZE_256 = 3, OPCODE_NOOP = 0 };
enum { NULL_EVENT = 31, SLOT = 64 };

/* Makes `halves` half-slots a NOOP, of which the first 8 bytes are written [2.6] */
static inline void write_noop(struct queue *q, uint32_t at, uint32_t halves, uint64_t header);
/* WP_FENCE and WC_FENCE [2.7] */
static inline void fence_before(struct queue *q);
static inline void fence_after(struct queue *q);
/* Stores 64 bits to the launch page; or copies them, from an offset in the ring */
static inline void store(struct queue *q, uint32_t to, uint64_t value);
static inline void copy_word(struct queue *q, uint32_t to, uint32_t from);
/* Zeroes the bytes of events from `from` to `to` */
static inline void zero(struct events *e, uint32_t from, uint32_t to);
/* Orders the zeroes before the store of the register */
static inline void fence_acknowledge(struct events *e);
static inline void store_sw_state(struct events *e, uint64_t value);

static inline uint8_t *half(const struct queue *q, uint32_t at)
{
	return q->ring + 32 * (uint64_t)at;
}

/* [3.1] */
static inline uint32_t cmd_size(const struct queue *q, uint32_t at)
{
	return *half(q, at) >> 2 & 3;
}

static inline uint32_t opcode(const struct queue *q, uint32_t at)
{
	return *half(q, at) >> 4;
}

/* [2.3] */
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

/* [2.5, 2.6]: a NOOP of a trigger queue has type CT and size code 1 */
static inline bool pad(struct queue *q, uint32_t halves)
{
	uint32_t n = -q->wp & (halves - 1), unit = q->is_trigger ? 2 : 1;

	if (usable(q) < n + halves)
		return false;
	for (uint32_t i = 0; i < n; i += unit)
		write_noop(q, q->wp + i, unit, q->is_trigger ? 0x06 : 0);
	q->wp = advance(q, q->wp, n);
	return true;
}

/* [2.7] */
static inline void fill_slot(struct queue *q)
{
	if (q->wp % 2) {
		write_noop(q, q->wp, 1, 0);
		q->wp = advance(q, q->wp, 1);
	}
}

static inline void ring(struct queue *q)
{
	if (q->wp == q->hw_wp)
		return;
	fill_slot(q);
	fence_before(q);
	q->hw_wp = q->wp;
	store(q, 0, q->wp / 2);
	fence_after(q);
}

static inline void copy(struct queue *q, uint32_t window, uint32_t slots)
{
	uint32_t to = window + ((q->hw_wp / 2) & 15) * SLOT;

	for (uint32_t i = 0; i < slots * SLOT; i += 8)
		copy_word(q, to + i, 32 * q->hw_wp + i);
	q->hw_wp = advance(q, q->hw_wp, 2 * slots);
}

/* [2.8], with its guard: LL128U needs 6 half-slots */
static inline void ll_ring(struct queue *q)
{
	uint32_t n;

	if (q->wp == q->hw_wp)
		return;
	if (cmd_size(q, q->hw_wp) == CMD_SIZE_256) {
		ring(q);
		return;
	}
	fill_slot(q);
	fence_before(q);
	n = q->wp > q->hw_wp ? q->wp - q->hw_wp : q->size32 - q->hw_wp;
	if (n == 2) {
		copy(q, LL64, 1);
	} else if (q->hw_wp % 4) {
		if (opcode(q, q->hw_wp) != OPCODE_NOOP) {
			copy(q, LL64, 1);
		} else if (n < 6 || cmd_size(q, q->hw_wp + 2) == CMD_SIZE_256) {
			ring(q);
			return;
		} else {
			q->hw_wp += 2;
			copy(q, LL128U, 2);
		}
	} else {
		copy(q, LL128A, 2);
	}
	fence_after(q);
	if (q->wp != q->hw_wp)
		ring(q);
}

static inline void commit(struct queue *q, bool low_latency)
{
	if (low_latency)
		ll_ring(q);
	else
		ring(q);
}

/* [5.3] */
static inline uint32_t step_by(const struct events *e, uint32_t offset, uint32_t n)
{
	return offset + n >= e->byte_size ? SLOT : offset + n;
}

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
		e->rd_offset = step_by(e, e->rd_offset, length);
	}
}

static inline void next(struct events *e)
{
	e->rd_offset = step_by(e, e->rd_offset, 8 << (e->buf[e->rd_offset + 14] & 3));
}

/* [5.4] */
static inline void acknowledge(struct events *e)
{
	if (e->rd_offset < e->prev_rd_offset) {
		zero(e, e->prev_rd_offset, e->byte_size);
		zero(e, SLOT, e->rd_offset);
	} else {
		zero(e, e->prev_rd_offset, e->rd_offset);
	}
	e->prev_rd_offset = e->rd_offset;
	e->state = (e->state & ~0x3ffffffULL) | e->rd_offset / SLOT;
	fence_acknowledge(e);
	store_sw_state(e, e->state);
}
