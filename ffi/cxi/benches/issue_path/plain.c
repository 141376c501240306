/*
 * The same operations in plain C, for comparison: the steps of steps.h, compiled with -O2. The
 * numbers in brackets are sections of nic.md.
 *
 * The functions named floor_* store and load the same words, with the same fences, and do nothing
 * else.
 */
#include "../../tests/steps/steps.h"

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

enum { TYPE_IDC = 0, TYPE_DMA = 1, OPCODE_PUT = 1, OPCODE_ATOMIC = 4 };

static inline void store_fence(void)
{
#if defined(__x86_64__)
	__asm__ volatile("sfence" ::: "memory");
#else
	__asm__ volatile("dmb oshst" ::: "memory");
#endif
}

static inline void fence_before(struct queue *q)
{
	(void)q;
	store_fence();
}

static inline void fence_after(struct queue *q)
{
	(void)q;
	store_fence();
}

static inline void write_noop(struct queue *q, uint32_t at, uint32_t halves, uint64_t header)
{
	(void)halves;
	memcpy(half(q, at), &header, 8);
}

static inline void store(struct queue *q, uint32_t to, uint64_t value)
{
	*(volatile uint64_t *)(q->launch + to) = value;
}

static inline void copy_word(struct queue *q, uint32_t to, uint32_t from)
{
	store(q, to, *(const uint64_t *)(q->ring + from));
}

static inline void zero(struct events *e, uint32_t from, uint32_t to)
{
	memset(e->buf + from, 0, to - from);
}

static inline void fence_acknowledge(struct events *e)
{
	(void)e;
#if !defined(__x86_64__)
	store_fence();
#endif
}

static inline void store_sw_state(struct events *e, uint64_t value)
{
	*(volatile uint64_t *)e->sw_state = value;
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
