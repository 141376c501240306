/* Devices, services, interfaces, memory: every call with good and bad arguments */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "rig.h"

static void devices(void)
{
	struct cxil_device_list *list;
	struct cxil_dev *dev, *again;

	CHECK_EQ(cxil_get_device_list(NULL), -EINVAL);
	cxil_free_device_list(NULL);
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
	CHECK_EQ(cxil_open_device(0, NULL), -EINVAL);
	CHECK_EQ(cxil_open_device(100, &dev), -ENOENT);
	CHECK_EQ(cxil_open_device(99, &dev), 0);
	cxil_close_device(dev);
	CHECK_EQ(cxil_open_device(0, &dev), 0);
	CHECK_EQ(cxil_open_device(0, &again), 0);
	CHECK_EQ(dev->info.pid_bits, 9);
	CHECK_EQ(dev->info.pid_count, 511);
	CHECK_EQ(dev->info.pid_granule, 256);
	CHECK_EQ(dev->info.rdzv_get_idx, 255);
	CHECK_EQ(dev->info.link_mtu, 2112);
	CHECK_EQ(dev->info.link_state, 1);
	CHECK_EQ(dev->info.device_platform, C_PLATFORM_NETSIM);
	CHECK(dev->info.pct_eq != 0);
	/* In the order of opening, not the reverse */
	cxil_close_device(dev);
	cxil_close_device(again);
	cxil_close_device(NULL);
}

static void device_environment(void)
{
	struct cxil_device_list *list;
	struct cxil_dev *dev;

	setenv("CXIDIAG_NICS", "2", 1);
	setenv("CXIDIAG_NIDS", "0x77", 1);
	CHECK_EQ(cxil_get_device_list(&list), 0);
	CHECK_EQ(list->count, 2);
	CHECK_EQ(list->info[1].nid, 0x78);
	cxil_free_device_list(list);
	CHECK_EQ(cxil_open_device(2, &dev), -ENOENT);
	CHECK_EQ(cxil_open_device(1, &dev), 0);
	CHECK_EQ(dev->info.nid, 0x78);
	cxil_close_device(dev);
	for (int variable = 0; variable < 4; variable++) {
		static const char *const names[] = { "CXIDIAG_NICS", "CXIDIAG_NIDS", "CXIDIAG_LINK",
						     "CXIDIAG_FAULTS" };

		setenv(names[variable], "nonsense", 1);
		CHECK_EQ(cxil_open_device(0, &dev), -EINVAL);
		unsetenv(names[variable]);
	}
	setenv("CXIDIAG_FAULTS", "down=0s", 1);
	CHECK_EQ(cxil_open_device(0, &dev), 0);
	CHECK_EQ(dev->info.link_state, 0);
	cxil_close_device(dev);
	setenv("CXIDIAG_FABRIC_DIR", "/nowhere/at/all", 1);
	CHECK_EQ(cxil_open_device(0, &dev), -ENOENT);
	setenv("CXIDIAG_FABRIC_DIR", "/proc", 1);
	CHECK(cxil_open_device(0, &dev) < 0);
}

static void services_read(void)
{
	struct rig rig = rig_open(0);
	struct cxi_svc_desc desc;
	struct cxil_svc_list *list;
	struct cxi_rsrc_use use;
	struct cxil_svc_rsrc_list *uses;
	uint16_t min, max;
	bool exclusive;
	unsigned int netns;

	CHECK_EQ(cxil_get_svc(rig.dev, 1, NULL), -EINVAL);
	CHECK_EQ(cxil_get_svc(NULL, 1, &desc), -EINVAL);
	CHECK_EQ(cxil_get_svc(rig.dev, 0, &desc), -EINVAL);
	CHECK_EQ(cxil_get_svc(rig.dev, 5, &desc), -EINVAL);
	CHECK_EQ(cxil_get_svc(rig.dev, 1, &desc), 0);
	CHECK(desc.enable && desc.restricted_vnis && desc.is_system_svc && !desc.restricted_members);
	CHECK_EQ(desc.num_vld_vnis, 2);
	CHECK(desc.vnis[0] == 1 && desc.vnis[1] == 10);
	CHECK_EQ(desc.limits.tles.max, 512);
	CHECK_EQ(desc.limits.tles.res, 512);
	CHECK_EQ(desc.svc_id, 1);
	CHECK_EQ(cxil_get_svc_list(rig.dev, NULL), -EINVAL);
	CHECK_EQ(cxil_get_svc_list(NULL, &list), -EINVAL);
	CHECK_EQ(cxil_get_svc_list(rig.dev, &list), 0);
	CHECK_EQ(list->count, 4);
	for (unsigned int at = 0; at < 4; at++)
		CHECK_EQ(list->descs[at].svc_id, at + 1);
	CHECK(!list->descs[2].enable && list->descs[3].restricted_members);
	cxil_free_svc_list(list);
	cxil_free_svc_list(NULL);
	CHECK_EQ(cxil_get_svc_rsrc_use(rig.dev, 1, NULL), -EINVAL);
	CHECK_EQ(cxil_get_svc_rsrc_use(rig.dev, 9, &use), -EINVAL);
	CHECK_EQ(cxil_get_svc_rsrc_use(rig.dev, 1, &use), 0);
	CHECK_EQ(use.svc_id, 1);
	CHECK_EQ(use.in_use[CXI_RSRC_TYPE_EQ], 2);
	CHECK_EQ(use.in_use[CXI_RSRC_TYPE_TXQ], 1);
	CHECK_EQ(use.in_use[CXI_RSRC_TYPE_TGQ], 1);
	CHECK_EQ(use.in_use[CXI_RSRC_TYPE_AC], 1);
	CHECK_EQ(use.in_use[CXI_RSRC_TYPE_PTE], 0);
	CHECK_EQ(cxil_get_svc_rsrc_list(rig.dev, NULL), -EINVAL);
	CHECK_EQ(cxil_get_svc_rsrc_list(rig.dev, &uses), 0);
	CHECK_EQ(uses->count, 4);
	CHECK_EQ(uses->rsrcs[0].in_use[CXI_RSRC_TYPE_EQ], 2);
	CHECK_EQ(uses->rsrcs[1].in_use[CXI_RSRC_TYPE_EQ], 0);
	cxil_free_svc_rsrc_list(uses);
	cxil_free_svc_rsrc_list(NULL);
	CHECK_EQ(cxil_svc_get_vni_range(rig.dev, 1, &min, &max), -EINVAL);
	CHECK_EQ(cxil_svc_get_vni_range(rig.dev, 2, NULL, &max), -EINVAL);
	CHECK_EQ(cxil_svc_get_vni_range(rig.dev, 2, &min, &max), 0);
	CHECK(min == 16 && max == 31);
	CHECK_EQ(cxil_get_svc_lpr(rig.dev, 1), 1);
	CHECK_EQ(cxil_get_svc_lpr(rig.dev, 9), -EINVAL);
	CHECK_EQ(cxil_svc_get_exclusive_cp(rig.dev, 1, NULL), -EINVAL);
	CHECK_EQ(cxil_svc_get_exclusive_cp(rig.dev, 1, &exclusive), 0);
	CHECK(!exclusive);
	CHECK_EQ(cxil_svc_get_netns(rig.dev, 1, NULL), -EINVAL);
	CHECK_EQ(cxil_svc_get_netns(rig.dev, 1, &netns), 0);
	CHECK_EQ(netns, 0);
	rig_close(&rig);
}

static struct cxi_svc_desc a_service(void)
{
	struct cxi_svc_desc desc = { .restricted_vnis = 1, .enable = 1, .num_vld_vnis = 1, .vnis = { 77 } };

	return desc;
}

/* Who is no administrator may change nothing */
static void services_of_others(struct cxil_dev *dev)
{
	struct cxi_svc_desc desc = a_service();

	CHECK_EQ(cxil_alloc_svc(dev, &desc, NULL), -EPERM);
	desc.svc_id = 2;
	CHECK_EQ(cxil_update_svc(dev, &desc, NULL), -EPERM);
	CHECK_EQ(cxil_destroy_svc(dev, 2), -EPERM);
	CHECK_EQ(cxil_svc_enable(dev, 2, false), -EPERM);
	CHECK_EQ(cxil_set_svc_lpr(dev, 2, 2), -EPERM);
	CHECK_EQ(cxil_svc_set_exclusive_cp(dev, 2, true), -EPERM);
	CHECK_EQ(cxil_svc_set_vni_range(dev, 2, 5, 6), -EPERM);
	CHECK_EQ(cxil_svc_set_netns(dev, 2, 1), -EPERM);
}

static void services_admin(void)
{
	struct cxi_svc_desc desc = a_service(), read;
	struct cxi_svc_fail_info info = { 0 };
	struct cxil_lni *lni, *second;
	struct cxil_domain *domain;
	struct cxi_cp *cp, *other;
	struct cxil_dev *dev;
	uint16_t min, max;
	int id;

	CHECK_EQ(cxil_open_device(0, &dev), 0);
	if (geteuid() != 0) {
		services_of_others(dev);
		cxil_close_device(dev);
		return;
	}
	/* What cannot be */
	CHECK_EQ(cxil_alloc_svc(NULL, &desc, NULL), -EINVAL);
	CHECK_EQ(cxil_alloc_svc(dev, NULL, NULL), -EINVAL);
	desc.num_vld_vnis = 5;
	CHECK_EQ(cxil_alloc_svc(dev, &desc, NULL), -EINVAL);
	desc.num_vld_vnis = 0;
	CHECK_EQ(cxil_alloc_svc(dev, &desc, NULL), -EINVAL);
	desc = a_service();
	desc.vnis[0] = 0;
	CHECK_EQ(cxil_alloc_svc(dev, &desc, NULL), -EINVAL);
	desc = a_service();
	desc.restricted_members = 1;
	CHECK_EQ(cxil_alloc_svc(dev, &desc, NULL), -EINVAL);
	desc.members[0].type = CXI_SVC_MEMBER_MAX;
	CHECK_EQ(cxil_alloc_svc(dev, &desc, NULL), -EINVAL);
	/* More than there is, said how much there is: 512 of 2048 triggers are the default service's */
	desc = a_service();
	desc.resource_limits = 1;
	for (int kind = 0; kind < 8; kind++)
		desc.limits.type[kind].max = 100;
	desc.limits.tles.max = desc.limits.tles.res = 1537;
	CHECK_EQ(cxil_alloc_svc(dev, &desc, &info), -ENOSPC);
	CHECK_EQ(info.rsrc_avail[CXI_RSRC_TYPE_TLE], 1536);
	/* One with limits: one interface, two event queues, for this user alone */
	desc.limits.tles.res = 0;
	desc.limits.tles.max = 100;
	desc.limits.eqs.max = 2;
	desc.restricted_members = 1;
	desc.members[0].type = CXI_SVC_MEMBER_UID;
	desc.members[0].svc_member.uid = geteuid();
	id = cxil_alloc_svc(dev, &desc, &info);
	CHECK_EQ(id, 5);
	CHECK_EQ(cxil_get_svc(dev, id, &read), 0);
	CHECK(read.enable && read.num_vld_vnis == 1 && read.vnis[0] == 77 && read.limits.eqs.max == 2);
	CHECK_EQ(cxil_alloc_lni(dev, &lni, id), 0);
	CHECK_EQ(cxil_svc_enable(dev, id, false), -EBUSY);
	CHECK_EQ(cxil_destroy_svc(dev, id), -EBUSY);
	read.svc_id = id;
	CHECK_EQ(cxil_update_svc(dev, &read, NULL), -EBUSY);
	{
		struct queue one = queue_open(lni, PAGE), two = queue_open(lni, PAGE);
		struct cxi_eq_attr attr = { .queue = one.buffer, .queue_len = PAGE };
		struct cxi_eq *eq;

		CHECK_EQ(cxil_alloc_evtq(lni, one.md, &attr, NULL, NULL, &eq), -ENOSPC);
		queue_close(&one);
		queue_close(&two);
	}
	CHECK_EQ(cxil_alloc_domain(lni, 77, C_PID_ANY, &domain), 0);
	CHECK_EQ(cxil_destroy_domain(domain), 0);
	/* Exclusive profiles: the same twice is not shared */
	CHECK_EQ(cxil_destroy_lni(lni), 0);
	CHECK_EQ(cxil_svc_set_exclusive_cp(dev, id, true), 0);
	CHECK_EQ(cxil_alloc_lni(dev, &lni, id), 0);
	CHECK_EQ(cxil_alloc_cp(lni, 77, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &cp), 0);
	CHECK_EQ(cxil_alloc_cp(lni, 77, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &other), 0);
	CHECK(cp->lcid != other->lcid);
	CHECK_EQ(cxil_destroy_cp(cp), 0);
	CHECK_EQ(cxil_destroy_cp(other), 0);
	CHECK_EQ(cxil_destroy_lni(lni), 0);
	/* Disabled, for others, for another network namespace */
	CHECK_EQ(cxil_svc_enable(dev, id, false), 0);
	CHECK_EQ(cxil_alloc_lni(dev, &lni, id), -EKEYREVOKED);
	CHECK_EQ(cxil_svc_enable(dev, id, true), 0);
	CHECK_EQ(cxil_svc_set_netns(dev, id, 1), 0);
	CHECK_EQ(cxil_alloc_lni(dev, &lni, id), -EPERM);
	CHECK_EQ(cxil_svc_set_netns(dev, id, 0), 0);
	CHECK_EQ(cxil_get_svc(dev, id, &read), 0);
	read.members[0].svc_member.uid = 4242;
	CHECK_EQ(cxil_update_svc(dev, &read, NULL), 0);
	CHECK_EQ(cxil_alloc_lni(dev, &lni, id), -EPERM);
	CHECK_EQ(cxil_destroy_svc(dev, id), 0);
	CHECK_EQ(cxil_destroy_svc(dev, id), -EINVAL);
	CHECK_EQ(cxil_destroy_svc(dev, CXI_DEFAULT_SVC_ID), -EINVAL);
	/* A range is set before the service is enabled */
	desc = a_service();
	desc.restricted_vnis = desc.num_vld_vnis = 0;
	id = cxil_alloc_svc(dev, &desc, NULL);
	CHECK_EQ(id, 5);
	CHECK_EQ(cxil_svc_enable(dev, id, true), -EINVAL);
	CHECK_EQ(cxil_svc_get_vni_range(dev, id, &min, &max), 0);
	CHECK(min == 0 && max == 0);
	CHECK_EQ(cxil_svc_set_vni_range(dev, id, 0, 9), -EINVAL);
	CHECK_EQ(cxil_svc_set_vni_range(dev, id, 9, 8), -EINVAL);
	CHECK_EQ(cxil_svc_set_vni_range(dev, 1, 8, 9), -EINVAL);
	CHECK_EQ(cxil_svc_set_vni_range(dev, id, 200, 203), 0);
	CHECK_EQ(cxil_svc_enable(dev, id, true), 0);
	CHECK_EQ(cxil_svc_set_vni_range(dev, id, 8, 9), -EBUSY);
	CHECK_EQ(cxil_alloc_lni(dev, &lni, id), 0);
	CHECK_EQ(cxil_alloc_domain(lni, 203, 7, &domain), 0);
	CHECK_EQ(cxil_destroy_domain(domain), 0);
	CHECK_EQ(cxil_destroy_lni(lni), 0);
	/* 255 RGIDs, which interfaces may share */
	CHECK_EQ(cxil_set_svc_lpr(dev, id, 0), -EINVAL);
	CHECK_EQ(cxil_set_svc_lpr(dev, id, 4), 0);
	CHECK_EQ(cxil_get_svc_lpr(dev, id), 4);
	CHECK_EQ(cxil_alloc_lni(dev, &lni, id), 0);
	CHECK_EQ(cxil_alloc_lni(dev, &second, 1), 0);
	CHECK_EQ(cxil_set_svc_lpr(dev, id, 1), -EBUSY);
	CHECK_EQ(cxil_destroy_lni(second), 0);
	CHECK_EQ(cxil_destroy_lni(lni), 0);
	CHECK_EQ(cxil_destroy_svc(dev, id), 0);
	cxil_close_device(dev);
}

/* What one process changes or uses, others see, and a process that dies uses nothing */
static void services_shared(void)
{
	struct cxi_svc_desc desc = a_service(), found;
	struct cxi_rsrc_use use;
	struct cxil_dev *dev;
	int ready[2], status;
	char byte;
	pid_t child;

	CHECK(!pipe(ready));
	child = fork();
	if (!child) {
		rig_open(0);
		if (geteuid() == 0) {
			CHECK_EQ(cxil_open_device(0, &dev), 0);
			CHECK_EQ(cxil_alloc_svc(dev, &desc, NULL), 5);
		}
		CHECK(write(ready[1], "", 1) == 1);
		pause();
	}
	CHECK(read(ready[0], &byte, 1) == 1);
	CHECK_EQ(cxil_open_device(0, &dev), 0);
	CHECK_EQ(cxil_get_svc_rsrc_use(dev, 1, &use), 0);
	CHECK_EQ(use.in_use[CXI_RSRC_TYPE_EQ], 2);
	CHECK(!kill(child, 9) && wait(&status) == child);
	CHECK_EQ(cxil_get_svc_rsrc_use(dev, 1, &use), 0);
	CHECK_EQ(use.in_use[CXI_RSRC_TYPE_EQ], 0);
	if (geteuid() == 0) {
		CHECK_EQ(cxil_get_svc(dev, 5, &found), 0);
		CHECK_EQ(found.vnis[0], 77);
		CHECK_EQ(cxil_destroy_svc(dev, 5), 0);
	}
	cxil_close_device(dev);
}

static void interfaces(void)
{
	struct cxil_dev *dev;
	struct cxil_lni *lni, *many[255], *none;
	struct cxi_cp *cp, *same, *one, *other;
	struct cxil_domain *first, *second, *third;
	bool root = geteuid() == 0;

	CHECK_EQ(cxil_open_device(0, &dev), 0);
	CHECK_EQ(cxil_alloc_lni(NULL, &lni, 1), -EINVAL);
	CHECK_EQ(cxil_alloc_lni(dev, NULL, 1), -EINVAL);
	CHECK_EQ(cxil_alloc_lni(dev, &lni, 0), -EINVAL);
	CHECK_EQ(cxil_alloc_lni(dev, &lni, 9), -EINVAL);
	CHECK_EQ(cxil_alloc_lni(dev, &lni, 3), -EKEYREVOKED);
	CHECK_EQ(cxil_alloc_lni(dev, &lni, 4), -EPERM);
	for (int at = 0; at < 255; at++)
		CHECK_EQ(cxil_alloc_lni(dev, &many[at], 1), 0);
	CHECK_EQ(cxil_alloc_lni(dev, &none, 1), -ENOSPC);
	for (int at = 0; at < 255; at++)
		CHECK_EQ(cxil_destroy_lni(many[at]), 0);
	CHECK_EQ(cxil_destroy_lni(NULL), -EINVAL);
	CHECK_EQ(cxil_alloc_lni(dev, &lni, 1), 0);
	/* Profiles */
	CHECK_EQ(cxil_alloc_cp(lni, 0, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &cp), -EINVAL);
	CHECK_EQ(cxil_alloc_cp(lni, 65536, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &cp), -EINVAL);
	CHECK_EQ(cxil_alloc_cp(lni, 1, CXI_TC_MAX, CXI_TC_TYPE_DEFAULT, &cp), -EINVAL);
	CHECK_EQ(cxil_alloc_cp(lni, 1, CXI_TC_DEDICATED_ACCESS, CXI_TC_TYPE_DEFAULT, &cp), -EINVAL);
	CHECK_EQ(cxil_alloc_cp(lni, 1, CXI_TC_LOW_LATENCY, CXI_TC_TYPE_HRP, &cp), -EINVAL);
	CHECK_EQ(cxil_alloc_cp(lni, 1, CXI_TC_ETH, CXI_TC_TYPE_DEFAULT, &cp), root ? -EINVAL : -EPERM);
	CHECK_EQ(cxil_alloc_cp(lni, 50, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &cp), -EPERM);
	CHECK_EQ(cxil_alloc_cp(NULL, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &cp), -EINVAL);
	CHECK_EQ(cxil_alloc_cp(lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, NULL), -EINVAL);
	CHECK_EQ(cxil_alloc_cp(lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &cp), 0);
	CHECK_EQ(cp->lcid, 0);
	CHECK_EQ(cxil_alloc_cp(lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &same), 0);
	CHECK_EQ(same->lcid, 0);
	CHECK_EQ(cxil_alloc_trig_cp(lni, 10, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_HRP, 3, &one), -EINVAL);
	CHECK_EQ(cxil_alloc_trig_cp(lni, 10, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_HRP, TRIG_LCID, &one),
		 -ENOSPC);
	CHECK_EQ(cxil_alloc_trig_cp(lni, 10, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_HRP, NON_TRIG_LCID, &one), 0);
	CHECK_EQ(one->lcid, 1);
	CHECK_EQ(cxil_modify_cp(lni, one, 0), -EINVAL);
	CHECK_EQ(cxil_modify_cp(lni, one, 50), -EPERM);
	CHECK_EQ(cxil_modify_cp(NULL, one, 1), -EINVAL);
	CHECK_EQ(cxil_modify_cp(lni, NULL, 1), -EINVAL);
	CHECK_EQ(cxil_modify_cp(lni, one, 1), 0);
	CHECK_EQ(one->vni, 1);
	CHECK_EQ(cxil_alloc_cp(lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_HRP, &other), 0);
	CHECK_EQ(other->lcid, 1);
	CHECK_EQ(cxil_destroy_cp(other), 0);
	CHECK_EQ(cxil_destroy_cp(NULL), -EINVAL);
	/* Domains */
	CHECK_EQ(cxil_alloc_domain(lni, 0, 1, &first), -EINVAL);
	CHECK_EQ(cxil_alloc_domain(lni, 1, 512, &first), -EINVAL);
	CHECK_EQ(cxil_alloc_domain(lni, 50, 1, &first), -EPERM);
	CHECK_EQ(cxil_alloc_domain(lni, 4444, 1, &first), root ? 0 : -ENOENT);
	if (root)
		CHECK_EQ(cxil_destroy_domain(first), 0);
	CHECK_EQ(cxil_alloc_domain(NULL, 1, 1, &first), -EINVAL);
	CHECK_EQ(cxil_alloc_domain(lni, 1, 1, NULL), -EINVAL);
	CHECK_EQ(cxil_alloc_domain(lni, 1, C_PID_ANY, &first), 0);
	CHECK(first->pid == 0 && first->vni == 1);
	CHECK_EQ(cxil_alloc_domain(lni, 1, 0, &second), -EEXIST);
	CHECK_EQ(cxil_alloc_domain(lni, 10, 0, &second), 0);
	CHECK_EQ(cxil_destroy_domain(second), 0);
	/* Four in a row: behind the one in use, for this interface alone */
	CHECK_EQ(cxil_reserve_domain(NULL, 1, 1, 1), -EINVAL);
	CHECK_EQ(cxil_reserve_domain(lni, 1, C_PID_ANY, 0), -EINVAL);
	CHECK_EQ(cxil_reserve_domain(lni, 1, C_PID_ANY, 512), -EINVAL);
	CHECK_EQ(cxil_reserve_domain(lni, 1, 510, 2), -EINVAL);
	CHECK_EQ(cxil_reserve_domain(lni, 1, 0, 2), -EEXIST);
	CHECK_EQ(cxil_reserve_domain(lni, 0, 3, 2), -EINVAL);
	CHECK_EQ(cxil_reserve_domain(lni, 1, C_PID_ANY, 4), 1);
	CHECK_EQ(cxil_alloc_domain(lni, 1, C_PID_ANY, &second), 0);
	CHECK_EQ(second->pid, 5);
	CHECK_EQ(cxil_alloc_lni(dev, &many[0], 1), 0);
	CHECK_EQ(cxil_alloc_domain(many[0], 1, 2, &third), -EEXIST);
	CHECK_EQ(cxil_alloc_domain(lni, 1, 2, &third), 0);
	CHECK_EQ(cxil_destroy_domain(third), 0);
	CHECK_EQ(cxil_alloc_domain(many[0], 1, 2, &third), -EEXIST);
	CHECK_EQ(cxil_alloc_domain(lni, 1, 2, &third), 0);
	CHECK_EQ(cxil_destroy_domain(NULL), -EINVAL);
	/* An interface is held by what it has, and its PIDs are free again after it */
	CHECK_EQ(cxil_destroy_lni(lni), -EBUSY);
	CHECK_EQ(cxil_destroy_domain(third), 0);
	CHECK_EQ(cxil_destroy_domain(second), 0);
	CHECK_EQ(cxil_destroy_domain(first), 0);
	CHECK_EQ(cxil_destroy_lni(lni), -EBUSY);
	CHECK_EQ(cxil_destroy_cp(one), 0);
	CHECK_EQ(cxil_destroy_cp(same), 0);
	CHECK_EQ(cxil_destroy_cp(cp), 0);
	CHECK_EQ(cxil_destroy_lni(lni), 0);
	CHECK_EQ(cxil_alloc_domain(many[0], 1, 2, &third), 0);
	CHECK_EQ(cxil_destroy_domain(third), 0);
	CHECK_EQ(cxil_destroy_lni(many[0]), 0);
	cxil_close_device(dev);
}

/* Writes 64 bytes there through the NIC and looks whether they arrive */
static void write_to(struct rig *rig, struct portal *portal, struct cxi_md *md, uint8_t *place)
{
	static uint8_t mark;
	uint8_t command[64];

	memset(rig->memory, ++mark, 64);
	append(rig, portal, command);
	put_bits(command, TGT_LAC, md->lac);
	put_bits(command, TGT_START, iova(md, place));
	put_bits(command, TGT_LENGTH, 64);
	put_bits(command, TGT_USE_ONCE, 1);
	put_bits(command, TGT_UNLINK_DISABLE, 1);
	put_bits(command, TGT_LINK_DISABLE, 1);
	post(rig, command);
	dma(rig, command, C_CMD_PUT, 3);
	put_bits(command, CMD_REQUEST_LEN, 64);
	send(rig, command, 64);
	await(&rig->ini, C_EVENT_ACK, C_RC_OK);
	done(&rig->ini);
	await(&rig->events, C_EVENT_PUT, C_RC_OK);
	done(&rig->events);
	for (int at = 0; at < 64; at++)
		CHECK_EQ(place[at], mark);
}

static void memory(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, 3, true);
	struct cxi_md *md, *again, *contexts[8];
	uint8_t on_stack[300], *heap = malloc(70000), *huge, *two = pages(2 * PAGE);
	static const uint8_t constant[64] = { 1 };
	char path[] = "/tmp/cxi-suite-XXXXXX";
	int file = mkstemp(path), used = 0;

	CHECK_EQ(cxil_map(NULL, heap, 1, RW, NULL, &md), -EINVAL);
	CHECK_EQ(cxil_map(rig.lni, heap, 1, RW, NULL, NULL), -EINVAL);
	CHECK_EQ(cxil_map(rig.lni, heap, 0, RW, NULL, &md), -EINVAL);
	CHECK_EQ(cxil_map(rig.lni, heap, 1, RW | CXI_MAP_FAULT, NULL, &md), -EINVAL);
	CHECK_EQ(cxil_map(rig.lni, heap, 1, RW & ~CXI_MAP_PIN, NULL, &md), -EOPNOTSUPP);
	CHECK_EQ(cxil_map(rig.lni, heap, 1, RW | CXI_MAP_ATS, NULL, &md), -EOPNOTSUPP);
	CHECK_EQ(cxil_map(rig.lni, heap, SIZE_MAX, RW, NULL, &md), -EOVERFLOW);
	CHECK_EQ(cxil_map(rig.lni, NULL, 1, RW, NULL, &md), -EFAULT);
	CHECK_EQ(cxil_map(rig.lni, (void *)constant, 64, RW, NULL, &md), -EFAULT);
	/* Read-only memory to read from */
	CHECK_EQ(cxil_map(rig.lni, (void *)constant, 64, CXI_MAP_PIN | CXI_MAP_READ, NULL, &md), 0);
	CHECK_EQ(cxil_unmap(md), 0);
	/* Heap, from an odd address; stack; the same memory twice */
	CHECK_EQ(cxil_map(rig.lni, heap + 13, 65536, RW, NULL, &md), 0);
	CHECK(md->va <= (uintptr_t)heap + 13 && md->va + md->len >= (uintptr_t)heap + 13 + 65536);
	write_to(&rig, &portal, md, heap + 13 + 4001);
	CHECK_EQ(cxil_map(rig.lni, heap, 70000, RW, NULL, &again), 0);
	CHECK_EQ(again->lac, md->lac);
	write_to(&rig, &portal, again, heap + 1);
	CHECK_EQ(cxil_unmap(md), 0);
	write_to(&rig, &portal, again, heap + 60000);
	CHECK_EQ(cxil_unmap(again), 0);
	CHECK_EQ(cxil_map(rig.lni, on_stack, sizeof(on_stack), RW, NULL, &md), 0);
	write_to(&rig, &portal, md, on_stack + 200);
	CHECK_EQ(cxil_unmap(md), 0);
	CHECK_EQ(cxil_unmap(NULL), -EINVAL);
	/* A mapped file */
	CHECK(file >= 0 && !unlink(path) && !ftruncate(file, PAGE));
	huge = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK_EQ(cxil_map(rig.lni, huge, PAGE, RW, NULL, &md), 0);
	write_to(&rig, &portal, md, huge + PAGE - 64);
	CHECK_EQ(cxil_unmap(md), 0);
	munmap(huge, PAGE);
	close(file);
	/* A hole */
	CHECK(!munmap(two + PAGE, PAGE));
	CHECK_EQ(cxil_map(rig.lni, two, 2 * PAGE, RW, NULL, &md), -EFAULT);
	CHECK_EQ(cxil_page_size(two), PAGE);
	CHECK_EQ(cxil_page_size(two + PAGE), 0);
	CHECK_EQ(cxil_page_size(NULL), 0);
	/* Huge pages, by name if there are any, else as the kernel gives them */
	huge = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (huge == MAP_FAILED) {
		huge = aligned_alloc(2 << 20, 2 << 20);
		madvise(huge, 2 << 20, MADV_HUGEPAGE);
	} else {
		CHECK_EQ(cxil_page_size(huge), 2 << 20);
	}
	CHECK_EQ(cxil_map(rig.lni, huge, 2 << 20, RW, NULL, &md), 0);
	write_to(&rig, &portal, md, huge + (2 << 20) - 64);
	CHECK_EQ(cxil_unmap(md), 0);
	/* Addresses first, memory later, and other memory after that */
	two = pages(4 * PAGE);
	CHECK_EQ(cxil_map(rig.lni, two, 4 * PAGE, RW | CXI_MAP_ALLOC_MD, NULL, &md), 0);
	CHECK_EQ(cxil_update_md(NULL, two, PAGE, RW), -EINVAL);
	CHECK_EQ(cxil_update_md(md, two, 0, RW), -EINVAL);
	CHECK_EQ(cxil_update_md(md, two + 3 * PAGE, 2 * PAGE, RW), -EINVAL);
	CHECK_EQ(cxil_update_md(md, two - 1, 1, RW), -EINVAL);
	{
		uint8_t command[64];

		append(&rig, &portal, command);
		put_bits(command, TGT_LAC, md->lac);
		put_bits(command, TGT_START, iova(md, two + PAGE));
		put_bits(command, TGT_LENGTH, 64);
		put_bits(command, TGT_USE_ONCE, 1);
		put_bits(command, TGT_UNLINK_DISABLE, 1);
		put_bits(command, TGT_LINK_DISABLE, 1);
		post(&rig, command);
		dma(&rig, command, C_CMD_PUT, 3);
		put_bits(command, CMD_REQUEST_LEN, 64);
		send(&rig, command, 64);
		await(&rig.ini, C_EVENT_ACK, C_RC_NO_TRANSLATION);
		done(&rig.ini);
		await(&rig.events, C_EVENT_PUT, C_RC_NO_TRANSLATION);
		done(&rig.events);
	}
	CHECK_EQ(cxil_update_md(md, two + PAGE, PAGE, RW), 0);
	write_to(&rig, &portal, md, two + PAGE);
	CHECK(!munmap(two + PAGE, PAGE));
	CHECK_EQ(cxil_update_md(md, two + PAGE, PAGE, RW), -EFAULT);
	CHECK(mmap(two + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
	      == two + PAGE);
	CHECK_EQ(cxil_update_md(md, two + PAGE, PAGE, RW), 0);
	write_to(&rig, &portal, md, two + PAGE + 100);
	CHECK_EQ(cxil_unmap(md), 0);
	/* Eight kinds of mapping, of which the rig has one */
	for (unsigned int flag = CXI_MAP_NOCACHE; used < 7; used++) {
		static const unsigned int kinds[7] = { 0, CXI_MAP_NOCACHE, CXI_MAP_USER_ADDR,
						       CXI_MAP_NOCACHE | CXI_MAP_USER_ADDR, 1 << 10,
						       1 << 10 | CXI_MAP_NOCACHE, 1 << 10 | CXI_MAP_USER_ADDR };

		(void)flag;
		CHECK_EQ(cxil_map(rig.lni, two, PAGE, CXI_MAP_PIN | CXI_MAP_READ | kinds[used], NULL,
				  &contexts[used]),
			 0);
	}
	CHECK_EQ(cxil_map(rig.lni, two, PAGE, CXI_MAP_PIN | CXI_MAP_WRITE, NULL, &md), -ENOSPC);
	while (used--)
		CHECK_EQ(cxil_unmap(contexts[used]), 0);
	portal_close(&portal);
	rig_close(&rig);
	free(heap);
}

/* With CXI_FORK_SAFE a child does not have the memory; the parent's goes on */
static void fork_safe(void)
{
	struct rig rig;
	struct portal portal;
	uint8_t *buffer = pages(PAGE);
	struct cxi_md *md;
	int status;

	CHECK(cxil_is_copy_on_fork());
	setenv("CXI_FORK_SAFE", "1", 1);
	rig = rig_open(0);
	portal = portal_open(&rig, 3, true);
	CHECK_EQ(cxil_map(rig.lni, buffer, PAGE, RW, NULL, &md), 0);
	if (!fork()) {
		/* Not mapped: the kernel refuses to write from there */
		_exit(write(STDERR_FILENO, buffer, 1) == -1 && errno == EFAULT ? 0 : 1);
	}
	CHECK(wait(&status) > 0);
	CHECK_EQ(status, 0);
	write_to(&rig, &portal, md, buffer);
	CHECK_EQ(cxil_unmap(md), 0);
	if (!fork())
		_exit(buffer[0] != 0 ? 0 : 1);
	CHECK(wait(&status) > 0);
	CHECK_EQ(status, 0);
	portal_close(&portal);
	rig_close(&rig);
}

const struct test control_tests[] = {
	{ "devices", devices },
	{ "device_environment", device_environment },
	{ "services_read", services_read },
	{ "services_admin", services_admin },
	{ "services_shared", services_shared },
	{ "interfaces", interfaces },
	{ "memory", memory },
	{ "fork_safe", fork_safe },
	{ NULL, NULL },
};
