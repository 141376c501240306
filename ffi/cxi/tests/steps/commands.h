/*
 * The commands as nic.md writes them, for recorded.c. The numbers in brackets are sections of
 * nic.md. No offset and no bit comes from the Rust code.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Values of fields, under their names in nic.md; each is cut to the width of the field */
struct fields {
	uint64_t opcode, length, index_ext, lac, write_lac;
	uint64_t event_send_disable, event_success_disable, event_ct_send, event_ct_reply;
	uint64_t event_ct_ack, event_ct_bytes, get_with_local_flag, restricted, reduction, flush;
	uint64_t use_offset_for_get;
	uint64_t dfa, remote_offset, local_addr, local_read_addr, local_write_addr, request_len;
	uint64_t ct, eq, eager_length, rendezvous_id, initiator, match_bits, header_data, user_ptr;
	uint64_t atomic_op, atomic_type, cswap_op, op1_word1, op1_word2, op2_word1, op2_word2;
	uint64_t fetching, lcid;
	uint64_t trig_ct, ct_success, ct_failure, set_ct_success, set_ct_failure, threshold;
	uint64_t ptl_list, ptlte_index, event_ct_overflow, event_ct_comm, event_unlink_disable;
	uint64_t event_comm_disable, event_link_disable, unrestricted_end_ro, unrestricted_body_ro;
	uint64_t unexpected_hdr_disable, use_once, no_truncate, manage_local, op_get, op_put;
	uint64_t buffer_id, restart_seq, start, min_free, match_id, ignore_bits;
	uint64_t ptlte_state, current_addr, drop_count;
};

/* A command of up to 256 bytes; of each byte 0xff in `known` if nic.md defines it, else 0 */
struct command {
	uint8_t bytes[256], known[256];
	uint32_t halves;
};

/* Sets the field `byte:bit+width` [0] */
static void put(uint8_t *to, uint32_t byte, uint32_t bit, uint32_t width, uint64_t value)
{
	for (uint32_t i = 0; i < width; i++) {
		uint32_t at = 8 * byte + bit + i;

		to[at / 8] |= (value >> i & 1) << at % 8;
	}
}

/* Says that nic.md defines these bytes */
static void define(struct command *c, uint32_t from, uint32_t to)
{
	memset(c->known + from, 0xff, to - from);
}

enum { IDC, DMA, CT, CQ };
enum { PUT = 1, ATOMIC = 4, FETCHING_ATOMIC = 5, SMALL_MESSAGE = 7, CSTATE = 10 };
enum { CT_SET = 1, CT_GET, CT_INC, CT_CANCEL, TRIG_DMA, TRIG_SET, TRIG_INC, TRIG_EVENT };
enum { CQ_NOOP, CQ_FENCE, CQ_LCID, SETSTATE = 12 };

/* [2.5] */
static uint32_t size_code(uint32_t length)
{
	return length <= 32 ? 0 : length <= 64 ? 1 : length <= 128 ? 2 : 3;
}

/* [3.1] */
static void header(uint8_t *to, uint32_t type, uint32_t size, uint32_t opcode)
{
	put(to, 0, 0, 2, type);
	put(to, 0, 2, 2, size);
	put(to, 0, 4, 4, opcode);
}

/* [3.3] */
static void options(uint8_t *to, const struct fields *f)
{
	put(to, 2, 3, 1, f->event_send_disable);
	put(to, 2, 4, 1, f->event_success_disable);
	put(to, 2, 5, 1, f->event_ct_send);
	put(to, 2, 6, 1, f->event_ct_reply);
	put(to, 2, 7, 1, f->event_ct_ack);
	put(to, 3, 0, 1, f->event_ct_bytes);
	put(to, 3, 1, 1, f->get_with_local_flag);
	put(to, 3, 2, 1, f->restricted);
	put(to, 3, 3, 1, f->reduction);
	put(to, 3, 4, 1, f->flush);
	put(to, 3, 5, 1, f->use_offset_for_get);
}

/* [3.4] */
static void c_state(struct command *c, const struct fields *f)
{
	header(c->bytes, IDC, 0, CSTATE);
	put(c->bytes, 1, 0, 8, 32);
	put(c->bytes, 2, 0, 3, f->write_lac);
	options(c->bytes, f);
	put(c->bytes, 4, 0, 32, f->initiator);
	put(c->bytes, 8, 0, 5, f->index_ext);
	put(c->bytes, 16, 0, 64, f->user_ptr);
	put(c->bytes, 28, 0, 11, f->ct);
	put(c->bytes, 30, 0, 11, f->eq);
	define(c, 0, 32);
}

/* [3.5] */
static void idc_put(struct command *c, const struct fields *f, const uint8_t *payload,
		    uint32_t length)
{
	header(c->bytes, IDC, size_code(16 + length), PUT);
	put(c->bytes, 1, 0, 8, 16 + length);
	put(c->bytes, 4, 0, 32, f->dfa);
	put(c->bytes, 8, 0, 56, f->remote_offset);
	memcpy(c->bytes + 16, payload, length);
	define(c, 0, 16 + length);
}

/* [3.6]; at least 64 bytes [3.2] */
static void idc_msg(struct command *c, const struct fields *f, const uint8_t *payload,
		    uint32_t length)
{
	header(c->bytes, IDC, length ? size_code(32 + length) : 1, SMALL_MESSAGE);
	put(c->bytes, 1, 0, 8, 32 + length);
	put(c->bytes, 4, 0, 32, f->dfa);
	put(c->bytes, 8, 0, 64, f->match_bits);
	put(c->bytes, 16, 0, 64, f->header_data);
	put(c->bytes, 24, 0, 64, f->user_ptr);
	memcpy(c->bytes + 32, payload, length);
	define(c, 0, 32 + length);
}

/* [3.7]; numbers of types and operations [11] */
static void idc_amo(struct command *c, const struct fields *f)
{
	uint32_t op = f->atomic_op & 15, type = f->atomic_type & 15;
	bool fetching = f->fetching & 1;
	bool large = fetching || type == 11 || op == 11 || op == 12;

	header(c->bytes, IDC, large, fetching ? FETCHING_ATOMIC : ATOMIC);
	put(c->bytes, 1, 0, 8, large ? 64 : 32);
	put(c->bytes, 4, 0, 32, f->dfa);
	put(c->bytes, 8, 0, 56, f->remote_offset);
	if (large) {
		put(c->bytes, 16, 0, 57, f->local_addr);
		put(c->bytes, 24, 0, 4, op);
		put(c->bytes, 25, 0, 4, type);
		put(c->bytes, 26, 0, 3, f->cswap_op);
		put(c->bytes, 32, 0, 64, f->op1_word1);
		put(c->bytes, 40, 0, 64, f->op1_word2);
		put(c->bytes, 48, 0, 64, f->op2_word1);
		put(c->bytes, 56, 0, 64, f->op2_word2);
	} else {
		put(c->bytes, 16, 0, 4, op);
		put(c->bytes, 17, 0, 4, type);
		put(c->bytes, 24, 0, 64, f->op1_word1);
	}
	define(c, 0, large ? 64 : 32);
}

/* [3.8] and the first 32 bytes of [3.9, 3.10]. `restricted` is the caller's choice: the helper that
 * forces it [3.2] has a defect, T4 of docs/differences.md */
static void dma_head(uint8_t *to, const struct fields *f, uint32_t size, uint32_t opcode,
		     uint64_t local_addr, uint64_t request_len)
{
	header(to, DMA, size, opcode);
	put(to, 1, 0, 5, f->index_ext);
	put(to, 2, 0, 3, f->lac);
	options(to, f);
	put(to, 4, 0, 32, f->dfa);
	put(to, 8, 0, 56, f->remote_offset);
	put(to, 16, 0, 57, local_addr);
	put(to, 24, 0, 32, request_len);
	put(to, 28, 0, 11, f->ct);
	put(to, 30, 0, 11, f->eq);
}

static void nomatch_dma(struct command *c, uint32_t at, const struct fields *f)
{
	dma_head(c->bytes + at, f, 0, f->opcode, f->local_addr, f->request_len);
	define(c, at, at + 32);
}

/* [3.9] */
static void dma(struct command *c, uint32_t at, const struct fields *f)
{
	uint8_t *to = c->bytes + at;

	dma_head(to, f, 1, f->opcode, f->local_addr, f->request_len);
	put(to, 32, 0, 20, f->eager_length);
	put(to, 35, 0, 8, f->rendezvous_id);
	put(to, 36, 0, 32, f->initiator);
	put(to, 40, 0, 64, f->match_bits);
	put(to, 48, 0, 64, f->header_data);
	put(to, 56, 0, 64, f->user_ptr);
	define(c, at, at + 64);
}

/* [3.10]; the length is the size of the type [11.1], or the caller's for a type without a size */
static void dma_amo(struct command *c, uint32_t at, const struct fields *f)
{
	static const uint8_t sizes[16] = { 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 16 };
	uint8_t *to = c->bytes + at, size = sizes[f->atomic_type & 15];

	dma_head(to, f, 2, f->fetching & 1 ? FETCHING_ATOMIC : ATOMIC, f->local_read_addr,
		 size ? size : f->request_len);
	put(to, 36, 0, 32, f->initiator);
	put(to, 40, 0, 64, f->match_bits);
	put(to, 48, 0, 64, f->header_data);
	put(to, 56, 0, 64, f->user_ptr);
	put(to, 64, 0, 57, f->local_write_addr);
	put(to, 72, 0, 4, f->atomic_op);
	put(to, 73, 0, 4, f->atomic_type);
	put(to, 74, 0, 3, f->cswap_op);
	put(to, 76, 0, 3, f->write_lac);
	put(to, 80, 0, 64, f->op2_word1);
	put(to, 88, 0, 64, f->op2_word2);
	define(c, at, at + 96);
}

/* [3.11] */
static void cq(struct command *c, uint32_t at, uint32_t opcode, uint64_t lcid)
{
	header(c->bytes + at, CQ, 1, opcode);
	put(c->bytes + at, 4, 0, 4, lcid);
	define(c, at, at + 8);
}

/* [3.12]: the fields that the opcode uses */
static void counter(struct command *c, const struct fields *f, uint32_t opcode)
{
	bool waits = opcode >= TRIG_DMA;
	bool changes = opcode <= CT_CANCEL || opcode == TRIG_SET || opcode == TRIG_INC;
	bool has_value = changes && opcode != CT_GET && opcode != CT_CANCEL;

	header(c->bytes, CT, opcode == TRIG_DMA ? 2 : 1, opcode);
	put(c->bytes, 2, 0, 11, changes ? f->ct : 0);
	put(c->bytes, 4, 0, 11, waits ? f->trig_ct : 0);
	put(c->bytes, 6, 0, 11, opcode == TRIG_EVENT ? f->eq : 0);
	if (has_value) {
		put(c->bytes, 8, 0, 48, f->ct_success);
		put(c->bytes, 14, 0, 7, f->ct_failure);
		put(c->bytes, 15, 6, 1, f->set_ct_success);
		put(c->bytes, 15, 7, 1, f->set_ct_failure);
	}
	put(c->bytes, 16, 0, 48, waits ? f->threshold : 0);
	define(c, 0, 24);
}

/* [3.13] */
static void target(struct command *c, const struct fields *f)
{
	header(c->bytes, CQ, 1, f->opcode);
	put(c->bytes, 1, 0, 2, f->ptl_list);
	put(c->bytes, 2, 0, 11, f->ptlte_index);
	put(c->bytes, 4, 0, 1, f->event_ct_bytes);
	put(c->bytes, 4, 1, 1, f->event_ct_overflow);
	put(c->bytes, 4, 2, 1, f->event_ct_comm);
	put(c->bytes, 4, 3, 1, f->event_unlink_disable);
	put(c->bytes, 4, 4, 1, f->event_success_disable);
	put(c->bytes, 4, 5, 1, f->event_comm_disable);
	put(c->bytes, 4, 6, 1, f->event_link_disable);
	put(c->bytes, 4, 7, 1, f->unrestricted_end_ro);
	put(c->bytes, 5, 0, 1, f->unrestricted_body_ro);
	put(c->bytes, 5, 1, 1, f->unexpected_hdr_disable);
	put(c->bytes, 5, 2, 1, f->use_once);
	put(c->bytes, 5, 3, 1, f->no_truncate);
	put(c->bytes, 5, 4, 1, f->manage_local);
	put(c->bytes, 5, 5, 1, f->op_get);
	put(c->bytes, 5, 6, 1, f->op_put);
	put(c->bytes, 6, 0, 11, f->ct);
	put(c->bytes, 8, 0, 16, f->buffer_id);
	put(c->bytes, 10, 0, 3, f->lac);
	put(c->bytes, 11, 0, 1, f->restart_seq);
	put(c->bytes, 16, 0, 57, f->start);
	put(c->bytes, 24, 0, 56, f->length);
	put(c->bytes, 32, 0, 24, f->min_free);
	put(c->bytes, 36, 0, 32, f->match_id);
	put(c->bytes, 40, 0, 64, f->match_bits);
	put(c->bytes, 48, 0, 64, f->ignore_bits);
	define(c, 0, 64);
}

static void set_state(struct command *c, const struct fields *f)
{
	header(c->bytes, CQ, 1, SETSTATE);
	put(c->bytes, 1, 0, 3, f->ptlte_state);
	put(c->bytes, 2, 0, 11, f->ptlte_index);
	put(c->bytes, 8, 0, 57, f->current_addr);
	put(c->bytes, 16, 0, 24, f->drop_count);
	define(c, 0, 64);
}

enum kind {
	/* Bytes of a command, as the payload */
	AS_GIVEN,
	C_STATE_CMD,
	IDC_PUT_CMD,
	IDC_MSG_CMD,
	IDC_AMO_CMD,
	NOMATCH_DMA_CMD,
	DMA_CMD,
	DMA_AMO_CMD,
	LCID_CMD,
	FENCE_CMD,
	TARGET_CMD,
	SET_STATE_CMD,
	TRIG_DMA_CMD,
	TRIG_NOMATCH_DMA_CMD,
	TRIG_DMA_AMO_CMD,
	/* Plus the opcode */
	CT_CMD,
};

/* Makes the command, of 1, 2, 4 or 8 half-slots */
static void build(struct command *c, uint32_t kind, const struct fields *f,
		  const uint8_t *payload, uint32_t length)
{
	switch (kind) {
	case AS_GIVEN:
		memcpy(c->bytes, payload, length);
		define(c, 0, length);
		break;
	case C_STATE_CMD:
		c_state(c, f);
		break;
	case IDC_PUT_CMD:
		idc_put(c, f, payload, length);
		break;
	case IDC_MSG_CMD:
		idc_msg(c, f, payload, length);
		break;
	case IDC_AMO_CMD:
		idc_amo(c, f);
		break;
	case NOMATCH_DMA_CMD:
		nomatch_dma(c, 0, f);
		break;
	case DMA_CMD:
		dma(c, 0, f);
		break;
	case DMA_AMO_CMD:
		dma_amo(c, 0, f);
		break;
	case LCID_CMD:
		/* The pair starts on 128 bytes and travels together [3.11] */
		cq(c, 0, CQ_LCID, f->lcid);
		cq(c, 64, CQ_NOOP, 0);
		c->halves = 4;
		return;
	case FENCE_CMD:
		cq(c, 0, CQ_FENCE, 0);
		break;
	case TARGET_CMD:
		target(c, f);
		break;
	case SET_STATE_CMD:
		set_state(c, f);
		break;
	case TRIG_DMA_CMD:
		counter(c, f, TRIG_DMA);
		dma(c, 24, f);
		break;
	case TRIG_NOMATCH_DMA_CMD:
		counter(c, f, TRIG_DMA);
		nomatch_dma(c, 24, f);
		break;
	case TRIG_DMA_AMO_CMD:
		counter(c, f, TRIG_DMA);
		dma_amo(c, 24, f);
		break;
	default:
		counter(c, f, kind - CT_CMD);
	}
	c->halves = 1 << (c->bytes[0] >> 2 & 3);
}
