/*
 * Calls every function of the library as a C program does, and reads the
 * structures that it fills. The rules behind the calls are tested in
 * ffi/softnic/tests.
 */
#include <poll.h>

#include "rig.h"

#define INDEX 5

static bool is_root(void)
{
	return geteuid() == 0;
}

static void devices(void)
{
	struct cxil_device_list *list;
	struct cxil_dev *dev;

	CHECK_EQ(cxil_get_device_list(&list), 0);
	CHECK_EQ(list->count, 4);
	for (unsigned int id = 0; id < list->count; id++) {
		char name[16];

		snprintf(name, sizeof(name), "cxi%u", id);
		CHECK(!strcmp(list->info[id].device_name, name));
		CHECK_EQ(list->info[id].dev_id, id);
		CHECK_EQ(list->info[id].nid, 0x12 + id);
	}
	cxil_free_device_list(list);
	CHECK_EQ(cxil_open_device(100, &dev), -ENOENT);
	CHECK_EQ(cxil_open_device(0, &dev), 0);
	CHECK_EQ(dev->info.pid_bits, 9);
	CHECK_EQ(dev->info.rdzv_get_idx, 255);
	CHECK_EQ(dev->info.link_mtu, 2112);
	CHECK_EQ(dev->info.link_state, 1);
	CHECK_EQ(dev->info.device_platform, C_PLATFORM_NETSIM);
	cxil_close_device(dev);
}

static void services(void)
{
	struct rig rig = rig_open(0);
	struct cxi_svc_desc desc = { .restricted_vnis = 1, .enable = 1, .num_vld_vnis = 1, .vnis = { 77 } };
	struct cxi_svc_desc found;
	struct cxi_svc_fail_info info = { 0 };
	struct cxil_svc_list *list;
	struct cxi_rsrc_use use;
	struct cxil_svc_rsrc_list *uses;
	int changed = is_root() ? 0 : -EPERM;
	unsigned int id = is_root() ? 5 : 2, netns;
	uint16_t min, max;
	bool exclusive;

	CHECK_EQ(cxil_get_svc_list(rig.dev, &list), 0);
	CHECK_EQ(list->count, 5);
	for (unsigned int at = 0; at < list->count; at++)
		CHECK_EQ(list->descs[at].svc_id, list->descs[at].is_system_svc ? 1000 : at + 1);
	CHECK(!list->descs[2].enable && list->descs[3].restricted_members);
	cxil_free_svc_list(list);
	CHECK_EQ(cxil_get_svc_rsrc_list(rig.dev, &uses), 0);
	CHECK_EQ(uses->count, 5);
	CHECK_EQ(uses->rsrcs[0].in_use[CXI_RSRC_TYPE_EQ], 2);
	cxil_free_svc_rsrc_list(uses);
	CHECK_EQ(cxil_get_svc_rsrc_use(rig.dev, 1, &use), 0);
	CHECK(use.svc_id == 1 && use.in_use[CXI_RSRC_TYPE_TXQ] == 1);
	CHECK_EQ(cxil_svc_get_vni_range(rig.dev, 2, &min, &max), 0);
	CHECK(min == 16 && max == 31);

	CHECK_EQ(cxil_alloc_svc(rig.dev, &desc, &info), is_root() ? (int)id : -EPERM);
	desc.svc_id = id;
	CHECK_EQ(cxil_update_svc(rig.dev, &desc, &info), changed);
	CHECK_EQ(cxil_svc_enable(rig.dev, id, false), changed);
	CHECK_EQ(cxil_set_svc_lpr(rig.dev, id, 3), changed);
	CHECK_EQ(cxil_svc_set_exclusive_cp(rig.dev, id, true), changed);
	CHECK_EQ(cxil_svc_set_netns(rig.dev, id, 4), is_root() ? -EEXIST : -EPERM);
	CHECK_EQ(cxil_svc_set_vni_range(rig.dev, id, 8, 9), is_root() ? -EINVAL : -EPERM);
	CHECK_EQ(cxil_get_svc(rig.dev, id, &found), 0);
	CHECK(found.svc_id == id && (!is_root() || (found.num_vld_vnis == 1 && found.vnis[0] == 77)));
	CHECK_EQ(cxil_get_svc_lpr(rig.dev, id), is_root() ? 3 : 1);
	CHECK_EQ(cxil_svc_get_exclusive_cp(rig.dev, id, &exclusive), 0);
	CHECK_EQ(cxil_svc_get_netns(rig.dev, id, &netns), -EINVAL);
	CHECK(exclusive == is_root());
	CHECK_EQ(cxil_destroy_svc(rig.dev, id), changed);
	rig_close(&rig);
}

static void interfaces_and_memory(void)
{
	struct rig rig = rig_open(0);
	struct cxi_cp *cp;
	uint8_t *memory = pages(2 * PAGE);
	struct cxi_md *md;

	CHECK_EQ(cxil_alloc_trig_cp(rig.lni, 10, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_HRP, NON_TRIG_LCID, &cp), 0);
	CHECK_EQ(cp->lcid, 1);
	CHECK_EQ(cxil_modify_cp(rig.lni, cp, 1), -EINVAL);
	CHECK_EQ(cp->vni, 10);
	CHECK_EQ(cxil_destroy_cp(cp), 0);
	CHECK(rig.domain->pid == 0 && rig.domain->vni == 1);
	CHECK_EQ(cxil_reserve_domain(rig.lni, 1, C_PID_ANY, 4), 1);

	CHECK_EQ(cxil_page_size(memory), PAGE);
	CHECK(cxil_is_copy_on_fork());
	CHECK_EQ(cxil_map(rig.lni, memory + 13, PAGE, RW | CXI_MAP_ALLOC_MD, NULL, &md), 0);
	CHECK(md->va == (uintptr_t)memory && md->len == 2 * PAGE && md->lac < 8);
	CHECK_EQ(cxil_update_md(md, memory, PAGE, RW), 0);
	CHECK_EQ(cxil_unmap(md), 0);
	rig_close(&rig);
}

static void event_queues(void)
{
	struct rig rig = rig_open(0);
	struct cxi_eq_attr attr = { .queue = pages(PAGE), .queue_len = PAGE };
	struct pollfd polled = { .events = POLLPRI | POLLIN };
	struct cxil_wait_obj *wait;
	struct cxi_md *md, *larger_md;
	uint8_t *larger = pages(2 * PAGE);
	struct cxi_eq *eq;

	CHECK_EQ(cxil_alloc_wait_obj(rig.lni, &wait), 0);
	CHECK_EQ(cxil_map(rig.lni, attr.queue, PAGE, RW, NULL, &md), 0);
	CHECK_EQ(cxil_map(rig.lni, larger, 2 * PAGE, RW, NULL, &larger_md), 0);
	CHECK_EQ(cxil_alloc_evtq(rig.lni, md, &attr, wait, NULL, &eq), 0);
	CHECK(eq->byte_size == PAGE && eq->rd_offset == 64 && eq->prev_rd_offset == 64 && eq->eqn != 0);
	CHECK_EQ(cxil_evtq_adjust_reserved_fc(eq, 62), 62);
	CHECK_EQ(cxil_evtq_adjust_reserved_fc(eq, -62), 0);
	CHECK_EQ(cxil_evtq_resize(eq, larger, 2 * PAGE, larger_md), 0);
	polled.fd = cxil_get_wait_obj_fd(wait);
	CHECK_EQ(poll(&polled, 1, 30000), 1);
	cxil_clear_wait_obj(wait);
	CHECK_EQ(poll(&polled, 1, 0), 0);
	CHECK_EQ(get_bits(eq_peek(eq), EVENT_TYPE), C_EVENT_EQ_SWITCH);
	CHECK_EQ(cxil_evtq_resize_complete(eq), 0);
	CHECK(eq->events == larger && eq->byte_size == 2 * PAGE);
	CHECK_EQ(cxil_destroy_evtq(eq), 0);
	CHECK_EQ(cxil_unmap(md), 0);
	CHECK_EQ(cxil_unmap(larger_md), 0);
	CHECK_EQ(cxil_destroy_wait_obj(wait), 0);
	rig_close(&rig);
}

static void portals(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, INDEX, true);
	uint64_t offset = 0;
	struct cxi_pte_status status = { .ule_offsets = &offset, .ule_count = 1 };
	uint8_t command[64];

	link_all(&rig, &portal, C_PTL_LIST_OVERFLOW, 9, iova(rig.md, rig.memory + PAGE), PAGE);
	dma(&rig, command, C_CMD_PUT, INDEX);
	put_bits(command, CMD_REQUEST_LEN, 64);
	send(&rig, command, 64);
	await(&rig.ini, C_EVENT_ACK, C_RC_OK);
	done(&rig.ini);
	await(&rig.events, C_EVENT_PUT, C_RC_OK);
	done(&rig.events);
	CHECK_EQ(cxil_pte_status(portal.pte, &status), 0);
	CHECK(status.state == C_PTLTE_ENABLED && status.drop_count == 0);
	CHECK(status.ule_count == 1 && status.les_allocated == 2 && status.les_max == 16384);
	CHECK_EQ(offset, iova(rig.md, rig.memory + PAGE));
	CHECK_EQ(cxil_invalidate_pte_le(portal.pte, 9, C_PTL_LIST_OVERFLOW), 0);
	CHECK_EQ(cxil_pte_transition_sm(portal.pte, 0), 0);
	await(&rig.events, C_EVENT_STATE_CHANGE, C_RC_OK);
	done(&rig.events);
	CHECK_EQ(cxil_pte_status(portal.pte, &status), 0);
	CHECK(status.state == C_PTLTE_SOFTWARE_MANAGED);
	portal_close(&portal);
	rig_close(&rig);
}

/* A command queue in the program's memory, and a counter that its puts increment */
static void command_queues_and_counters(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, INDEX, false);
	struct cxi_cq_alloc_opts_buf lent = {
		.opts = { .count = 65, .flags = CXI_CQ_IS_TX, .lcid = rig.cp->lcid },
		.buf = pages(2 * PAGE),
		.is_host_mem = true,
	};
	volatile uint64_t *write_back = (uint64_t *)(rig.memory + PAGE);
	struct cxi_cq *cq, *own = rig.tx;
	struct cxi_ct *ct;
	uint8_t command[64];
	unsigned int unanswered = 1;

	CHECK_EQ(cxil_alloc_buf_cmdq(rig.lni, NULL, &lent, &cq), 0);
	CHECK((void *)cq->cmds32 == lent.buf && cq->size == 128 && cq->size32 == 256);
	CHECK(cq->wp32 == 8 && cq->hw_wp32 == 8 && cq->rp32 == 8 && slots_read(cq) == 4);
	CHECK_EQ(cxil_alloc_ct(rig.lni, NULL, &ct), 0);
	CHECK_EQ(cxil_ct_wb_update(ct, (void *)write_back), 0);
	CHECK(ct->ctn != 0 && (volatile uint64_t *)ct->wb == write_back);
	rig.tx = cq;
	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 0, iova(rig.md, rig.memory + 2 * PAGE), PAGE);
	dma(&rig, command, C_CMD_PUT, INDEX);
	put_bits(command, CMD_REQUEST_LEN, 8);
	put_bits(command, CMD_CT_ACK, 1);
	put_bits(command, CMD_CT, ct->ctn);
	send(&rig, command, 64);
	await(&rig.ini, C_EVENT_ACK, C_RC_OK);
	CHECK_EQ(cxil_cmdq_ack_counter(cq, &unanswered), 0);
	CHECK_EQ(unanswered, 0);
	/* The doorbell that resets failures writes the counts back */
	ct->doorbell[24] = 0;
	while (!(*write_back >> 63))
		;
	CHECK_EQ(*write_back << 16 >> 16, 1);
	CHECK_EQ(cxil_destroy_ct(ct), 0);
	CHECK_EQ(cxil_destroy_cmdq(cq), 0);
	rig.tx = own;
	portal_close(&portal);
	rig_close(&rig);
}

#define EVENT_LINK 915 /* of c_cntr_type */

static void registers_and_telemetry(void)
{
	struct rig rig = rig_open(0);
	static uint64_t all[C1_CNTR_SIZE];
	static const uint32_t number = EVENT_LINK;
	int mapped = is_root() ? 0 : -EPERM, read = is_root() ? 0 : -EINVAL;
	int written = is_root() ? -EOPNOTSUPP : -EINVAL, absent = is_root() ? -ENODEV : -EPERM;
	struct cxi_sbus_op_params params = { 0 };
	struct timespec time = { 0 };
	uint64_t value = 0;
	uint32_t response;
	uint16_t serdes;
	uint8_t result, overrun;
	int remap = 0;

	CHECK_EQ(cxil_map_csr(rig.dev), mapped);
	CHECK_EQ(cxil_read_csr(rig.dev, C_HNI_ERR_ELAPSED_TIME, &value, 8), read);
	CHECK_EQ(value != 0, is_root());
	CHECK_EQ(cxil_write_csr(rig.dev, C_HNI_ERR_ELAPSED_TIME, &value, 8), written);
	CHECK_EQ(cxil_write8_csr(rig.dev, 0, 3, &value, 1), written);
	CHECK_EQ(cxil_read_cntr(rig.dev, EVENT_LINK, &value, &time), 0);
	CHECK(value == 0 && time.tv_sec > 0);
	CHECK_EQ(cxil_read_n_cntrs(rig.dev, 1, (const enum c_cntr_type *)&number, &value, NULL), 0);
	CHECK_EQ(cxil_read_all_cntrs(rig.dev, all, NULL), 0);
	CHECK(value == 0 && all[EVENT_LINK] == 0);
	CHECK_EQ(cxil_inbound_wait(rig.dev), 0);
	CHECK_EQ(cxil_sbus_op(rig.dev, &params, &response, &result, &overrun), absent);
	CHECK_EQ(cxil_sbus_op_compat(rig.dev, 0, 0, 0, 0, 0, &response, &result, &overrun, 0, 0), absent);
	CHECK_EQ(cxil_sbus_op_reset(rig.dev), absent);
	CHECK_EQ(cxil_sbus_op_reset_compat(rig.dev, 0), absent);
	CHECK_EQ(cxil_serdes_op(rig.dev, 0, 0, 0, 0, &serdes, 0, 0), absent);
	CHECK_EQ(cxil_get_amo_remap_to_pcie_fadd(rig.dev, &remap), 0);
	CHECK_EQ(remap, -1);
	rig_close(&rig);
}

int main(void)
{
	devices();
	services();
	interfaces_and_memory();
	event_queues();
	portals();
	command_queues_and_counters();
	registers_and_telemetry();
	return 0;
}
