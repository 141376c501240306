/*
 * Services, communication profiles, PIDs and users as programs made for
 * hardware meet them. Each part runs in a process of its own; most need root.
 */
#include "rig.h"

static struct cxil_dev *open_device(void)
{
	struct cxil_dev *dev;

	CHECK_EQ(cxil_open_device(0, &dev), 0);
	return dev;
}

static struct cxil_lni *alloc_lni(struct cxil_dev *dev, unsigned int service)
{
	struct cxil_lni *lni;

	CHECK_EQ(cxil_alloc_lni(dev, &lni, service), 0);
	return lni;
}

/* The result of an LNI, which is destroyed */
static int try_lni(struct cxil_dev *dev, unsigned int service)
{
	struct cxil_lni *lni;
	int code = cxil_alloc_lni(dev, &lni, service);

	if (!code)
		CHECK_EQ(cxil_destroy_lni(lni), 0);
	return code;
}

/* A service for everybody with one VNI */
static struct cxi_svc_desc with_vni(uint16_t vni)
{
	return (struct cxi_svc_desc){
		.restricted_vnis = 1, .enable = 1, .num_vld_vnis = 1, .vnis = { vni },
	};
}

static int alloc_svc(struct cxil_dev *dev, struct cxi_svc_desc desc)
{
	struct cxi_svc_fail_info info;

	return cxil_alloc_svc(dev, &desc, &info);
}

static void default_service(void)
{
	struct cxil_svc_list *list;
	struct cxil_dev *dev;

	for (int enabled = 0; enabled < 2; enabled++) {
		CHECK_EQ(setenv("CXIDIAG_SERVICES", enabled ? "enabled" : "disabled", 1), 0);
		dev = open_device();
		CHECK_EQ(cxil_get_svc_list(dev, &list), 0);
		CHECK_EQ(list->count, 2);
		CHECK_EQ(list->descs[0].svc_id, CXI_DEFAULT_SVC_ID);
		CHECK_EQ(list->descs[0].enable, enabled);
		CHECK(!list->descs[0].is_system_svc && !list->descs[0].restricted_tcs);
		cxil_free_svc_list(list);
		CHECK_EQ(try_lni(dev, CXI_DEFAULT_SVC_ID), enabled ? 0 : -EKEYREVOKED);
		cxil_close_device(dev);
	}
}

static void qos_profiles(void)
{
	static const char *const names[] = { "HPC", "LL_BE_BD_ET", "LL_BE_BD_ET1_ET2" };

	for (int profile = 0; profile < 3; profile++) {
		struct cxil_dev *dev;
		struct cxil_lni *lni;
		struct cxi_cp *cp;

		CHECK_EQ(setenv("CXIDIAG_QOS", names[profile], 1), 0);
		dev = open_device();
		lni = alloc_lni(dev, 1);
		CHECK_EQ(cxil_alloc_cp(lni, 1, CXI_TC_DEDICATED_ACCESS, CXI_TC_TYPE_DEFAULT, &cp),
			 profile ? -EINVAL : 0);
		CHECK_EQ(cxil_alloc_cp(lni, 1, CXI_TC_LOW_LATENCY, CXI_TC_TYPE_DEFAULT, &cp),
			 profile ? 0 : -EINVAL);
		CHECK_EQ(cxil_alloc_cp(lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_HRP, &cp), 0);
		cxil_close_device(dev);
	}
}

static void descriptions(void)
{
	struct cxil_dev *dev = open_device();
	struct cxi_svc_desc desc = with_vni(70), ranged = { .enable = 1 };
	struct cxi_svc_fail_info info;
	int id, other;

	/* Enabled, whatever the description says */
	desc.enable = 0;
	id = alloc_svc(dev, desc);
	CHECK_EQ(try_lni(dev, id), 0);
	desc.svc_id = id;
	desc.resource_limits = 1;
	CHECK_EQ(cxil_update_svc(dev, &desc, &info), -EINVAL);
	CHECK_EQ(cxil_destroy_svc(dev, id), 0);

	/* Neither members nor classes */
	desc = with_vni(70);
	desc.restricted_members = 1;
	desc.restricted_tcs = 1;
	id = alloc_svc(dev, desc);
	CHECK_EQ(try_lni(dev, id), -EPERM);
	CHECK_EQ(cxil_destroy_svc(dev, id), 0);

	other = alloc_svc(dev, ranged);
	CHECK_EQ(cxil_svc_set_vni_range(dev, other, 100, 102), -EINVAL);
	CHECK_EQ(cxil_svc_set_vni_range(dev, other, 102, 105), -EINVAL);
	CHECK_EQ(cxil_svc_set_vni_range(dev, other, 100, 103), 0);
	CHECK_EQ(cxil_destroy_svc(dev, other), 0);
	cxil_close_device(dev);
}

static void network_namespaces(void)
{
	struct cxil_dev *dev = open_device();
	struct cxi_svc_desc desc = with_vni(70);
	unsigned int found;
	int id = alloc_svc(dev, desc);

	CHECK_EQ(cxil_svc_set_netns(dev, id, 4), -EEXIST);
	CHECK_EQ(cxil_svc_get_netns(dev, id, &found), -EINVAL);
	CHECK_EQ(cxil_destroy_svc(dev, id), 0);
	desc.restricted_members = 1;
	id = alloc_svc(dev, desc);
	CHECK_EQ(cxil_svc_get_netns(dev, id, &found), -EINVAL);
	CHECK_EQ(cxil_svc_set_netns(dev, id, 4), 0);
	CHECK_EQ(cxil_svc_get_netns(dev, id, &found), 0);
	CHECK_EQ(found, 4);
	CHECK_EQ(try_lni(dev, id), -EPERM);
	CHECK_EQ(cxil_destroy_svc(dev, id), 0);
	desc.members[0].type = CXI_SVC_MEMBER_GID;
	id = alloc_svc(dev, desc);
	CHECK_EQ(cxil_svc_set_netns(dev, id, 4), -EEXIST);
	CHECK_EQ(cxil_destroy_svc(dev, id), 0);
	cxil_close_device(dev);
}

static void pools(void)
{
	struct cxil_dev *dev = open_device();
	struct cxi_svc_desc desc = with_vni(70);
	struct cxi_svc_fail_info info = { 0 };
	int ids[3];

	/* The default service has the fourth */
	desc.resource_limits = 1;
	desc.limits.tles = (struct cxi_limits){ .max = 8, .res = 8 };
	for (int nth = 0; nth < 3; nth++) {
		ids[nth] = alloc_svc(dev, desc);
		CHECK(ids[nth] > 0);
	}
	CHECK_EQ(cxil_alloc_svc(dev, &desc, &info), -ENOSPC);
	CHECK(info.no_tle_pools && !info.no_le_pools);
	for (int nth = 0; nth < 3; nth++)
		CHECK_EQ(cxil_destroy_svc(dev, ids[nth]), 0);
	cxil_close_device(dev);
}

/* Appends an entry and returns the return code of its LINK */
static unsigned int try_append(struct rig *rig, struct portal *portal)
{
	uint8_t command[64];
	const uint8_t *event;
	unsigned int code;

	append(rig, portal, command);
	put_bits(command, TGT_RESTART_SEQ, 1);
	post(rig, command);
	while (!(event = eq_peek(rig->events.eq)))
		;
	CHECK_EQ(get_bits(event, EVENT_TYPE), C_EVENT_LINK);
	code = event_code(event);
	done(&rig->events);
	return code;
}

/* 16,384 for each of four processing elements, to which the portals of an LNI belong in turn */
static void list_entries(void)
{
	struct rig rig = rig_open(0);
	struct portal portals[5];

	for (int nth = 0; nth < 5; nth++)
		portals[nth] = portal_open(&rig, nth, true);
	for (int nth = 0; nth < 16384; nth++)
		CHECK_EQ(try_append(&rig, &portals[0]), C_RC_OK);
	CHECK_EQ(try_append(&rig, &portals[0]), C_RC_NO_SPACE);
	for (int nth = 1; nth < 5; nth++)
		CHECK_EQ(try_append(&rig, &portals[nth]), nth < 4 ? C_RC_OK : C_RC_NO_SPACE);
	for (int nth = 0; nth < 5; nth++)
		portal_close(&portals[nth]);
	rig_close(&rig);
}

/* Fifteen services reserve 1,092 list entries each: 4 are left of 16,384 */
static void reserved_entries(void)
{
	struct cxil_dev *dev = open_device();
	struct cxi_svc_desc desc = with_vni(70);
	int ids[15], last;

	desc.resource_limits = 1;
	desc.limits.les = (struct cxi_limits){ .max = 1092, .res = 1092 };
	for (int nth = 0; nth < 15; nth++) {
		ids[nth] = alloc_svc(dev, desc);
		CHECK(ids[nth] > 0);
	}
	desc.limits.les.res = 5;
	CHECK_EQ(alloc_svc(dev, desc), -ENOSPC);
	desc.limits.les.res = 4;
	last = alloc_svc(dev, desc);
	CHECK(last > 0);
	CHECK_EQ(cxil_destroy_svc(dev, last), 0);
	for (int nth = 0; nth < 15; nth++)
		CHECK_EQ(cxil_destroy_svc(dev, ids[nth]), 0);
	desc.limits.les = (struct cxi_limits){ .max = 16384, .res = 16384 };
	last = alloc_svc(dev, desc);
	CHECK(last > 0);
	CHECK_EQ(cxil_destroy_svc(dev, last), 0);
	cxil_close_device(dev);
}

/* More LNIs than RGIDs, on one device */
static void many_lnis(void)
{
	struct cxil_dev *dev = open_device();
	struct cxil_lni *lnis[300];
	int id = alloc_svc(dev, with_vni(70));

	CHECK_EQ(cxil_set_svc_lpr(dev, id, 8), 0);
	for (int nth = 0; nth < 300; nth++)
		lnis[nth] = alloc_lni(dev, id);
	for (int nth = 0; nth < 300; nth++)
		CHECK_EQ(cxil_destroy_lni(lnis[nth]), 0);
	CHECK_EQ(cxil_destroy_svc(dev, id), 0);
	cxil_close_device(dev);
}

static void pids(void)
{
	struct cxil_dev *dev = open_device();
	struct cxil_lni *lni = alloc_lni(dev, 1), *other = alloc_lni(dev, 1);
	struct cxil_domain *domain;

	CHECK_EQ(cxil_reserve_domain(lni, VNI, 0, 1), 0);
	CHECK_EQ(cxil_alloc_domain(other, VNI, 0, &domain), -EEXIST);
	CHECK_EQ(cxil_alloc_domain(lni, VNI, 0, &domain), 0);
	CHECK_EQ(cxil_destroy_domain(domain), 0);
	CHECK_EQ(cxil_reserve_domain(other, VNI, 0, 511), 0);
	CHECK_EQ(cxil_reserve_domain(lni, VNI, 0, 1), -EEXIST);
	CHECK_EQ(cxil_reserve_domain(lni, 10, 0, 511), 0);
	cxil_close_device(dev);
}

static void ranges(void)
{
	struct cxil_dev *dev = open_device();
	struct cxil_lni *lni, *shared;
	struct cxil_domain *domain;
	struct cxi_cp *cp;

	/* Service 2 has the VNIs 16 to 31 */
	shared = alloc_lni(dev, 2);
	CHECK_EQ(cxil_alloc_domain(shared, 16, 0, &domain), 0);
	CHECK_EQ(cxil_alloc_domain(shared, 31, 0, &domain), -EEXIST);
	CHECK_EQ(cxil_alloc_cp(shared, 16, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &cp), 0);
	CHECK_EQ(cxil_modify_cp(shared, cp, 17), -EINVAL);
	cxil_close_device(dev);

	dev = open_device();
	CHECK_EQ(cxil_svc_set_exclusive_cp(dev, 2, true), 0);
	lni = alloc_lni(dev, 2);
	CHECK_EQ(cxil_alloc_cp(lni, 16, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &cp), 0);
	CHECK_EQ(cxil_modify_cp(lni, cp, 32), -EINVAL);
	CHECK_EQ(cxil_modify_cp(lni, cp, 31), 0);
	CHECK_EQ(cp->vni, 31);
	/* The service of the VNI decides, not the service of the LNI */
	CHECK_EQ(cxil_alloc_cp(lni, VNI, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &cp), 0);
	CHECK_EQ(cxil_modify_cp(lni, cp, VNI), -EINVAL);
	lni = alloc_lni(dev, 1);
	CHECK_EQ(cxil_alloc_cp(lni, 16, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &cp), 0);
	CHECK_EQ(cxil_modify_cp(lni, cp, 31), 0);
	cxil_close_device(dev);
	dev = open_device();
	CHECK_EQ(cxil_svc_set_exclusive_cp(dev, 2, false), 0);
	cxil_close_device(dev);
}

static void effective_user(void)
{
	const uid_t user = 65534;
	struct cxil_dev *dev = open_device();
	struct cxi_svc_desc desc = with_vni(70);
	int own, of_root;

	desc.restricted_members = 1;
	desc.members[0].type = CXI_SVC_MEMBER_UID;
	of_root = alloc_svc(dev, desc);
	desc.members[0].svc_member.uid = user;
	own = alloc_svc(dev, desc);
	CHECK_EQ(try_lni(dev, own), -EPERM);
	CHECK_EQ(seteuid(user), 0);
	CHECK_EQ(try_lni(dev, own), 0);
	CHECK_EQ(try_lni(dev, of_root), -EPERM);
	CHECK_EQ(try_lni(dev, CXI_DEFAULT_SVC_ID), 0);
	CHECK_EQ(seteuid(0), 0);
	CHECK_EQ(cxil_destroy_svc(dev, own), 0);
	CHECK_EQ(cxil_destroy_svc(dev, of_root), 0);
	cxil_close_device(dev);
}

/* Runs the program $CXIDIAG while this process has LCID 0 of the RGID, with another VNI */
static void shared_lcids(void)
{
	static const char *const tools[] = { "write-bw", "read-bw", "send-bw", "atomic-bw" };
	struct cxil_dev *dev = open_device();
	struct cxi_svc_desc desc = with_vni(70);
	struct cxil_lni *lni;
	struct cxi_cp *cp;
	char command[1024];
	int service;

	desc.num_vld_vnis = 2;
	desc.vnis[1] = 71;
	service = alloc_svc(dev, desc);
	CHECK_EQ(cxil_set_svc_lpr(dev, service, 8), 0);
	lni = alloc_lni(dev, service);
	CHECK_EQ(cxil_alloc_cp(lni, 70, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &cp), 0);
	CHECK_EQ(cp->lcid, 0);
	for (size_t at = 0; at < sizeof(tools) / sizeof(*tools); at++) {
		snprintf(command, sizeof(command),
			 "\"$CXIDIAG\" %s --loopback -d soft0 --svc-id=%d --vni=71 -n 2 -l 4",
			 tools[at], service);
		CHECK_EQ(system(command), 0);
	}
	CHECK_EQ(cxil_destroy_cp(cp), 0);
	CHECK_EQ(cxil_destroy_lni(lni), 0);
	CHECK_EQ(cxil_destroy_svc(dev, service), 0);
	cxil_close_device(dev);
}

static const struct {
	const char *name;
	void (*run)(void);
	bool needs_root;
} parts[] = {
	{ "default_service", default_service, false },
	{ "qos_profiles", qos_profiles, false },
	{ "descriptions", descriptions, true },
	{ "network_namespaces", network_namespaces, true },
	{ "pools", pools, true },
	{ "list_entries", list_entries, false },
	{ "reserved_entries", reserved_entries, true },
	{ "many_lnis", many_lnis, true },
	{ "pids", pids, false },
	{ "ranges", ranges, true },
	{ "effective_user", effective_user, true },
	{ "shared_lcids", shared_lcids, true },
};

int main(int argc, char **argv)
{
	CHECK_EQ(argc, 2);
	for (size_t at = 0; at < sizeof(parts) / sizeof(*parts); at++) {
		if (strcmp(parts[at].name, argv[1]))
			continue;
		if (parts[at].needs_root && geteuid() != 0)
			printf("not tested here: only root can change services\n");
		else
			parts[at].run();
		return 0;
	}
	fprintf(stderr, "unknown part: %s\n", argv[1]);
	return 1;
}
