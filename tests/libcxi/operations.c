/* Commands and the events that they raise, as nic.md lists them */
#include "rig.h"

#define INDEX 5

static uint8_t *there(struct rig *rig)
{
	return rig->memory + MEMORY / 2;
}

static void check_bytes(const uint8_t *bytes, uint8_t wanted, size_t len)
{
	for (size_t at = 0; at < len; at++)
		CHECK_EQ(bytes[at], wanted);
}

/* Sends a command and checks the event that ends it */
static void complete(struct rig *rig, const void *command, unsigned int len, unsigned int type, unsigned int code,
		     uint64_t mlength)
{
	const uint8_t *event;

	send(rig, command, len);
	event = await(&rig->ini, type, code);
	CHECK_EQ(get_bits(event, INI_MLENGTH), mlength);
	done(&rig->ini);
}

static void puts_and_gets(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, INDEX, false);
	uint8_t command[64], nomatch[32];
	const uint8_t *event;

	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 0xbeef, iova(rig.md, there(&rig)), MEMORY / 2);
	/* A put of many packets */
	memset(rig.memory, 0x5a, MEMORY / 2);
	dma(&rig, command, C_CMD_PUT, INDEX);
	put_bits(command, CMD_REQUEST_LEN, 100001);
	put_bits(command, CMD_REMOTE_OFFSET, 77);
	put_bits(command, CMD_HEADER_DATA, 0x1122334455667788);
	put_bits(command, CMD_USER_PTR, 0xfeed);
	send(&rig, command, 64);
	event = await(&rig.ini, C_EVENT_ACK, C_RC_OK);
	CHECK_EQ(get_bits(event, INI_USER_PTR), 0xfeed);
	CHECK_EQ(get_bits(event, INI_MLENGTH), 100001);
	CHECK_EQ(get_bits(event, INI_LIST), C_PTL_LIST_PRIORITY);
	done(&rig.ini);
	event = await(&rig.events, C_EVENT_PUT, C_RC_OK);
	CHECK_EQ(get_bits(event, EVENT_SIZE), C_EVENT_SIZE_32_BYTE);
	CHECK_EQ(get_bits(event, EV_HEADER_DATA), 0x1122334455667788);
	CHECK_EQ(get_bits(event, EV_INITIATOR), match_id(rig.dev->info.nid, rig.domain->pid));
	CHECK_EQ(get_bits(event, EV_PTE), portal.pte->ptn);
	CHECK_EQ(get_bits(event, EV_BUFFER_ID), 0xbeef);
	CHECK_EQ(get_bits(event, EV_VNI), VNI);
	CHECK_EQ(get_bits(event, EV_SHORT_LENGTH), 100001);
	done(&rig.events);
	CHECK_EQ(there(&rig)[76], 0);
	check_bytes(there(&rig) + 77, 0x5a, 100001);
	CHECK_EQ(there(&rig)[77 + 100001], 0);
	/* A get brings it back */
	dma(&rig, command, C_CMD_GET, INDEX);
	put_bits(command, CMD_LOCAL_ADDR, iova(rig.md, rig.memory + 200000));
	put_bits(command, CMD_REQUEST_LEN, 5000);
	put_bits(command, CMD_REMOTE_OFFSET, 77);
	memset(rig.memory + 200000, 0, 5001);
	complete(&rig, command, 64, C_EVENT_REPLY, C_RC_OK, 5000);
	check_bytes(rig.memory + 200000, 0x5a, 5000);
	CHECK_EQ(rig.memory[205000], 0);
	await(&rig.events, C_EVENT_GET, C_RC_OK);
	done(&rig.events);
	/* Without matching, 32 bytes each */
	memset(rig.memory, 0x33, 64);
	memset(nomatch, 0, 32);
	put_bits(nomatch, CMD_TYPE, C_CMD_TYPE_DMA);
	put_bits(nomatch, CMD_OPCODE, C_CMD_NOMATCH_PUT);
	put_bits(nomatch, CMD_INDEX_EXT, index_ext(INDEX));
	put_bits(nomatch, CMD_LAC, rig.md->lac);
	put_bits(nomatch, CMD_SEND_DISABLE, 1);
	put_bits(nomatch, CMD_RESTRICTED, 1);
	put_bits(nomatch, CMD_DFA, own_dfa(&rig, INDEX));
	put_bits(nomatch, CMD_LOCAL_ADDR, iova(rig.md, rig.memory));
	put_bits(nomatch, CMD_REQUEST_LEN, 64);
	put_bits(nomatch, CMD_EQ, rig.ini.eq->eqn);
	complete(&rig, nomatch, 32, C_EVENT_ACK, C_RC_OK, 64);
	await(&rig.events, C_EVENT_PUT, C_RC_OK);
	done(&rig.events);
	check_bytes(there(&rig), 0x33, 64);
	put_bits(nomatch, CMD_OPCODE, C_CMD_NOMATCH_GET);
	put_bits(nomatch, CMD_LOCAL_ADDR, iova(rig.md, rig.memory + 300000));
	complete(&rig, nomatch, 32, C_EVENT_REPLY, C_RC_OK, 64);
	await(&rig.events, C_EVENT_GET, C_RC_OK);
	done(&rig.events);
	check_bytes(rig.memory + 300000, 0x33, 64);
	/* No event of success, and an event that data has left */
	dma(&rig, command, C_CMD_PUT, INDEX);
	put_bits(command, CMD_REQUEST_LEN, 8);
	put_bits(command, CMD_SUCCESS_DISABLE, 1);
	send(&rig, command, 64);
	await(&rig.events, C_EVENT_PUT, C_RC_OK);
	done(&rig.events);
	no_event(&rig, &rig.ini);
	put_bits(command, CMD_SEND_DISABLE, 0);
	send(&rig, command, 64);
	await(&rig.ini, C_EVENT_SEND, C_RC_OK);
	done(&rig.ini);
	await(&rig.events, C_EVENT_PUT, C_RC_OK);
	done(&rig.events);
	portal_close(&portal);
	rig_close(&rig);
}

static void failures(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, INDEX, false);
	uint8_t command[64];

	dma(&rig, command, C_CMD_PUT, INDEX);
	put_bits(command, CMD_REQUEST_LEN, 64);
	complete(&rig, command, 64, C_EVENT_ACK, C_RC_ENTRY_NOT_FOUND, 0);
	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 1, iova(rig.md, there(&rig)), PAGE);
	/* Success events off: this is one all the same */
	put_bits(command, CMD_SUCCESS_DISABLE, 1);
	put_bits(command, CMD_REMOTE_OFFSET, PAGE - 63);
	complete(&rig, command, 64, C_EVENT_ACK, C_RC_NO_SPACE, 0);
	await(&rig.events, C_EVENT_PUT, C_RC_NO_SPACE);
	done(&rig.events);
	put_bits(command, CMD_REMOTE_OFFSET, 0);
	put_bits(command, CMD_DFA, own_dfa(&rig, 64));
	complete(&rig, command, 64, C_EVENT_ACK, C_RC_PTLTE_NOT_FOUND, 0);
	put_bits(command, CMD_DFA, dfa(0x999, 0, INDEX));
	complete(&rig, command, 64, C_EVENT_ACK, C_RC_UNDELIVERABLE, 0);
	put_bits(command, CMD_DFA, own_dfa(&rig, INDEX));
	put_bits(command, CMD_LOCAL_ADDR, iova(rig.md, rig.memory) + MEMORY);
	complete(&rig, command, 64, C_EVENT_ACK, C_RC_NO_TRANSLATION, 0);
	put_bits(command, CMD_LAC, 7);
	complete(&rig, command, 64, C_EVENT_ACK, C_RC_INVALID_AC, 0);
	/* The portal disabled again */
	target(&rig, command, C_CMD_TGT_SETSTATE, &portal);
	put_bits(command, STATE_STATE, C_PTLTE_DISABLED);
	post(&rig, command);
	await(&rig.events, C_EVENT_STATE_CHANGE, C_RC_OK);
	done(&rig.events);
	dma(&rig, command, C_CMD_PUT, INDEX);
	put_bits(command, CMD_REQUEST_LEN, 8);
	complete(&rig, command, 64, C_EVENT_ACK, C_RC_PT_DISABLED, 0);
	portal_close(&portal);
	rig_close(&rig);
}

/* An illegal command stops its queue and says so */
static void command_failure(void)
{
	struct rig rig = rig_open(0);
	struct cxi_cq_alloc_opts opts = { .count = 64, .flags = CXI_CQ_IS_TX, .lcid = rig.cp->lcid };
	uint8_t command[64] = { 0 };
	const uint8_t *event;
	struct cxi_cq *cq;

	CHECK_EQ(cxil_alloc_cmdq(rig.lni, rig.ini.eq, &opts, &cq), 0);
	CHECK_EQ(cxil_destroy_evtq(rig.ini.eq), -EBUSY);
	put_bits(command, CMD_TYPE, C_CMD_TYPE_DMA);
	put_bits(command, CMD_OPCODE, C_CMD_CLEAR);
	CHECK_EQ(cq_emit(cq, command, 32), 0);
	cq_ring(cq);
	event = await(&rig.ini, C_EVENT_COMMAND_FAILURE, C_RC_ILLEGAL_OP);
	CHECK_EQ(get_bits(event, FAIL_CQ), cq->idx);
	CHECK_EQ(get_bits(event, FAIL_IS_TARGET), 0);
	CHECK_EQ(get_bits(event, FAIL_SLOT), 4);
	done(&rig.ini);
	CHECK_EQ(((volatile uint8_t *)cq->status)[4], command[0]);
	CHECK_EQ(((volatile uint8_t *)cq->status)[6] & 63, C_RC_ILLEGAL_OP);
	CHECK_EQ(cxil_destroy_cmdq(cq), 0);
	rig_close(&rig);
}

static void atomics(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, INDEX, false);
	volatile uint64_t *word = (uint64_t *)there(&rig), *fetched = (uint64_t *)(rig.memory + 128);
	uint8_t command[128] = { 0 }, small[64] = { 0 };
	const uint8_t *event;

	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 0, iova(rig.md, there(&rig)), PAGE);
	c_state(&rig, INDEX, true, 0x99);
	*word = 40;
	/* Immediate: 40 + 2 */
	put_bits(small, CMD_OPCODE, C_CMD_ATOMIC);
	put_bits(small, CMD_LENGTH, 32);
	put_bits(small, CMD_DFA, own_dfa(&rig, INDEX));
	put_bits(small, 128, 4, C_AMO_OP_SUM);
	put_bits(small, 136, 4, C_AMO_TYPE_UINT64_T);
	put_bits(small, 192, 64, 2);
	complete(&rig, small, 32, C_EVENT_ACK, C_RC_OK, 8);
	event = await(&rig.events, C_EVENT_ATOMIC, C_RC_OK);
	CHECK_EQ(get_bits(event, 480, 4), C_AMO_TYPE_UINT64_T);
	CHECK_EQ(get_bits(event, 484, 4), C_AMO_OP_SUM);
	done(&rig.events);
	CHECK_EQ(*word, 42);
	/* Immediate, fetching: swaps if it is 42 */
	memset(small, 0, 64);
	put_bits(small, CMD_SIZE, C_CMD_SIZE_64B);
	put_bits(small, CMD_OPCODE, C_CMD_FETCHING_ATOMIC);
	put_bits(small, CMD_LENGTH, 64);
	put_bits(small, CMD_DFA, own_dfa(&rig, INDEX));
	put_bits(small, CMD_LOCAL_ADDR, iova(rig.md, (void *)fetched));
	put_bits(small, IDC_AMO_OP, C_AMO_OP_CSWAP);
	put_bits(small, IDC_AMO_TYPE, C_AMO_TYPE_UINT64_T);
	put_bits(small, IDC_AMO_CSWAP, C_AMO_OP_CSWAP_EQ);
	put_bits(small, IDC_AMO_OP1, 1000);
	put_bits(small, IDC_AMO_OP2, 42);
	complete(&rig, small, 64, C_EVENT_REPLY, C_RC_OK, 8);
	await(&rig.events, C_EVENT_FETCH_ATOMIC, C_RC_OK);
	done(&rig.events);
	CHECK(*word == 1000 && *fetched == 42);
	/* From memory: or, with what was there before */
	*(uint64_t *)rig.memory = 7;
	dma(&rig, command, C_CMD_FETCHING_ATOMIC, INDEX);
	put_bits(command, CMD_SIZE, C_CMD_SIZE_128B);
	put_bits(command, CMD_REQUEST_LEN, 8);
	put_bits(command, AMO_WRITE_ADDR, iova(rig.md, (void *)fetched));
	put_bits(command, AMO_WRITE_LAC, rig.md->lac);
	put_bits(command, AMO_OP, C_AMO_OP_BOR);
	put_bits(command, AMO_TYPE, C_AMO_TYPE_UINT64_T);
	complete(&rig, command, 128, C_EVENT_REPLY, C_RC_OK, 8);
	await(&rig.events, C_EVENT_FETCH_ATOMIC, C_RC_OK);
	done(&rig.events);
	CHECK(*word == 1007 && *fetched == 1000);
	put_bits(command, CMD_OPCODE, C_CMD_ATOMIC);
	put_bits(command, AMO_OP, C_AMO_OP_MAX);
	*(uint64_t *)rig.memory = 5000;
	complete(&rig, command, 128, C_EVENT_ACK, C_RC_OK, 8);
	await(&rig.events, C_EVENT_ATOMIC, C_RC_OK);
	done(&rig.events);
	CHECK_EQ(*word, 5000);
	/* Misaligned */
	put_bits(command, CMD_REMOTE_OFFSET, 4);
	complete(&rig, command, 128, C_EVENT_ACK, C_RC_AMO_ALIGN_ERROR, 0);
	await(&rig.events, C_EVENT_ATOMIC, C_RC_AMO_ALIGN_ERROR);
	done(&rig.events);
	portal_close(&portal);
	rig_close(&rig);
}

/* A message of 64 bytes with these match bits */
static void message(struct rig *rig, uint64_t match_bits, uint8_t mark)
{
	uint8_t command[64];

	memset(rig->memory, mark, 64);
	dma(rig, command, C_CMD_PUT, INDEX);
	put_bits(command, CMD_REQUEST_LEN, 64);
	put_bits(command, CMD_MATCH_BITS, match_bits);
	put_bits(command, CMD_HEADER_DATA, mark);
	complete(rig, command, 64, C_EVENT_ACK, C_RC_OK, 64);
}

/* Expects a message with these match bits: used once */
static void expect(struct rig *rig, struct portal *portal, uint64_t match_bits, unsigned int id)
{
	uint8_t command[64];

	append(rig, portal, command);
	put_bits(command, TGT_USE_ONCE, 1);
	put_bits(command, TGT_BUFFER_ID, id);
	put_bits(command, TGT_START, iova(rig->md, there(rig)));
	put_bits(command, TGT_LENGTH, PAGE);
	put_bits(command, TGT_MATCH_BITS, match_bits);
	put_bits(command, TGT_IGNORE_BITS, 0);
	post(rig, command);
}

static void messages(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, INDEX, true);
	uint8_t command[64], header[64] = { 0 };
	uint64_t offsets[2] = { 0 };
	struct cxi_pte_status status = { .ule_offsets = offsets, .ule_count = 2 };
	const uint8_t *event;

	/* Expected: link, unlink, put; among two, the one that matches */
	expect(&rig, &portal, 0x11, 1);
	expect(&rig, &portal, 0x22, 2);
	for (unsigned int id = 1; id <= 2; id++) {
		CHECK_EQ(get_bits(await(&rig.events, C_EVENT_LINK, C_RC_OK), EV_BUFFER_ID), id);
		done(&rig.events);
	}
	message(&rig, 0x22, 0x61);
	event = await(&rig.events, C_EVENT_UNLINK, C_RC_OK);
	CHECK(get_bits(event, EV_AUTO_UNLINKED) && get_bits(event, EV_BUFFER_ID) == 2);
	done(&rig.events);
	event = await(&rig.events, C_EVENT_PUT, C_RC_OK);
	CHECK(get_bits(event, EV_MATCH_BITS) == 0x22 && get_bits(event, EV_BUFFER_ID) == 2);
	CHECK_EQ(get_bits(event, EV_AUTO_UNLINKED), 1);
	done(&rig.events);
	check_bytes(there(&rig), 0x61, 64);
	/* Unlinked by hand, once */
	target(&rig, command, C_CMD_TGT_UNLINK, &portal);
	put_bits(command, TGT_BUFFER_ID, 1);
	post(&rig, command);
	event = await(&rig.events, C_EVENT_UNLINK, C_RC_OK);
	CHECK_EQ(get_bits(event, EV_AUTO_UNLINKED), 0);
	done(&rig.events);
	post(&rig, command);
	await(&rig.events, C_EVENT_UNLINK, C_RC_ENTRY_NOT_FOUND);
	done(&rig.events);
	CHECK_EQ(cxil_invalidate_pte_le(NULL, 1, C_PTL_LIST_PRIORITY), -EINVAL);
	CHECK_EQ(cxil_invalidate_pte_le(portal.pte, 65536, C_PTL_LIST_PRIORITY), -EINVAL);
	CHECK_EQ(cxil_invalidate_pte_le(portal.pte, 1, C_PTL_LIST_UNEXPECTED), -EINVAL);
	CHECK_EQ(cxil_invalidate_pte_le(portal.pte, 1, C_PTL_LIST_PRIORITY), 0);
	/* Unexpected: into the overflow list, told to whom it concerns when that comes */
	link_all(&rig, &portal, C_PTL_LIST_OVERFLOW, 9, iova(rig.md, there(&rig) + PAGE), PAGE);
	message(&rig, 0x33, 0x62);
	event = await(&rig.events, C_EVENT_PUT, C_RC_OK);
	CHECK(get_bits(event, EVENT_SIZE) == C_EVENT_SIZE_64_BYTE && get_bits(event, EV_BUFFER_ID) == 9);
	CHECK_EQ(get_bits(event, EV_LIST), C_PTL_LIST_OVERFLOW);
	CHECK_EQ(get_bits(event, EV_START), iova(rig.md, there(&rig) + PAGE));
	done(&rig.events);
	CHECK_EQ(cxil_pte_status(NULL, &status), -EINVAL);
	CHECK_EQ(cxil_pte_status(portal.pte, NULL), -EINVAL);
	CHECK_EQ(cxil_pte_status(portal.pte, &status), 0);
	CHECK(status.state == C_PTLTE_ENABLED && status.ule_count == 1 && status.les_allocated == 2);
	CHECK(status.drop_count == 0 && status.les_max > 1000);
	CHECK_EQ(offsets[0], iova(rig.md, there(&rig) + PAGE));
	status.ule_offsets = NULL;
	CHECK_EQ(cxil_pte_status(portal.pte, &status), -EINVAL);
	CHECK_EQ(cxil_pte_transition_sm(NULL, 0), -EINVAL);
	CHECK_EQ(cxil_pte_transition_sm(portal.pte, 0), -EOPNOTSUPP);
	target(&rig, command, C_CMD_TGT_SEARCH, &portal);
	put_bits(command, TGT_LIST, C_PTL_LIST_UNEXPECTED);
	put_bits(command, TGT_MATCH_ID, CXI_MATCH_ID_ANY);
	put_bits(command, TGT_MATCH_BITS, 0x33);
	put_bits(command, TGT_OP_PUT, 1);
	post(&rig, command);
	CHECK_EQ(get_bits(await(&rig.events, C_EVENT_SEARCH, C_RC_OK), EV_HEADER_DATA), 0x62);
	done(&rig.events);
	/* A search ends with an event that says there is no more */
	await(&rig.events, C_EVENT_SEARCH, C_RC_NO_MATCH);
	done(&rig.events);
	expect(&rig, &portal, 0x33, 3);
	event = await(&rig.events, C_EVENT_PUT_OVERFLOW, C_RC_OK);
	CHECK(get_bits(event, EV_BUFFER_ID) == 3 && get_bits(event, EV_MLENGTH) == 64);
	CHECK(get_bits(event, EV_RLENGTH) == 64 && get_bits(event, EV_HEADER_DATA) == 0x62);
	CHECK_EQ(get_bits(event, EV_START), iova(rig.md, there(&rig) + PAGE));
	done(&rig.events);
	put_bits(command, CMD_OPCODE, C_CMD_TGT_SEARCH_AND_DELETE);
	post(&rig, command);
	await(&rig.events, C_EVENT_SEARCH, C_RC_NO_MATCH);
	done(&rig.events);
	/* A small message */
	expect(&rig, &portal, 0x44, 4);
	await(&rig.events, C_EVENT_LINK, C_RC_OK);
	done(&rig.events);
	c_state(&rig, INDEX, false, 0);
	put_bits(header, CMD_SIZE, C_CMD_SIZE_64B);
	put_bits(header, CMD_OPCODE, C_CMD_SMALL_MESSAGE);
	put_bits(header, CMD_LENGTH, 32 + 32);
	put_bits(header, CMD_DFA, own_dfa(&rig, INDEX));
	put_bits(header, MSG_MATCH_BITS, 0x44);
	put_bits(header, MSG_HEADER_DATA, 0x4444);
	put_bits(header, MSG_USER_PTR, 0xabc);
	memset(header + 32, 0x63, 32);
	send(&rig, header, 64);
	CHECK_EQ(get_bits(await(&rig.ini, C_EVENT_ACK, C_RC_OK), INI_USER_PTR), 0xabc);
	done(&rig.ini);
	await(&rig.events, C_EVENT_UNLINK, C_RC_OK);
	done(&rig.events);
	CHECK_EQ(get_bits(await(&rig.events, C_EVENT_PUT, C_RC_OK), EV_HEADER_DATA), 0x4444);
	done(&rig.events);
	check_bytes(there(&rig), 0x63, 32);
	portal_close(&portal);
	rig_close(&rig);
}

/* 1000 bytes along, the rest fetched by the NIC */
static void rendezvous(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, INDEX, true);
	struct portal source = portal_open(&rig, 255, true);
	uint8_t command[64];
	const uint8_t *event;

	link_all(&rig, &source, C_PTL_LIST_PRIORITY, 8, iova(rig.md, rig.memory), MEMORY / 2);
	memset(rig.memory, 0x71, 50000);
	expect(&rig, &portal, 0x55, 5);
	await(&rig.events, C_EVENT_LINK, C_RC_OK);
	done(&rig.events);
	dma(&rig, command, C_CMD_RENDEZVOUS_PUT, INDEX);
	put_bits(command, CMD_REQUEST_LEN, 4000);
	put_bits(command, CMD_EAGER_LENGTH, 1000);
	put_bits(command, CMD_RENDEZVOUS_ID, 3);
	put_bits(command, CMD_MATCH_BITS, 0x55);
	complete(&rig, command, 64, C_EVENT_ACK, C_RC_OK, 1000);
	await(&rig.events, C_EVENT_UNLINK, C_RC_OK);
	done(&rig.events);
	event = await(&rig.events, C_EVENT_PUT, C_RC_OK);
	CHECK(get_bits(event, EV_RENDEZVOUS) && get_bits(event, EV_RLENGTH) == 4000);
	CHECK_EQ(get_bits(event, EV_MLENGTH), 1000);
	done(&rig.events);
	event = await(&rig.events, C_EVENT_RENDEZVOUS, C_RC_OK);
	CHECK(get_bits(event, EV_GET_ISSUED) && get_bits(event, EV_BUFFER_ID) == 5);
	done(&rig.events);
	/* The get at its source, and its end */
	for (int at = 0; at < 2; at++) {
		while (!(event = eq_peek(rig.events.eq)))
			;
		CHECK_EQ(event_code(event), C_RC_OK);
		if (get_bits(event, EVENT_TYPE) == C_EVENT_REPLY)
			CHECK(get_bits(event, INI_RENDEZVOUS) && get_bits(event, INI_MLENGTH) == 3000);
		else
			CHECK_EQ(get_bits(event, EVENT_TYPE), C_EVENT_GET);
		done(&rig.events);
	}
	check_bytes(there(&rig), 0x71, 4000);
	portal_close(&source);
	portal_close(&portal);
	rig_close(&rig);
}

static void ct_command(struct rig *rig, struct cxi_cq *cq, unsigned int opcode, unsigned int ct,
		       const unsigned int *field, uint64_t value)
{
	uint8_t command[64] = { 0 };

	put_bits(command, CMD_TYPE, C_CMD_TYPE_CT);
	put_bits(command, CMD_SIZE, C_CMD_SIZE_64B);
	put_bits(command, CMD_OPCODE, opcode);
	put_bits(command, CT_CT, ct);
	put_bits(command, CT_TRIG_CT, ct);
	put_bits(command, CT_EQ, rig->ini.eq->eqn);
	put_bits(command, field[0], field[1], value);
	if (field[0] == 64)
		put_bits(command, CT_SET_SUCCESS, 1);
	CHECK_EQ(cq_emit(cq, command, 64), 0);
	cq_ring(cq);
}

static void counters(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, INDEX, false);
	struct cxi_cq_alloc_opts opts = { .count = 64, .flags = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS };
	static const unsigned int threshold[] = { CT_THRESHOLD }, success[] = { CT_SUCCESS };
	volatile uint64_t *write_back = (uint64_t *)(rig.memory + MEMORY - PAGE);
	uint8_t command[64], triggered[128] = { 0 };
	const uint8_t *event;
	struct cxi_cq *trigger;
	struct cxi_ct *ct, *none;

	CHECK_EQ(cxil_alloc_ct(NULL, NULL, &ct), -EINVAL);
	CHECK_EQ(cxil_alloc_ct(rig.lni, NULL, NULL), -EINVAL);
	CHECK_EQ(cxil_alloc_ct(rig.lni, (void *)(rig.memory + 4), &ct), -EINVAL);
	CHECK_EQ(cxil_alloc_ct(rig.lni, (void *)8, &ct), -EFAULT);
	CHECK_EQ(cxil_alloc_ct(rig.lni, (void *)write_back, &ct), 0);
	CHECK_EQ(cxil_alloc_ct(rig.lni, NULL, &none), 0);
	CHECK(ct->ctn != 0 && none->ctn != ct->ctn);
	CHECK_EQ(cxil_ct_wb_update(NULL, NULL), -EINVAL);
	CHECK_EQ(cxil_ct_wb_update(none, (void *)(rig.memory + 1)), -EINVAL);
	CHECK_EQ(cxil_ct_wb_update(none, (void *)(write_back + 1)), 0);
	CHECK_EQ(cxil_destroy_ct(NULL), -EINVAL);
	CHECK_EQ(cxil_destroy_ct(none), 0);
	CHECK_EQ(cxil_alloc_cmdq(rig.lni, rig.ini.eq, &opts, &trigger), 0);
	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 0, iova(rig.md, there(&rig)), PAGE);
	/* An event at three acknowledged puts */
	ct_command(&rig, trigger, C_CMD_CT_TRIG_EVENT, ct->ctn, threshold, 3);
	dma(&rig, command, C_CMD_PUT, INDEX);
	put_bits(command, CMD_REQUEST_LEN, 8);
	put_bits(command, CMD_SUCCESS_DISABLE, 1);
	put_bits(command, CMD_CT_ACK, 1);
	put_bits(command, CMD_CT, ct->ctn);
	for (int at = 0; at < 3; at++) {
		no_event(&rig, &rig.ini);
		send(&rig, command, 64);
		await(&rig.events, C_EVENT_PUT, C_RC_OK);
		done(&rig.events);
	}
	event = await(&rig.ini, C_EVENT_TRIGGERED_OP, C_RC_OK);
	CHECK(get_bits(event, TRIG_THRESHOLD) == 3 && get_bits(event, TRIG_CT) == ct->ctn);
	done(&rig.ini);
	/* A put at ten, to which the doorbell brings it */
	memset(rig.memory, 0x29, 8);
	put_bits(triggered, CMD_TYPE, C_CMD_TYPE_CT);
	put_bits(triggered, CMD_SIZE, C_CMD_SIZE_128B);
	put_bits(triggered, CMD_OPCODE, C_CMD_CT_TRIG_DMA);
	put_bits(triggered, CT_TRIG_CT, ct->ctn);
	put_bits(triggered, CT_THRESHOLD, 10);
	dma(&rig, triggered + CT_DMA_AT, C_CMD_PUT, INDEX);
	put_bits(triggered + CT_DMA_AT, CMD_REQUEST_LEN, 8);
	put_bits(triggered + CT_DMA_AT, CMD_REMOTE_OFFSET, 64);
	CHECK_EQ(cq_emit_trigger(trigger, triggered, 128), 0);
	cq_ring(trigger);
	CHECK_EQ(cxil_inbound_wait(rig.dev), 0);
	CHECK_EQ(there(&rig)[64], 0);
	*(volatile uint64_t *)ct->doorbell = 7;
	await(&rig.ini, C_EVENT_ACK, C_RC_OK);
	done(&rig.ini);
	await(&rig.events, C_EVENT_PUT, C_RC_OK);
	done(&rig.events);
	check_bytes(there(&rig) + 64, 0x29, 8);
	/* Written back with the event, at 3; on request; and when it is set */
	CHECK_EQ(*write_back & 0xffffffffffff, 3);
	*write_back = 0;
	ct_command(&rig, trigger, C_CMD_CT_GET, ct->ctn, threshold, 0);
	while (!(*write_back >> 63))
		;
	CHECK_EQ(*write_back & 0xffffffffffff, 10);
	ct_command(&rig, trigger, C_CMD_CT_SET, ct->ctn, success, 77);
	while ((*write_back & 0xffffffffffff) != 77)
		;
	ct_command(&rig, trigger, C_CMD_CT_INC, ct->ctn, success, 3);
	CHECK_EQ(cxil_inbound_wait(rig.dev), 0);
	*write_back = 0;
	ct_command(&rig, trigger, C_CMD_CT_GET, ct->ctn, threshold, 0);
	while (!(*write_back >> 63))
		;
	CHECK_EQ(*write_back & 0xffffffffffff, 80);
	/* What waits is cancelled with its counter */
	ct_command(&rig, trigger, C_CMD_CT_TRIG_EVENT, ct->ctn, threshold, 1000);
	CHECK_EQ(cxil_inbound_wait(rig.dev), 0);
	CHECK_EQ(cxil_destroy_ct(ct), 0);
	await(&rig.ini, C_EVENT_TRIGGERED_OP, C_RC_CANCELED);
	done(&rig.ini);
	CHECK_EQ(cxil_destroy_cmdq(trigger), 0);
	portal_close(&portal);
	rig_close(&rig);
}

/* Another profile for the commands to come; a fence */
static void profiles_and_fences(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, INDEX, false);
	struct cxi_cp *other;
	struct cxil_domain *domain;
	uint8_t command[64], about[64] = { 0 };

	CHECK_EQ(cxil_alloc_cp(rig.lni, 10, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &other), 0);
	CHECK_EQ(cxil_alloc_domain(rig.lni, 10, 77, &domain), 0);
	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 0, iova(rig.md, there(&rig)), PAGE);
	put_bits(about, CMD_TYPE, C_CMD_TYPE_CQ);
	put_bits(about, CMD_SIZE, C_CMD_SIZE_64B);
	put_bits(about, CMD_OPCODE, C_CMD_CQ_LCID);
	put_bits(about, CQ_LCID, other->lcid);
	send(&rig, about, 64);
	dma(&rig, command, C_CMD_PUT, INDEX);
	put_bits(command, CMD_REQUEST_LEN, 8);
	/* On VNI 10, where this address has nothing mapped */
	complete(&rig, command, 64, C_EVENT_ACK, C_RC_PTLTE_NOT_FOUND, 0);
	put_bits(about, CQ_LCID, rig.cp->lcid);
	send(&rig, about, 64);
	put_bits(about, CMD_OPCODE, C_CMD_CQ_FENCE);
	CHECK_EQ(cq_emit(rig.tx, command, 64), 0);
	CHECK_EQ(cq_emit(rig.tx, about, 64), 0);
	CHECK_EQ(cq_emit(rig.tx, command, 64), 0);
	cq_ring(rig.tx);
	for (int at = 0; at < 2; at++) {
		await(&rig.ini, C_EVENT_ACK, C_RC_OK);
		done(&rig.ini);
		await(&rig.events, C_EVENT_PUT, C_RC_OK);
		done(&rig.events);
	}
	CHECK_EQ(cxil_destroy_domain(domain), 0);
	CHECK_EQ(cxil_destroy_cp(other), 0);
	portal_close(&portal);
	rig_close(&rig);
}

static void portals(void)
{
	struct rig rig = rig_open(0);
	struct cxi_pt_alloc_opts opts = { 0 };
	struct cxil_lni *lni;
	struct cxil_domain *domain;
	struct cxil_pte *pte;
	struct cxil_pte_map *map;

	CHECK_EQ(cxil_alloc_pte(NULL, NULL, &opts, &pte), -EINVAL);
	CHECK_EQ(cxil_alloc_pte(rig.lni, NULL, NULL, &pte), -EINVAL);
	CHECK_EQ(cxil_alloc_pte(rig.lni, NULL, &opts, NULL), -EINVAL);
	opts.ethernet = 1;
	CHECK_EQ(cxil_alloc_pte(rig.lni, NULL, &opts, &pte), geteuid() ? -EPERM : -EOPNOTSUPP);
	opts.ethernet = 0;
	opts.lossless = 1;
	CHECK_EQ(cxil_alloc_pte(rig.lni, NULL, &opts, &pte), -EOPNOTSUPP);
	opts.lossless = 0;
	CHECK_EQ(cxil_alloc_pte(rig.lni, rig.events.eq, &opts, &pte), 0);
	CHECK_EQ(cxil_destroy_evtq(rig.events.eq), -EBUSY);
	CHECK_EQ(cxil_map_pte(NULL, rig.domain, 0, false, &map), -EINVAL);
	CHECK_EQ(cxil_map_pte(pte, NULL, 0, false, &map), -EINVAL);
	CHECK_EQ(cxil_map_pte(pte, rig.domain, 0, false, NULL), -EINVAL);
	CHECK_EQ(cxil_map_pte(pte, rig.domain, 256, false, &map), -EINVAL);
	CHECK_EQ(cxil_map_pte(pte, rig.domain, 0, true, &map), -EOPNOTSUPP);
	CHECK_EQ(cxil_alloc_lni(rig.dev, &lni, 1), 0);
	CHECK_EQ(cxil_alloc_domain(lni, 1, C_PID_ANY, &domain), 0);
	CHECK_EQ(cxil_map_pte(pte, domain, 0, false, &map), -EINVAL);
	CHECK_EQ(cxil_destroy_domain(domain), 0);
	CHECK_EQ(cxil_destroy_lni(lni), 0);
	CHECK_EQ(cxil_map_pte(pte, rig.domain, 255, false, &map), 0);
	CHECK_EQ(cxil_destroy_domain(rig.domain), -EBUSY);
	CHECK_EQ(cxil_unmap_pte(NULL), -EINVAL);
	CHECK_EQ(cxil_unmap_pte(map), 0);
	CHECK_EQ(cxil_destroy_pte(NULL), -EINVAL);
	CHECK_EQ(cxil_destroy_pte(pte), 0);
	rig_close(&rig);
}

const struct test operation_tests[] = {
	{ "puts_and_gets", puts_and_gets },
	{ "failures", failures },
	{ "command_failure", command_failure },
	{ "atomics", atomics },
	{ "messages", messages },
	{ "rendezvous", rendezvous },
	{ "counters", counters },
	{ "profiles_and_fences", profiles_and_fences },
	{ "portals", portals },
	{ NULL, NULL },
};
