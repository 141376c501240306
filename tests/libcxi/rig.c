/* See rig.h */
#include "rig.h"

struct queue queue_open_flags(struct cxil_lni *lni, size_t len, uint64_t flags)
{
	struct queue queue = { .buffer = pages(len), .len = len };
	struct cxi_eq_attr attr = { .queue = queue.buffer, .queue_len = len, .flags = flags };

	CHECK_EQ(cxil_map(lni, queue.buffer, len, RW, NULL, &queue.md), 0);
	CHECK_EQ(cxil_alloc_evtq(lni, queue.md, &attr, NULL, NULL, &queue.eq), 0);
	return queue;
}

struct queue queue_open(struct cxil_lni *lni, size_t len)
{
	return queue_open_flags(lni, len, CXI_EQ_EC_DISABLE);
}

void queue_close(struct queue *queue)
{
	CHECK_EQ(cxil_destroy_evtq(queue->eq), 0);
	CHECK_EQ(cxil_unmap(queue->md), 0);
	munmap(queue->buffer, queue->len);
}

struct rig rig_open(unsigned int device)
{
	struct rig rig = { 0 };
	struct cxi_cq_alloc_opts opts = { .count = 64, .flags = CXI_CQ_IS_TX };

	CHECK_EQ(cxil_open_device(device, &rig.dev), 0);
	CHECK_EQ(cxil_alloc_lni(rig.dev, &rig.lni, CXI_DEFAULT_SVC_ID), 0);
	CHECK_EQ(cxil_alloc_cp(rig.lni, VNI, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &rig.cp), 0);
	CHECK_EQ(cxil_alloc_domain(rig.lni, VNI, C_PID_ANY, &rig.domain), 0);
	rig.ini = queue_open(rig.lni, 4 * PAGE);
	rig.events = queue_open(rig.lni, 4 * PAGE);
	opts.lcid = rig.cp->lcid;
	CHECK_EQ(cxil_alloc_cmdq(rig.lni, NULL, &opts, &rig.tx), 0);
	opts.flags = 0;
	CHECK_EQ(cxil_alloc_cmdq(rig.lni, NULL, &opts, &rig.tgt), 0);
	rig.memory = pages(MEMORY);
	CHECK_EQ(cxil_map(rig.lni, rig.memory, MEMORY, RW, NULL, &rig.md), 0);
	return rig;
}

void rig_close(struct rig *rig)
{
	CHECK_EQ(cxil_destroy_cmdq(rig->tx), 0);
	CHECK_EQ(cxil_destroy_cmdq(rig->tgt), 0);
	queue_close(&rig->ini);
	queue_close(&rig->events);
	CHECK_EQ(cxil_unmap(rig->md), 0);
	munmap(rig->memory, MEMORY);
	CHECK_EQ(cxil_destroy_domain(rig->domain), 0);
	CHECK_EQ(cxil_destroy_cp(rig->cp), 0);
	CHECK_EQ(cxil_destroy_lni(rig->lni), 0);
	cxil_close_device(rig->dev);
}

struct portal portal_open(struct rig *rig, unsigned int index, bool matching)
{
	struct portal portal;
	struct cxi_pt_alloc_opts opts = { .is_matching = matching };
	uint8_t command[64];
	const uint8_t *event;

	CHECK_EQ(cxil_alloc_pte(rig->lni, rig->events.eq, &opts, &portal.pte), 0);
	CHECK_EQ(cxil_map_pte(portal.pte, rig->domain, index, false, &portal.map), 0);
	target(rig, command, C_CMD_TGT_SETSTATE, &portal);
	put_bits(command, STATE_STATE, C_PTLTE_ENABLED);
	post(rig, command);
	event = await(&rig->events, C_EVENT_STATE_CHANGE, C_RC_OK);
	CHECK_EQ(get_bits(event, EV_STATE), C_PTLTE_ENABLED);
	CHECK_EQ(get_bits(event, EV_PTE), portal.pte->ptn);
	done(&rig->events);
	return portal;
}

void portal_close(struct portal *portal)
{
	CHECK_EQ(cxil_destroy_pte(portal->pte), -EBUSY);
	CHECK_EQ(cxil_unmap_pte(portal->map), 0);
	CHECK_EQ(cxil_destroy_pte(portal->pte), 0);
}

const uint8_t *await(struct queue *queue, unsigned int type, unsigned int code)
{
	const uint8_t *event;
	time_t end = time(NULL) + 30;

	/* A plain look at memory, as programs for hardware do it: no call of the library */
	while (!(event = eq_peek(queue->eq)))
		if (time(NULL) > end)
			fail("await", (int)type, "an event of this type within 30 s");
	if (get_bits(event, EVENT_TYPE) != type || event_code(event) != code) {
		fprintf(stderr, "event %u code %u, wanted %u code %u\n",
			(unsigned int)get_bits(event, EVENT_TYPE), event_code(event), type, code);
		for (unsigned int at = 0; at < event_len(event); at++)
			fprintf(stderr, "%02x%s", event[at], at + 1 < event_len(event) ? " " : "\n");
		exit(1);
	}
	return event;
}

void done(struct queue *queue)
{
	eq_next(queue->eq);
	eq_ack(queue->eq);
}

uint32_t own_dfa(struct rig *rig, unsigned int index)
{
	return dfa(rig->dev->info.nid, rig->domain->pid, index);
}

void dma(struct rig *rig, uint8_t command[64], unsigned int opcode, unsigned int index)
{
	memset(command, 0, 64);
	put_bits(command, CMD_TYPE, C_CMD_TYPE_DMA);
	put_bits(command, CMD_SIZE, C_CMD_SIZE_64B);
	put_bits(command, CMD_OPCODE, opcode);
	put_bits(command, CMD_INDEX_EXT, index_ext(index));
	put_bits(command, CMD_LAC, rig->md->lac);
	put_bits(command, CMD_SEND_DISABLE, 1);
	put_bits(command, CMD_DFA, own_dfa(rig, index));
	put_bits(command, CMD_LOCAL_ADDR, iova(rig->md, rig->memory));
	put_bits(command, CMD_EQ, rig->ini.eq->eqn);
	put_bits(command, CMD_INITIATOR, match_id(rig->dev->info.nid, rig->domain->pid));
}

void target(struct rig *rig, uint8_t command[64], unsigned int opcode, struct portal *portal)
{
	(void)rig;
	memset(command, 0, 64);
	put_bits(command, CMD_TYPE, C_CMD_TYPE_CQ);
	put_bits(command, CMD_SIZE, C_CMD_SIZE_64B);
	put_bits(command, CMD_OPCODE, opcode);
	put_bits(command, TGT_PTE, portal->pte->ptn);
}

void append(struct rig *rig, struct portal *portal, uint8_t command[64])
{
	target(rig, command, C_CMD_TGT_APPEND, portal);
	put_bits(command, TGT_LIST, C_PTL_LIST_PRIORITY);
	put_bits(command, TGT_OP_PUT, 1);
	put_bits(command, TGT_OP_GET, 1);
	put_bits(command, TGT_LAC, rig->md->lac);
	put_bits(command, TGT_START, iova(rig->md, rig->memory + MEMORY / 2));
	put_bits(command, TGT_LENGTH, MEMORY / 2);
	put_bits(command, TGT_MATCH_ID, CXI_MATCH_ID_ANY);
	put_bits(command, TGT_IGNORE_BITS, UINT64_MAX);
}

void link_all(struct rig *rig, struct portal *portal, unsigned int list, unsigned int id, uint64_t start,
	      uint64_t len)
{
	uint8_t command[64];

	append(rig, portal, command);
	put_bits(command, TGT_LIST, list);
	put_bits(command, TGT_BUFFER_ID, id);
	put_bits(command, TGT_START, start);
	put_bits(command, TGT_LENGTH, len);
	post(rig, command);
	CHECK_EQ(get_bits(await(&rig->events, C_EVENT_LINK, C_RC_OK), EV_BUFFER_ID), id);
	done(&rig->events);
}

void send(struct rig *rig, const void *command, unsigned int len)
{
	CHECK_EQ(cq_emit(rig->tx, command, len), 0);
	cq_ring(rig->tx);
}

void post(struct rig *rig, const uint8_t command[64])
{
	CHECK_EQ(cq_emit(rig->tgt, command, 64), 0);
	cq_ring(rig->tgt);
}

bool is_writable(const void *place)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char rights[8], line[512];
	bool found = false;

	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && (uintptr_t)place >= from &&
		    (uintptr_t)place < to)
			found = rights[1] == 'w';
	fclose(maps);
	return found;
}
