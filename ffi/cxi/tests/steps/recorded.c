/*
 * The second opinion of the tests: the steps of steps.h and the commands of commands.h, with memory
 * of their own and a record of their accesses. The numbers in brackets are sections of nic.md.
 */
#include "commands.h"
#include "steps.h"
#include <stdlib.h>

enum { MOST_SLOTS = 128, LAUNCH_BYTES = 4096, MOST_STEPS = 64, STALE = 0xee };

/* Accesses of a producer, and of a consumer */
enum access { RING, BEFORE, STORE, AFTER, ZERO, ACKNOWLEDGE, SW_STATE };

/* `known` masks the bits of the value that nic.md defines */
struct step {
	uint32_t access;
	uint32_t offset;
	uint64_t value;
	uint64_t known;
};

struct record {
	struct step steps[MOST_STEPS];
	uint32_t count;
};

/* Bytes, and for each of them 0xff if nic.md defines its value, else 0 */
struct memory {
	uint8_t bytes[64 * MOST_SLOTS];
	uint8_t known[64 * MOST_SLOTS];
};

/* A command queue; `queue` is the first member, so that the steps lead here */
struct producer {
	struct queue queue;
	struct memory ring, launch;
	struct record record;
	/* Whether a C_STATE is in force, and restricted; and where the batch began */
	struct {
		bool has_c_state, is_restricted;
		uint32_t wp;
	} now, begin;
};

/* An event queue; `events` is the first member */
struct consumer {
	struct events events;
	uint8_t buf[64 * MOST_SLOTS];
	struct record record;
};

static void push(struct record *r, enum access access, uint32_t offset, uint64_t value,
		 uint64_t known)
{
	bool repeats = r->count && r->steps[r->count - 1].access == (uint32_t)access;

	/* The order of stores to the ring does not matter, and a second fence has no effect */
	if (repeats && (access == RING || access == BEFORE || access == AFTER))
		return;
	if (r->count == MOST_STEPS)
		abort();
	r->steps[r->count++] = (struct step){ access, offset, value, known };
}

/* Copies the steps since the last call to `out`; returns their number */
static uint32_t take(struct record *r, struct step out[MOST_STEPS])
{
	uint32_t count = r->count;

	memcpy(out, r->steps, count * sizeof(*out));
	r->count = 0;
	return count;
}

/* Writes the bytes marked in `known`; the others of the half-slots become undefined */
static void write_halves(struct queue *q, uint32_t at, uint32_t halves, const uint8_t *bytes,
			 const uint8_t *known)
{
	struct producer *p = (struct producer *)q;

	for (uint32_t i = 0; i < 32 * halves; i++) {
		if (known[i])
			p->ring.bytes[32 * at + i] = bytes[i];
		p->ring.known[32 * at + i] = known[i];
	}
	push(&p->record, RING, 0, 0, 0);
}

static inline void write_noop(struct queue *q, uint32_t at, uint32_t halves, uint64_t header)
{
	uint8_t bytes[64] = { 0 }, known[64] = { 0 };

	memcpy(bytes, &header, 8);
	memset(known, 0xff, 8);
	write_halves(q, at, halves, bytes, known);
}

static inline void fence_before(struct queue *q)
{
	push(&((struct producer *)q)->record, BEFORE, 0, 0, 0);
}

static inline void fence_after(struct queue *q)
{
	push(&((struct producer *)q)->record, AFTER, 0, 0, 0);
}

static void store_known(struct queue *q, uint32_t to, uint64_t value, uint64_t known)
{
	struct producer *p = (struct producer *)q;

	memcpy(p->launch.bytes + to, &value, 8);
	memcpy(p->launch.known + to, &known, 8);
	push(&p->record, STORE, to, value, known);
}

static inline void store(struct queue *q, uint32_t to, uint64_t value)
{
	store_known(q, to, value, UINT64_MAX);
}

static inline void copy_word(struct queue *q, uint32_t to, uint32_t from)
{
	struct producer *p = (struct producer *)q;
	uint64_t value, known;

	memcpy(&value, p->ring.bytes + from, 8);
	memcpy(&known, p->ring.known + from, 8);
	store_known(q, to, value, known);
}

/* A queue of `slots` slots, all stale, except the status [2.2] */
struct producer *producer_new(uint32_t slots, bool is_trigger)
{
	struct producer *p = calloc(1, sizeof(*p));

	if (!p || slots > MOST_SLOTS)
		abort();
	memset(p->ring.bytes + 8, STALE, 64 * slots - 8);
	memset(p->ring.known, 0xff, 64 * slots);
	memset(p->launch.known, 0xff, LAUNCH_BYTES);
	p->ring.bytes[0] = 4;
	p->ring.bytes[6] = 1;
	p->queue = (struct queue){
		.ring = p->ring.bytes,
		.launch = p->launch.bytes,
		.size32 = 2 * slots,
		.wp = FIRST,
		.hw_wp = FIRST,
		.rp = FIRST,
		.is_trigger = is_trigger,
	};
	return p;
}

void producer_free(struct producer *p)
{
	free(p);
}

void producer_begin(struct producer *p)
{
	p->now.wp = p->queue.wp;
	p->begin = p->now;
}

/* Undoes what was emitted since the beginning of the batch */
void producer_drop(struct producer *p)
{
	p->now = p->begin;
	p->queue.wp = p->now.wp;
}

void producer_commit(struct producer *p, bool low_latency)
{
	commit(&p->queue, low_latency);
}

/* Lets the NIC fetch up to `slots` slots; returns the read pointer in the status [2.10] */
uint32_t producer_fetch(struct producer *p, uint32_t slots)
{
	uint32_t rd = p->ring.bytes[0] | p->ring.bytes[1] << 8;

	for (; slots && rd != p->queue.hw_wp / 2; slots--)
		rd = rd + 1 == p->queue.size32 / 2 ? 4 : rd + 1;
	p->ring.bytes[0] = rd;
	p->ring.bytes[1] = rd >> 8;
	return rd;
}

uint32_t producer_take(struct producer *p, struct step out[MOST_STEPS])
{
	return take(&p->record, out);
}

static int64_t difference(const struct memory *memory, uint32_t bytes, const uint8_t *other)
{
	for (uint32_t i = 0; i < bytes; i++)
		if ((memory->bytes[i] ^ other[i]) & memory->known[i])
			return i;
	return -1;
}

/* The first offset at which other memory differs in a byte that nic.md defines, or -1 */
int64_t producer_ring_difference(const struct producer *p, const uint8_t *other)
{
	return difference(&p->ring, 32 * p->queue.size32, other);
}

int64_t producer_launch_difference(const struct producer *p, const uint8_t *other)
{
	return difference(&p->launch, LAUNCH_BYTES, other);
}

/* The number of fields, to check the declaration on the other side */
uint32_t producer_fields(void)
{
	return sizeof(struct fields) / sizeof(uint64_t);
}

enum answer { DONE, FULL, REFUSED };

/* Whether an IDC command follows a C_STATE [3.4], and its payload is within the limits [3.2]; a
 * message also needs an unrestricted one [3.6] */
static bool is_legal(const struct producer *p, uint32_t kind, uint32_t payload)
{
	if (kind != IDC_PUT_CMD && kind != IDC_MSG_CMD && kind != IDC_AMO_CMD)
		return true;
	if (!p->now.has_c_state || (kind == IDC_MSG_CMD && p->now.is_restricted))
		return false;
	return payload <= (p->now.is_restricted ? 224u : 192u);
}

/* Writes a command into the ring [2.5, 3.2] */
uint32_t producer_emit(struct producer *p, uint32_t kind, const struct fields *f,
		       const uint8_t *payload, uint32_t length)
{
	struct command c = { 0 };

	if (!is_legal(p, kind, length))
		return REFUSED;
	build(&c, kind, f, payload, length);
	if (!pad(&p->queue, c.halves))
		return FULL;
	write_halves(&p->queue, p->queue.wp, c.halves, c.bytes, c.known);
	p->queue.wp = advance(&p->queue, p->queue.wp, c.halves);
	if (kind == C_STATE_CMD) {
		p->now.has_c_state = true;
		p->now.is_restricted = f->restricted & 1;
	}
	return DONE;
}

static inline void zero(struct events *e, uint32_t from, uint32_t to)
{
	memset(e->buf + from, 0, to - from);
	for (; from < to; from += 8)
		push(&((struct consumer *)e)->record, ZERO, from, 0, UINT64_MAX);
}

static inline void fence_acknowledge(struct events *e)
{
	push(&((struct consumer *)e)->record, ACKNOWLEDGE, 0, 0, 0);
}

static inline void store_sw_state(struct events *e, uint64_t value)
{
	push(&((struct consumer *)e)->record, SW_STATE, 0, value, UINT64_MAX);
}

/* An empty queue of `slots` slots [5.2, 5.3] */
struct consumer *consumer_new(uint32_t slots)
{
	struct consumer *c = calloc(1, sizeof(*c));

	if (!c || slots > MOST_SLOTS)
		abort();
	c->events = (struct events){
		.buf = c->buf,
		.byte_size = 64 * slots,
		.rd_offset = SLOT,
		.prev_rd_offset = SLOT,
	};
	return c;
}

void consumer_free(struct consumer *c)
{
	free(c);
}

/* The memory, into which the caller writes events */
uint8_t *consumer_memory(struct consumer *c)
{
	return c->buf;
}

/* Returns the offset of the next event, which it consumes, or 0 if none is complete */
uint32_t consumer_poll(struct consumer *c)
{
	const uint8_t *event = peek(&c->events);

	if (!event)
		return 0;
	next(&c->events);
	return event - c->buf;
}

void consumer_acknowledge(struct consumer *c)
{
	acknowledge(&c->events);
}

uint32_t consumer_take(struct consumer *c, struct step out[MOST_STEPS])
{
	return take(&c->record, out);
}
