/* Event queues, wait objects, command queues, registers and counters of the NIC */
#include <poll.h>

#include "rig.h"

static void event_queues(void)
{
	struct rig rig = rig_open(0);
	struct cxi_md *md, *unwritable;
	uint8_t *buffer = pages(4 * PAGE);
	struct cxi_eq_attr attr = { .queue = buffer, .queue_len = PAGE };
	struct cxi_eq *eq;

	CHECK_EQ(cxil_map(rig.lni, buffer, 2 * PAGE, RW, NULL, &md), 0);
	CHECK_EQ(cxil_map(rig.lni, buffer, 2 * PAGE, CXI_MAP_PIN | CXI_MAP_READ, NULL, &unwritable), 0);
	CHECK_EQ(cxil_alloc_evtq(NULL, md, &attr, NULL, NULL, &eq), -EINVAL);
	CHECK_EQ(cxil_alloc_evtq(rig.lni, NULL, &attr, NULL, NULL, &eq), -EINVAL);
	CHECK_EQ(cxil_alloc_evtq(rig.lni, md, NULL, NULL, NULL, &eq), -EINVAL);
	CHECK_EQ(cxil_alloc_evtq(rig.lni, md, &attr, NULL, NULL, NULL), -EINVAL);
	CHECK_EQ(cxil_alloc_evtq(rig.lni, unwritable, &attr, NULL, NULL, &eq), -EINVAL);
	attr.queue_len = 100;
	CHECK_EQ(cxil_alloc_evtq(rig.lni, md, &attr, NULL, NULL, &eq), -EINVAL);
	attr.queue_len = 3 * PAGE;
	CHECK_EQ(cxil_alloc_evtq(rig.lni, md, &attr, NULL, NULL, &eq), -EINVAL);
	attr.queue_len = PAGE;
	attr.queue = buffer + 64;
	CHECK_EQ(cxil_alloc_evtq(rig.lni, md, &attr, NULL, NULL, &eq), -EINVAL);
	attr.queue = buffer;
	attr.reserved_slots = 64;
	CHECK_EQ(cxil_alloc_evtq(rig.lni, md, &attr, NULL, NULL, &eq), -EINVAL);
	attr.reserved_slots = 0;
	attr.status_thresh_count = 5;
	CHECK_EQ(cxil_alloc_evtq(rig.lni, md, &attr, NULL, NULL, &eq), -EINVAL);
	attr.status_thresh_count = 0;
	attr.flags = CXI_EQ_REGISTER_PCT;
	CHECK_EQ(cxil_alloc_evtq(rig.lni, md, &attr, NULL, NULL, &eq), geteuid() ? -EPERM : -EEXIST);
	attr.flags = CXI_EQ_PASSTHROUGH;
	CHECK_EQ(cxil_alloc_evtq(rig.lni, NULL, &attr, NULL, NULL, &eq), 0);
	CHECK_EQ(cxil_destroy_evtq(eq), 0);
	attr.flags = 0;
	memset(buffer, 255, PAGE);
	CHECK_EQ(cxil_alloc_evtq(rig.lni, md, &attr, NULL, NULL, &eq), 0);
	CHECK(eq->byte_size == PAGE && eq->rd_offset == 64 && eq->eqn != 0 && buffer[PAGE - 1] == 0);
	CHECK_EQ(cxil_unmap(md), -EBUSY);
	CHECK_EQ(cxil_destroy_evtq(NULL), -EINVAL);
	/* Reserved slots */
	CHECK_EQ(cxil_evtq_adjust_reserved_fc(NULL, 1), -EINVAL);
	CHECK_EQ(cxil_evtq_adjust_reserved_fc(eq, 1 << 14), -EINVAL);
	CHECK_EQ(cxil_evtq_adjust_reserved_fc(eq, -(1 << 14)), -EINVAL);
	CHECK_EQ(cxil_evtq_adjust_reserved_fc(eq, -1), -EINVAL);
	CHECK_EQ(cxil_evtq_adjust_reserved_fc(eq, 63), -ENOSPC);
	CHECK_EQ(cxil_evtq_adjust_reserved_fc(eq, 62), 0);
	CHECK_EQ(cxil_evtq_adjust_reserved_fc(eq, 1), -ENOSPC);
	CHECK_EQ(cxil_evtq_adjust_reserved_fc(eq, -62), 0);
	CHECK_EQ(cxil_destroy_evtq(eq), 0);
	CHECK_EQ(cxil_unmap(md), 0);
	CHECK_EQ(cxil_unmap(unwritable), 0);
	rig_close(&rig);
}

/* Puts to oneself, each of which raises an event of 32 bytes at the target and one of 16 here */
static void put_some(struct rig *rig, unsigned int count, uint64_t mark)
{
	uint8_t command[64];

	dma(rig, command, C_CMD_PUT, 5);
	put_bits(command, CMD_REQUEST_LEN, 8);
	put_bits(command, CMD_HEADER_DATA, mark);
	while (count--) {
		send(rig, command, 64);
		await(&rig->ini, C_EVENT_ACK, C_RC_OK);
		done(&rig->ini);
	}
}

static void check_put(struct rig *rig, uint64_t mark)
{
	CHECK_EQ(get_bits(await(&rig->events, C_EVENT_PUT, C_RC_OK), EV_HEADER_DATA), mark);
	done(&rig->events);
}

static void resize(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, 5, false);
	uint8_t *second = pages(2 * PAGE);
	struct cxi_md *md;

	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 0, iova(rig.md, rig.memory + PAGE), PAGE);
	CHECK_EQ(cxil_map(rig.lni, second, 2 * PAGE, RW, NULL, &md), 0);
	CHECK_EQ(cxil_evtq_resize(NULL, second, PAGE, md), -EINVAL);
	CHECK_EQ(cxil_evtq_resize(rig.events.eq, NULL, PAGE, md), -EINVAL);
	CHECK_EQ(cxil_evtq_resize(rig.events.eq, second, 77, md), -EINVAL);
	CHECK_EQ(cxil_evtq_resize(rig.events.eq, second, 4 * PAGE, md), -EINVAL);
	CHECK_EQ(cxil_evtq_resize(rig.events.eq, second, PAGE, NULL), -EINVAL);
	CHECK_EQ(cxil_evtq_resize_complete(NULL), -EINVAL);
	CHECK_EQ(cxil_evtq_resize_complete(rig.events.eq), -EINVAL);
	put_some(&rig, 3, 0xa);
	CHECK_EQ(cxil_evtq_resize(rig.events.eq, second, 2 * PAGE, md), 0);
	CHECK_EQ(cxil_evtq_resize(rig.events.eq, second, PAGE, md), -EBUSY);
	CHECK_EQ(cxil_unmap(md), -EBUSY);
	/* Neither is the old buffer free yet */
	CHECK_EQ(cxil_unmap(rig.events.md), -EBUSY);
	put_some(&rig, 2, 0xb);
	for (int at = 0; at < 3; at++)
		check_put(&rig, 0xa);
	await(&rig.events, C_EVENT_EQ_SWITCH, C_RC_OK);
	eq_next(rig.events.eq);
	CHECK_EQ(cxil_evtq_resize_complete(rig.events.eq), 0);
	CHECK(rig.events.eq->events == second && rig.events.eq->byte_size == 2 * PAGE);
	check_put(&rig, 0xb);
	CHECK_EQ(cxil_unmap(rig.events.md), 0);
	/* Around the new buffer, which is smaller than the old one */
	check_put(&rig, 0xb);
	for (uint64_t round = 0; round < 400; round++) {
		put_some(&rig, 1, round);
		check_put(&rig, round);
	}
	/* A queue that moves can be destroyed */
	CHECK_EQ(cxil_map(rig.lni, rig.events.buffer, rig.events.len, RW, NULL, &rig.events.md), 0);
	CHECK_EQ(cxil_evtq_resize(rig.events.eq, rig.events.buffer, PAGE, rig.events.md), 0);
	portal_close(&portal);
	CHECK_EQ(cxil_destroy_evtq(rig.events.eq), 0);
	CHECK_EQ(cxil_unmap(rig.events.md), 0);
	CHECK_EQ(cxil_unmap(md), 0);
	rig.events = queue_open(rig.lni, PAGE);
	rig_close(&rig);
}

/* A full queue moves as well: EQ_SWITCH takes the slot that is always kept */
static void resize_full(void)
{
	struct rig rig = rig_open(0);
	struct queue small = queue_open_flags(rig.lni, PAGE, CXI_EQ_TGT_LONG), keep = rig.events;
	struct portal portal;
	uint8_t *second = pages(PAGE);
	struct cxi_md *md;

	rig.events = small;
	portal = portal_open(&rig, 5, false);
	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 0, iova(rig.md, rig.memory + PAGE), PAGE);
	CHECK_EQ(cxil_map(rig.lni, second, PAGE, RW, NULL, &md), 0);
	put_some(&rig, 62, 0xc);
	CHECK_EQ(cxil_evtq_resize(rig.events.eq, second, PAGE, md), 0);
	put_some(&rig, 1, 0xd);
	for (int at = 0; at < 62; at++) {
		CHECK_EQ(get_bits(await(&rig.events, C_EVENT_PUT, C_RC_OK), EV_HEADER_DATA), 0xc);
		eq_next(rig.events.eq);
	}
	await(&rig.events, C_EVENT_EQ_SWITCH, C_RC_OK);
	eq_next(rig.events.eq);
	CHECK_EQ(cxil_evtq_resize_complete(rig.events.eq), 0);
	check_put(&rig, 0xd);
	portal_close(&portal);
	CHECK_EQ(cxil_destroy_evtq(rig.events.eq), 0);
	CHECK_EQ(cxil_unmap(md), 0);
	CHECK_EQ(cxil_unmap(small.md), 0);
	rig.events = keep;
	rig_close(&rig);
}

static int ready(int descriptor, int milliseconds)
{
	struct pollfd polled = { .fd = descriptor, .events = POLLPRI | POLLIN };

	return poll(&polled, 1, milliseconds);
}

static void set_interrupts(struct cxi_eq *eq, bool disabled)
{
	put_bits(&eq->sw_state.qw, 32, 1, disabled);
	eq_ack(eq);
}

static void wait_objects(void)
{
	struct rig rig = rig_open(0);
	struct queue keep = rig.events;
	struct cxil_wait_obj *wait;
	struct portal portal;
	struct cxi_eq_attr attr = { .queue = pages(PAGE), .queue_len = PAGE };
	struct cxi_md *md;
	int descriptor;

	CHECK_EQ(cxil_alloc_wait_obj(NULL, &wait), -EINVAL);
	CHECK_EQ(cxil_alloc_wait_obj(rig.lni, NULL), -EINVAL);
	CHECK_EQ(cxil_alloc_wait_obj(rig.lni, &wait), 0);
	CHECK_EQ(cxil_get_wait_obj_fd(NULL), -EINVAL);
	descriptor = cxil_get_wait_obj_fd(wait);
	CHECK(descriptor >= 0);
	CHECK_EQ(ready(descriptor, 0), 0);
	cxil_clear_wait_obj(NULL);
	CHECK_EQ(cxil_destroy_wait_obj(NULL), -EINVAL);
	CHECK_EQ(cxil_map(rig.lni, attr.queue, PAGE, RW, NULL, &md), 0);
	CHECK_EQ(cxil_alloc_evtq(rig.lni, md, &attr, wait, NULL, &rig.events.eq), 0);
	CHECK_EQ(cxil_destroy_wait_obj(wait), -EBUSY);
	portal = portal_open(&rig, 5, false);
	/* That was an event */
	CHECK_EQ(ready(descriptor, 30000), 1);
	cxil_clear_wait_obj(wait);
	CHECK_EQ(ready(descriptor, 0), 0);
	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 0, iova(rig.md, rig.memory + PAGE), PAGE);
	cxil_clear_wait_obj(wait);
	/* Asleep until the event comes */
	put_some(&rig, 1, 1);
	CHECK_EQ(ready(descriptor, 30000), 1);
	cxil_clear_wait_obj(wait);
	check_put(&rig, 1);
	CHECK_EQ(cxil_inbound_wait(rig.dev), 0);
	CHECK_EQ(ready(descriptor, 0), 0);
	/* None while interrupts are off; who turns them on with an event waiting is told */
	set_interrupts(rig.events.eq, true);
	put_some(&rig, 1, 2);
	CHECK_EQ(cxil_inbound_wait(rig.dev), 0);
	CHECK_EQ(ready(descriptor, 0), 0);
	set_interrupts(rig.events.eq, false);
	CHECK_EQ(ready(descriptor, 30000), 1);
	cxil_clear_wait_obj(wait);
	check_put(&rig, 2);
	portal_close(&portal);
	CHECK_EQ(cxil_destroy_evtq(rig.events.eq), 0);
	CHECK_EQ(cxil_unmap(md), 0);
	rig.events = keep;
	CHECK_EQ(cxil_destroy_wait_obj(wait), 0);
	rig_close(&rig);
}

static void command_queues(void)
{
	struct rig rig = rig_open(0);
	struct cxi_cq_alloc_opts opts = { .flags = CXI_CQ_IS_TX };
	struct cxi_cq_alloc_opts_buf lent = { .is_host_mem = true };
	struct cxi_cq *cq;
	unsigned int count = 0;
	static const unsigned int sizes[][2] = { { 0, 64 }, { 1, 64 }, { 65, 128 }, { 257, 512 },
						 { 16385, 32768 }, { 65536, 65536 } };

	for (unsigned int at = 0; at < sizeof(sizes) / sizeof(sizes[0]); at++) {
		opts.count = sizes[at][0];
		CHECK_EQ(cxil_alloc_cmdq(rig.lni, NULL, &opts, &cq), 0);
		CHECK_EQ(cq->size, sizes[at][1]);
		CHECK_EQ(cq->size32, 2 * cq->size);
		CHECK(cq->wp32 == 8 && cq->hw_wp32 == 8 && cq->rp32 == 8);
		CHECK_EQ(slots_read(cq), 4);
		CHECK_EQ(cxil_destroy_cmdq(cq), 0);
	}
	opts.count = 65537;
	CHECK_EQ(cxil_alloc_cmdq(rig.lni, NULL, &opts, &cq), -E2BIG);
	opts.count = 64;
	CHECK_EQ(cxil_alloc_cmdq(NULL, NULL, &opts, &cq), -EINVAL);
	CHECK_EQ(cxil_alloc_cmdq(rig.lni, NULL, NULL, &cq), -EINVAL);
	CHECK_EQ(cxil_alloc_cmdq(rig.lni, NULL, &opts, NULL), -EINVAL);
	opts.policy = 4;
	CHECK_EQ(cxil_alloc_cmdq(rig.lni, NULL, &opts, &cq), -EINVAL);
	opts.policy = 0;
	opts.lpe_cdt_thresh_id = 4;
	CHECK_EQ(cxil_alloc_cmdq(rig.lni, NULL, &opts, &cq), -EINVAL);
	opts.lpe_cdt_thresh_id = 0;
	opts.lcid = 5;
	CHECK_EQ(cxil_alloc_cmdq(rig.lni, NULL, &opts, &cq), -EINVAL);
	opts.flags |= CXI_CQ_TX_WITH_TRIG_CMDS;
	opts.lcid = 1;
	CHECK_EQ(cxil_alloc_cmdq(rig.lni, NULL, &opts, &cq), -EINVAL);
	opts.lcid = 0;
	opts.flags = CXI_CQ_IS_TX | CXI_CQ_TX_ETHERNET;
	CHECK_EQ(cxil_alloc_cmdq(rig.lni, NULL, &opts, &cq), geteuid() ? -EPERM : -EOPNOTSUPP);
	opts.flags = CXI_CQ_IS_TX;
	CHECK_EQ(cxil_destroy_cmdq(NULL), -EINVAL);
	/* In memory of one's own */
	lent.opts = opts;
	CHECK_EQ(cxil_alloc_buf_cmdq(rig.lni, NULL, NULL, &cq), -EINVAL);
	CHECK_EQ(cxil_alloc_buf_cmdq(rig.lni, NULL, &lent, &cq), -EINVAL);
	lent.buf = (uint8_t *)pages(2 * PAGE) + 64;
	CHECK_EQ(cxil_alloc_buf_cmdq(rig.lni, NULL, &lent, &cq), -EINVAL);
	lent.buf = pages(PAGE);
	lent.is_host_mem = false;
	CHECK_EQ(cxil_alloc_buf_cmdq(rig.lni, NULL, &lent, &cq), -EOPNOTSUPP);
	lent.is_host_mem = true;
	CHECK_EQ(cxil_alloc_buf_cmdq(rig.lni, NULL, &lent, NULL), -EINVAL);
	CHECK_EQ(cxil_alloc_buf_cmdq(rig.lni, NULL, &lent, &cq), 0);
	CHECK((void *)cq->cmds32 == lent.buf);
	{
		struct cxi_cq *own = rig.tx;
		struct portal portal = portal_open(&rig, 5, false);

		rig.tx = cq;
		link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 0, iova(rig.md, rig.memory + PAGE), PAGE);
		put_some(&rig, 70, 1);
		CHECK_EQ(cxil_cmdq_ack_counter(NULL, &count), -EINVAL);
		CHECK_EQ(cxil_cmdq_ack_counter(cq, NULL), -EINVAL);
		CHECK_EQ(cxil_cmdq_ack_counter(rig.tgt, &count), -EINVAL);
		CHECK_EQ(cxil_cmdq_ack_counter(cq, &count), 0);
		CHECK_EQ(count, 0);
		for (int at = 0; at < 70; at++)
			check_put(&rig, 1);
		rig.tx = own;
		portal_close(&portal);
	}
	CHECK_EQ(cxil_destroy_cmdq(cq), 0);
	((uint8_t *)lent.buf)[0] = 1; /* still ours */
	rig_close(&rig);
}

/* Commands of all sizes by doorbell and by low-latency writes in turns, many times around the ring */
static void submission(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, 5, false);
	static const unsigned int payloads[] = { 16, 48, 112, 192, 8 };
	uint8_t *there = rig.memory + PAGE;
	uint8_t command[256];

	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 0, iova(rig.md, there), PAGE);
	c_state(&rig, 5, false, 0x77);
	for (unsigned int round = 0; round < 500; round++) {
		unsigned int payload = payloads[round % 5];
		unsigned int code = payload <= 16 ? 0 : payload <= 48 ? 1 : payload <= 112 ? 2 : 3;
		const uint8_t *event;

		memset(command, 0, sizeof(command));
		put_bits(command, CMD_SIZE, code);
		put_bits(command, CMD_OPCODE, C_CMD_PUT);
		put_bits(command, CMD_LENGTH, 16 + payload);
		put_bits(command, CMD_DFA, own_dfa(&rig, 5));
		put_bits(command, CMD_REMOTE_OFFSET, round % 8);
		memset(command + 16, round, payload);
		CHECK_EQ(cq_emit(rig.tx, command, 32 << code), 0);
		if (round / 5 % 2)
			cq_ll_ring(rig.tx);
		else
			cq_ring(rig.tx);
		event = await(&rig.ini, C_EVENT_ACK, C_RC_OK);
		CHECK_EQ(get_bits(event, INI_USER_PTR), 0x77);
		CHECK_EQ(get_bits(event, INI_MLENGTH), payload);
		done(&rig.ini);
		event = await(&rig.events, C_EVENT_PUT, C_RC_OK);
		CHECK_EQ(get_bits(event, EV_SHORT_LENGTH), payload);
		done(&rig.events);
		for (unsigned int at = 0; at < payload; at++)
			CHECK_EQ(there[round % 8 + at], (uint8_t)round);
	}
	/* A full ring is refused, and goes on when it has been read */
	memset(command, 0, 64);
	put_bits(command, CMD_TYPE, C_CMD_TYPE_CQ);
	put_bits(command, CMD_SIZE, C_CMD_SIZE_64B);
	for (int at = 0; at < 59; at++)
		CHECK_EQ(cq_emit(rig.tx, command, 64), 0);
	CHECK_EQ(cq_emit(rig.tx, command, 64), -ENOSPC);
	cq_ring(rig.tx);
	while (slots_read(rig.tx) != rig.tx->wp32 / 2)
		;
	CHECK_EQ(cq_emit(rig.tx, command, 64), 0);
	cq_ring(rig.tx);
	portal_close(&portal);
	rig_close(&rig);
}

static void registers(void)
{
	struct cxil_dev *dev;
	uint64_t value = 0, later = 0;
	static const unsigned int clocks[] = { C_HNI_ERR_ELAPSED_TIME, C_CQ_ERR_ELAPSED_TIME,
					       C_RMU_ERR_ELAPSED_TIME };

	CHECK_EQ(cxil_open_device(0, &dev), 0);
	CHECK_EQ(cxil_read_csr(dev, C_HNI_ERR_ELAPSED_TIME, &value, 8), -EINVAL);
	CHECK_EQ(cxil_map_csr(NULL), -EINVAL);
	if (geteuid() != 0) {
		CHECK_EQ(cxil_map_csr(dev), -EPERM);
		cxil_close_device(dev);
		return;
	}
	CHECK_EQ(cxil_map_csr(dev), 0);
	CHECK_EQ(cxil_map_csr(dev), -EINVAL);
	CHECK_EQ(cxil_read_csr(NULL, C_HNI_ERR_ELAPSED_TIME, &value, 8), -EINVAL);
	CHECK_EQ(cxil_read_csr(dev, C_HNI_ERR_ELAPSED_TIME, NULL, 8), -EINVAL);
	CHECK_EQ(cxil_read_csr(dev, C_HNI_ERR_ELAPSED_TIME, &value, 7), -EINVAL);
	CHECK_EQ(cxil_read_csr(dev, C_HNI_ERR_ELAPSED_TIME, &value, 0), -EINVAL);
	CHECK_EQ(cxil_read_csr(dev, 1, &value, 8), -EINVAL);
	CHECK_EQ(cxil_read_csr(dev, 0xfffffff8, &value, 8), -EINVAL);
	CHECK_EQ(cxil_read_csr(dev, 0, &value, 8), -EOPNOTSUPP);
	for (unsigned int at = 0; at < 3; at++) {
		CHECK_EQ(cxil_read_csr(dev, clocks[at], &value, 8), 0);
		do
			CHECK_EQ(cxil_read_csr(dev, clocks[at], &later, 8), 0);
		while (later == value);
		CHECK(later > value && (later & ((1 << 30) - 1)) < 1000000000);
	}
	CHECK_EQ(cxil_write_csr(NULL, 0, &value, 8), -EINVAL);
	CHECK_EQ(cxil_write_csr(dev, 0, NULL, 8), -EINVAL);
	CHECK_EQ(cxil_write_csr(dev, 0, &value, 3), -EINVAL);
	CHECK_EQ(cxil_write_csr(dev, C_HNI_ERR_ELAPSED_TIME, &value, 8), -EOPNOTSUPP);
	CHECK_EQ(cxil_write8_csr(NULL, 0, 0, &value, 1), -EINVAL);
	CHECK_EQ(cxil_write8_csr(dev, 0, 0, NULL, 1), -EINVAL);
	CHECK_EQ(cxil_write8_csr(dev, 0xffffffff, 1, &value, 1), -EINVAL);
	CHECK_EQ(cxil_write8_csr(dev, 0, 3, &value, 1), -EOPNOTSUPP);
	cxil_close_device(dev);
}

/* Numbers of c_cntr_type */
#define SUCCESS_TX 480
#define FAIL_TX 482
#define TX_OP_ERRORS 513
#define EVENT_PUT 904
#define EVENT_ACK 913
#define EVENT_LINK 915

static void telemetry(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, 5, false);
	static uint64_t all[C1_CNTR_SIZE + 1];
	uint32_t numbers[] = { EVENT_PUT, EVENT_LINK, EVENT_ACK, SUCCESS_TX, FAIL_TX };
	const enum c_cntr_type *which = (const enum c_cntr_type *)numbers;
	uint64_t before[5], values[5];
	struct timespec time = { 0 };
	uint8_t command[64] = { 0 };

	CHECK_EQ(cxil_read_cntr(NULL, EVENT_PUT, values, NULL), -EINVAL);
	CHECK_EQ(cxil_read_cntr(rig.dev, EVENT_PUT, NULL, NULL), -EINVAL);
	CHECK_EQ(cxil_read_cntr(rig.dev, 0, values, NULL), -EINVAL);
	CHECK_EQ(cxil_read_cntr(rig.dev, 2000, values, NULL), -EINVAL);
	CHECK_EQ(cxil_read_n_cntrs(NULL, 5, which, values, NULL), -EINVAL);
	CHECK_EQ(cxil_read_n_cntrs(rig.dev, 0, which, values, NULL), -EINVAL);
	CHECK_EQ(cxil_read_n_cntrs(rig.dev, 5, NULL, values, NULL), -EINVAL);
	CHECK_EQ(cxil_read_all_cntrs(NULL, all, NULL), -EINVAL);
	CHECK_EQ(cxil_read_all_cntrs(rig.dev, NULL, NULL), -EINVAL);
	CHECK_EQ(cxil_read_n_cntrs(rig.dev, 5, which, before, &time), 0);
	CHECK(time.tv_sec > 1000000000);
	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 0, iova(rig.md, rig.memory + PAGE), PAGE);
	put_some(&rig, 7, 1);
	put_bits(command, CMD_TYPE, C_CMD_TYPE_DMA);
	put_bits(command, CMD_OPCODE, C_CMD_CLOSE);
	CHECK_EQ(cxil_inbound_wait(rig.dev), 0);
	send(&rig, command, 32);
	CHECK_EQ(cxil_inbound_wait(rig.dev), 0);
	CHECK_EQ(cxil_read_n_cntrs(rig.dev, 5, which, values, NULL), 0);
	CHECK_EQ(values[0] - before[0], 7);
	CHECK_EQ(values[1] - before[1], 1);
	CHECK_EQ(values[2] - before[2], 7);
	CHECK_EQ(values[3] - before[3], 7);
	CHECK_EQ(values[4] - before[4], 1);
	all[C1_CNTR_SIZE] = 0x5555;
	CHECK_EQ(cxil_read_all_cntrs(rig.dev, all, &time), 0);
	CHECK(all[EVENT_PUT] == values[0] && all[TX_OP_ERRORS] == 1 && all[C1_CNTR_SIZE] == 0x5555);
	CHECK_EQ(cxil_read_cntr(rig.dev, TX_OP_ERRORS, values, &time), 0);
	CHECK_EQ(values[0], 1);
	for (int at = 0; at < 7; at++)
		check_put(&rig, 1);
	portal_close(&portal);
	rig_close(&rig);
	CHECK_EQ(cxil_inbound_wait(NULL), -EINVAL);
}

/* Parts that a NIC of software does not have */
static void absent_parts(void)
{
	struct cxil_dev *dev;
	struct cxi_sbus_op_params params = { 0 };
	uint32_t response;
	uint8_t result, overrun;
	uint16_t serdes;
	int remap = 0, none = geteuid() ? -EPERM : -ENODEV;

	CHECK_EQ(cxil_open_device(0, &dev), 0);
	CHECK_EQ(cxil_sbus_op(NULL, &params, &response, &result, &overrun), -EINVAL);
	CHECK_EQ(cxil_sbus_op(dev, NULL, &response, &result, &overrun), -EINVAL);
	CHECK_EQ(cxil_sbus_op(dev, &params, &response, &result, &overrun), none);
	CHECK_EQ(cxil_sbus_op_compat(dev, 0, 0, 0, 0, 0, NULL, &result, &overrun, 0, 0), -EINVAL);
	CHECK_EQ(cxil_sbus_op_compat(dev, 0, 0, 0, 0, 0, &response, &result, &overrun, 0, 0), none);
	CHECK_EQ(cxil_sbus_op_reset(NULL), -EINVAL);
	CHECK_EQ(cxil_sbus_op_reset(dev), none);
	CHECK_EQ(cxil_sbus_op_reset_compat(NULL, 0), -EINVAL);
	CHECK_EQ(cxil_sbus_op_reset_compat(dev, 0), none);
	CHECK_EQ(cxil_serdes_op(dev, 0, 0, 0, 0, NULL, 0, 0), -EINVAL);
	CHECK_EQ(cxil_serdes_op(dev, 0, 0, 0, 0, &serdes, 0, 0), none);
	CHECK_EQ(cxil_get_amo_remap_to_pcie_fadd(NULL, &remap), -EINVAL);
	CHECK_EQ(cxil_get_amo_remap_to_pcie_fadd(dev, NULL), -EINVAL);
	CHECK_EQ(cxil_get_amo_remap_to_pcie_fadd(dev, &remap), 0);
	CHECK_EQ(remap, -1);
	cxil_close_device(dev);
}

const struct test queue_tests[] = {
	{ "event_queues", event_queues },
	{ "resize", resize },
	{ "resize_full", resize_full },
	{ "wait_objects", wait_objects },
	{ "command_queues", command_queues },
	{ "submission", submission },
	{ "registers", registers },
	{ "telemetry", telemetry },
	{ "absent_parts", absent_parts },
	{ NULL, NULL },
};
