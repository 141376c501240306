/*
 * The calls and commands of libfabric's provider for Cassini, in its order:
 * discovery in /sys/class/net, choice of a service, a domain with mapped memory
 * and counters, RMA, tagged messages (expected, unexpected, rendezvous, hybrid
 * matching), atomics, wait objects. `provider` runs two processes: an endpoint on each of
 * the first two NICs.
 *
 * Facts: docs/reference, jobs.md 1.4 and health.md 2.4 for discovery, nic.md for
 * the rest; what libfabric does is marked there.
 */
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <sys/wait.h>

#include "rig.h"

/* Portal indices of an endpoint: messages, memory regions, and the source of rendezvous */
#define MESSAGES 0
#define REGION 16
#define RDZV_GET 255

#define EAGER 2048
#define LARGE (64 << 10)
#define TAG 0x1234500000abcdefULL
#define RDZV_ID 7

/* Where things are in the memory of an endpoint */
#define SOURCE 0
#define LANDING (128 << 10)
#define OVERFLOW_BUFFER (256 << 10)
#define WINDOW (512 << 10)

/* Fields that nic.h lacks [nic.md 3, 6.2, 9.1] */
#define CMD_CT_REPLY 22, 1
#define CMD_FLUSH 28, 1
#define CMD_USE_OFFSET 29, 1
#define CMD_EAGER 256, 20
#define CMD_RDZV_ID 280, 8
#define CMD_MATCH_BITS 320, 64
#define CMD_HEADER_DATA 384, 64
#define CMD_USER_PTR 448, 64
#define MSG_MATCH_BITS 64, 64
#define MSG_HEADER_DATA 128, 64
#define MSG_USER_PTR 192, 64
#define AMO_WRITE_ADDR 512, 57
#define AMO_OP 576, 4
#define AMO_TYPE 584, 4
#define AMO_WRITE_LAC 608, 3
#define TGT_CT_COMM 34, 1
#define TGT_SUCCESS_DISABLE 36, 1
#define TGT_UNLINK_DISABLE 35, 1
#define TGT_USE_ONCE 42, 1
#define TGT_MANAGE_LOCAL 44, 1
#define TGT_MIN_FREE 256, 24
#define TGT_MATCH_BITS 320, 64
#define CT_CT 16, 11
#define CT_TRIG 32, 11
#define CT_EQ 48, 11
#define CT_THRESHOLD 128, 48
#define STATE_DROP_COUNT 128, 24
#define EV_LIST 120, 2
#define EV_USER_PTR 0, 64
#define EV_HEADER_DATA 0, 64
#define EV_INITIATOR 64, 32
#define EV_MATCH_BITS 128, 64
#define EV_RENDEZVOUS 122, 1
#define EV_GET_ISSUED 123, 1
#define EV_MLENGTH 256, 32
#define EV_RLENGTH 288, 32
#define EV_REMOTE_OFFSET 320, 56
#define EV_START 384, 57
#define EV_RDZV_ID 496, 8

/* Bytes of the headers of messages on the request list [8.8] */
#define FABRIC_HEADER 20
#define UNRESTRICTED_HEADER 43
#define SMALL_HEADER 29

struct endpoint {
	struct rig rig;
	struct cxi_ct *counter;
	uint64_t *counts; /* write-back word of the counter */
	struct cxi_cp *trigger_cp;
	struct cxi_cq *trigger;
	struct portal messages, region, source;
	struct cxil_wait_obj *wait;
	struct queue waited;
	unsigned int vni;
	int out, in; /* pipes to and from the peer */
	uint32_t nid, pid; /* of the peer */
};

/* What a file of a network interface contains */
static void read_line(const char *interface, const char *file, char line[64])
{
	char path[PATH_MAX];
	FILE *opened;

	snprintf(path, sizeof(path), "%s/%s", interface, file);
	opened = fopen(path, "r");
	CHECK(opened && fgets(line, 64, opened));
	fclose(opened);
}

/*
 * Whether the kernel shows an Ethernet interface of the NIC with an algorithmic MAC address. The
 * provider takes the PCI address from the text of the link to the device, and follows no link.
 */
static bool has_interface(const struct cxil_devinfo *nic)
{
	glob_t found;
	bool has = false;

	CHECK_EQ(glob("/sys/class/net/*", 0, NULL, &found), 0);
	for (size_t at = 0; at < found.gl_pathc; at++) {
		unsigned int domain, bus, device, function, octet, nid[3];
		char link[PATH_MAX], text[PATH_MAX] = "", line[64];
		const char *last;

		snprintf(link, sizeof(link), "%s/device", found.gl_pathv[at]);
		if (readlink(link, text, sizeof(text) - 1) < 0)
			continue;
		last = strrchr(text, '/');
		if (!last || sscanf(last + 1, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
			continue;
		if (domain != nic->pci_domain || bus != nic->pci_bus || device != nic->pci_device ||
		    function != nic->pci_function)
			continue;
		read_line(found.gl_pathv[at], "addr_assign_type", line);
		CHECK_EQ(atoi(line), 3);
		read_line(found.gl_pathv[at], "address", line);
		CHECK_EQ(sscanf(line, "%x:00:00:%x:%x:%x", &octet, &nid[0], &nid[1], &nid[2]), 4);
		CHECK_EQ(octet & 3, 2);
		CHECK_EQ(nid[0] << 16 | nid[1] << 8 | nid[2], nic->nid);
		read_line(found.gl_pathv[at], "operstate", line);
		CHECK(!strcmp(line, "up\n"));
		read_line(found.gl_pathv[at], "speed", line);
		CHECK_EQ(atoi(line), nic->link_speed);
		has = true;
	}
	globfree(&found);
	return has;
}

/* The NICs that libfabric offers: with a retry handler, a link, and an interface if that is shown */
static void discover(bool with_interfaces)
{
	struct cxil_device_list *list;

	CHECK_EQ(cxil_get_device_list(&list), 0);
	CHECK(list->count >= 2);
	for (unsigned int at = 0; at < list->count; at++) {
		const struct cxil_devinfo *nic = &list->info[at];

		CHECK(nic->pct_eq && nic->link_state && !nic->min_free_shift);
		CHECK(!with_interfaces || has_interface(nic));
	}
	cxil_free_device_list(list);
}

/* The first enabled service from the end of the list that is no system service and is open to everybody */
static unsigned int choose_service(struct cxil_dev *dev, unsigned int *vni)
{
	struct cxil_svc_list *list;
	unsigned int chosen = 0;

	CHECK_EQ(cxil_get_svc_list(dev, &list), 0);
	for (unsigned int at = list->count; at-- > 0 && !chosen;) {
		const struct cxi_svc_desc *service = &list->descs[at];
		uint16_t first, last;

		if (!service->enable || service->is_system_svc || service->restricted_members)
			continue;
		chosen = service->svc_id;
		*vni = service->vnis[0];
		if (!cxil_svc_get_vni_range(dev, chosen, &first, &last))
			*vni = first;
	}
	cxil_free_svc_list(list);
	CHECK(chosen);
	return chosen;
}

/* An event queue as the provider makes it: written by the NIC only, with combining and long target events */
static struct queue open_queue(struct cxil_lni *lni, struct cxil_wait_obj *wait)
{
	struct queue queue = { .buffer = pages(16 * PAGE), .len = 16 * PAGE };
	struct cxi_eq_attr attr = { .queue = queue.buffer, .queue_len = queue.len, .flags = CXI_EQ_TGT_LONG };

	CHECK_EQ(cxil_map(lni, queue.buffer, queue.len, CXI_MAP_PIN | CXI_MAP_WRITE, NULL, &queue.md), 0);
	CHECK_EQ(cxil_alloc_evtq(lni, queue.md, &attr, wait, NULL, &queue.eq), 0);
	return queue;
}

static struct portal open_portal(struct endpoint *endpoint, unsigned int index, bool matching)
{
	struct cxi_pt_alloc_opts opts = {
		.is_matching = matching,
		.en_flowctrl = index == MESSAGES,
		.en_sw_hw_st_chng = index == MESSAGES,
	};
	struct rig *rig = &endpoint->rig;
	struct portal portal;
	uint8_t command[64];

	CHECK_EQ(cxil_alloc_pte(rig->lni, rig->events.eq, &opts, &portal.pte), 0);
	CHECK_EQ(cxil_map_pte(portal.pte, rig->domain, index, false, &portal.map), 0);
	target(rig, command, C_CMD_TGT_SETSTATE, &portal);
	put_bits(command, STATE_STATE, C_PTLTE_ENABLED);
	post(rig, command);
	await(&rig->events, C_EVENT_STATE_CHANGE, C_RC_OK);
	done(&rig->events);
	return portal;
}

static struct endpoint open_endpoint(unsigned int device, int out, int in)
{
	struct endpoint endpoint = { .out = out, .in = in };
	struct cxi_cq_alloc_opts opts = { .count = 256, .flags = CXI_CQ_IS_TX };
	struct rig *rig = &endpoint.rig;
	unsigned int service;
	uint32_t address[2];

	CHECK_EQ(cxil_open_device(device, &rig->dev), 0);
	service = choose_service(rig->dev, &endpoint.vni);
	CHECK_EQ(cxil_alloc_lni(rig->dev, &rig->lni, service), 0);
	CHECK_EQ(cxil_alloc_cp(rig->lni, endpoint.vni, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &rig->cp), 0);
	CHECK_EQ(cxil_alloc_domain(rig->lni, endpoint.vni, C_PID_ANY, &rig->domain), 0);
	rig->memory = pages(MEMORY);
	CHECK_EQ(cxil_map(rig->lni, rig->memory, MEMORY, RW, NULL, &rig->md), 0);
	rig->ini = open_queue(rig->lni, NULL);
	rig->events = open_queue(rig->lni, NULL);
	/* Room for the state changes of a portal with flow control */
	CHECK_EQ(cxil_evtq_adjust_reserved_fc(rig->events.eq, 4), 4);
	opts.lcid = rig->cp->lcid;
	CHECK_EQ(cxil_alloc_cmdq(rig->lni, NULL, &opts, &rig->tx), 0);
	opts.flags = 0;
	CHECK_EQ(cxil_alloc_cmdq(rig->lni, NULL, &opts, &rig->tgt), 0);

	/* A counter; the resets write it back for the first time */
	endpoint.counts = pages(PAGE);
	CHECK_EQ(cxil_alloc_ct(rig->lni, (struct c_ct_writeback *)endpoint.counts, &endpoint.counter), 0);
	((volatile uint64_t *)endpoint.counter->doorbell)[16] = 0;
	((volatile uint64_t *)endpoint.counter->doorbell)[24] = 0;
	while (!(*(volatile uint64_t *)endpoint.counts >> 63))
		;
	CHECK_EQ(cxil_alloc_trig_cp(rig->lni, endpoint.vni, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT,
				    TRIG_LCID, &endpoint.trigger_cp),
		 0);
	opts.flags = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS;
	opts.lcid = endpoint.trigger_cp->lcid;
	CHECK_EQ(cxil_alloc_cmdq(rig->lni, NULL, &opts, &endpoint.trigger), 0);

	CHECK_EQ(cxil_alloc_wait_obj(rig->lni, &endpoint.wait), 0);
	endpoint.waited = open_queue(rig->lni, endpoint.wait);

	endpoint.messages = open_portal(&endpoint, MESSAGES, true);
	endpoint.region = open_portal(&endpoint, REGION, false);
	endpoint.source = open_portal(&endpoint, RDZV_GET, true);

	address[0] = rig->dev->info.nid;
	address[1] = rig->domain->pid;
	CHECK(write(out, address, sizeof(address)) == sizeof(address));
	CHECK(read(in, address, sizeof(address)) == sizeof(address));
	endpoint.nid = address[0];
	endpoint.pid = address[1];
	return endpoint;
}

static void close_endpoint(struct endpoint *endpoint)
{
	portal_close(&endpoint->messages);
	portal_close(&endpoint->region);
	portal_close(&endpoint->source);
	queue_close(&endpoint->waited);
	CHECK_EQ(cxil_destroy_wait_obj(endpoint->wait), 0);
	CHECK_EQ(cxil_destroy_cmdq(endpoint->trigger), 0);
	CHECK_EQ(cxil_destroy_cp(endpoint->trigger_cp), 0);
	CHECK_EQ(cxil_destroy_ct(endpoint->counter), 0);
	rig_close(&endpoint->rig);
}

/* A barrier: waits until the peer calls it too */
static void barrier(struct endpoint *endpoint)
{
	char byte = 0;

	CHECK(write(endpoint->out, &byte, 1) == 1 && read(endpoint->in, &byte, 1) == 1);
}

/* A command to the peer */
static void to_peer(struct endpoint *endpoint, uint8_t command[128], unsigned int opcode, unsigned int index,
		    uint64_t local, unsigned int len)
{
	struct rig *rig = &endpoint->rig;

	memset(command, 0, 128);
	dma(rig, command, opcode, index);
	put_bits(command, CMD_DFA, dfa(endpoint->nid, endpoint->pid, index));
	put_bits(command, CMD_LOCAL_ADDR, iova(rig->md, rig->memory + local));
	put_bits(command, CMD_REQUEST_LEN, len);
	put_bits(command, CMD_USER_PTR, 0xc0ffee);
}

/* Links an entry without a LINK event that matches the tag */
static void link_entry(struct endpoint *endpoint, struct portal *portal, unsigned int list, unsigned int id,
		       uint64_t start, uint64_t len, uint8_t command[64])
{
	struct rig *rig = &endpoint->rig;

	append(rig, portal, command);
	put_bits(command, TGT_LIST, list);
	put_bits(command, TGT_BUFFER_ID, id);
	put_bits(command, TGT_START, iova(rig->md, rig->memory + start));
	put_bits(command, TGT_LENGTH, len);
	put_bits(command, TGT_MATCH_BITS, TAG);
	put_bits(command, TGT_IGNORE_BITS, 0);
}

/* Places messages one after the other, or one message only, without an UNLINK event */
static void manage_local(uint8_t command[64], bool once)
{
	put_bits(command, TGT_USE_ONCE, once);
	put_bits(command, TGT_MANAGE_LOCAL, 1);
	put_bits(command, TGT_UNLINK_DISABLE, 1);
}

static void linked(struct endpoint *endpoint)
{
	await(&endpoint->rig.events, C_EVENT_LINK, C_RC_OK);
	done(&endpoint->rig.events);
}

static void unlink_entry(struct endpoint *endpoint, struct portal *portal, unsigned int list, unsigned int id)
{
	struct rig *rig = &endpoint->rig;
	uint8_t command[64];

	target(rig, command, C_CMD_TGT_UNLINK, portal);
	put_bits(command, TGT_LIST, list);
	put_bits(command, TGT_BUFFER_ID, id);
	post(rig, command);
	await(&rig->events, C_EVENT_UNLINK, C_RC_OK);
	done(&rig->events);
}

static void completed(struct endpoint *endpoint, unsigned int event)
{
	const uint8_t *found = await(&endpoint->rig.ini, event, C_RC_OK);

	CHECK_EQ(get_bits(found, EV_USER_PTR), 0xc0ffee);
	done(&endpoint->rig.ini);
}

static void fill(struct endpoint *endpoint, uint64_t at, unsigned int len, unsigned int seed)
{
	for (unsigned int byte = 0; byte < len; byte++)
		endpoint->rig.memory[at + byte] = (uint8_t)(byte * 7 + seed);
}

static void check(struct endpoint *endpoint, uint64_t at, unsigned int len, unsigned int seed)
{
	for (unsigned int byte = 0; byte < len; byte++)
		CHECK_EQ(endpoint->rig.memory[at + byte], (uint8_t)(byte * 7 + seed));
}

/* A window that the peer reads and writes; a write with a count, a flushed write with an event, a read */
static void rma(struct endpoint *endpoint, bool initiates)
{
	struct rig *rig = &endpoint->rig;
	uint8_t command[128], trigger[64] = { 0 };

	link_entry(endpoint, &endpoint->region, C_PTL_LIST_PRIORITY, 1, WINDOW, MEMORY - WINDOW, command);
	put_bits(command, TGT_SUCCESS_DISABLE, 1);
	post(rig, command);
	linked(endpoint);
	barrier(endpoint);
	if (initiates) {
		/* The event of the trigger comes when both writes are counted */
		put_bits(trigger, CMD_TYPE, C_CMD_TYPE_CT);
		put_bits(trigger, CMD_SIZE, C_CMD_SIZE_64B);
		put_bits(trigger, CMD_OPCODE, C_CMD_CT_TRIG_EVENT);
		put_bits(trigger, CT_TRIG, endpoint->counter->ctn);
		put_bits(trigger, CT_EQ, endpoint->waited.eq->eqn);
		put_bits(trigger, CT_THRESHOLD, 2);
		CHECK_EQ(cq_emit(endpoint->trigger, trigger, 64), 0);
		cq_ring(endpoint->trigger);
		for (unsigned int turn = 0; turn < 2; turn++) {
			fill(endpoint, SOURCE + turn * LARGE, LARGE, turn);
			to_peer(endpoint, command, C_CMD_PUT, REGION, SOURCE + turn * LARGE, LARGE);
			put_bits(command, CMD_REMOTE_OFFSET, turn * LARGE);
			put_bits(command, CMD_RESTRICTED, 1);
			put_bits(command, CMD_SUCCESS_DISABLE, 1);
			put_bits(command, CMD_CT_ACK, 1);
			put_bits(command, CMD_CT, endpoint->counter->ctn);
			send(rig, command, 64);
		}
		await(&endpoint->waited, C_EVENT_TRIGGERED_OP, C_RC_OK);
		done(&endpoint->waited);
		CHECK_EQ(*(volatile uint64_t *)endpoint->counts & 0xffffffffffff, 2);

		fill(endpoint, SOURCE, 100, 9);
		to_peer(endpoint, command, C_CMD_PUT, REGION, SOURCE, 100);
		put_bits(command, CMD_REMOTE_OFFSET, 3 * LARGE);
		put_bits(command, CMD_FLUSH, 1);
		send(rig, command, 64);
		completed(endpoint, C_EVENT_ACK);

		to_peer(endpoint, command, C_CMD_GET, REGION, LANDING, LARGE);
		put_bits(command, CMD_REMOTE_OFFSET, LARGE);
		put_bits(command, CMD_RESTRICTED, 1);
		send(rig, command, 64);
		completed(endpoint, C_EVENT_REPLY);
		check(endpoint, LANDING, LARGE, 1);
	}
	barrier(endpoint);
	if (!initiates) {
		check(endpoint, WINDOW, LARGE, 0);
		check(endpoint, WINDOW + LARGE, LARGE, 1);
		check(endpoint, WINDOW + 3 * LARGE, 100, 9);
	}
}

/* A fetching addition to a word of the window */
static void atomic(struct endpoint *endpoint, bool initiates)
{
	struct rig *rig = &endpoint->rig;
	uint64_t *word = (uint64_t *)(rig->memory + WINDOW), *result = (uint64_t *)(rig->memory + LANDING);
	uint8_t command[128];

	if (!initiates)
		*word = 40;
	barrier(endpoint);
	if (initiates) {
		*(uint64_t *)(rig->memory + SOURCE) = 2;
		to_peer(endpoint, command, C_CMD_FETCHING_ATOMIC, REGION, SOURCE, 8);
		put_bits(command, CMD_SIZE, C_CMD_SIZE_128B);
		put_bits(command, CMD_EAGER, 0);
		put_bits(command, AMO_WRITE_ADDR, iova(rig->md, result));
		put_bits(command, AMO_WRITE_LAC, rig->md->lac);
		put_bits(command, AMO_OP, C_AMO_OP_SUM);
		put_bits(command, AMO_TYPE, C_AMO_TYPE_UINT64_T);
		send(rig, command, 128);
		completed(endpoint, C_EVENT_REPLY);
		CHECK_EQ(*(volatile uint64_t *)result, 40);
	}
	barrier(endpoint);
	if (!initiates)
		CHECK_EQ(*(volatile uint64_t *)word, 42);
}

/* A tagged message to a receive that is posted before or after it arrives */
static void message(struct endpoint *endpoint, bool initiates, bool expected)
{
	struct rig *rig = &endpoint->rig;
	uint8_t command[128];
	const uint8_t *event;

	if (!initiates) {
		link_entry(endpoint, &endpoint->messages, C_PTL_LIST_OVERFLOW, 2, OVERFLOW_BUFFER, 8 * EAGER, command);
		manage_local(command, false);
		put_bits(command, TGT_MIN_FREE, EAGER);
		put_bits(command, TGT_IGNORE_BITS, UINT64_MAX);
		post(rig, command);
		linked(endpoint);
	}
	for (int turn = expected; turn < 2; turn++) {
		if (!initiates && turn) {
			link_entry(endpoint, &endpoint->messages, C_PTL_LIST_PRIORITY, 3, LANDING, EAGER, command);
			manage_local(command, true);
			post(rig, command);
			if (expected)
				linked(endpoint);
		}
		barrier(endpoint);
		if (initiates && turn == expected) {
			fill(endpoint, SOURCE, 1000, 5);
			to_peer(endpoint, command, C_CMD_PUT, MESSAGES, SOURCE, 1000);
			put_bits(command, CMD_MATCH_BITS, TAG);
			put_bits(command, CMD_HEADER_DATA, 0xdada);
			send(rig, command, 64);
			completed(endpoint, C_EVENT_ACK);
		}
		if (!initiates && !turn) {
			event = await(&rig->events, C_EVENT_PUT, C_RC_OK);
			CHECK_EQ(get_bits(event, EV_BUFFER_ID), 2);
			done(&rig->events);
		}
	}
	if (!initiates) {
		event = await(&rig->events, expected ? C_EVENT_PUT : C_EVENT_PUT_OVERFLOW, C_RC_OK);
		CHECK_EQ(get_bits(event, EV_BUFFER_ID), 3);
		CHECK_EQ(get_bits(event, EV_HEADER_DATA), 0xdada);
		CHECK_EQ(get_bits(event, EV_MATCH_BITS), TAG);
		CHECK_EQ(get_bits(event, EV_RLENGTH), 1000);
		CHECK_EQ(get_bits(event, EV_MLENGTH), 1000);
		/* The software copies an unexpected message; its event says where it is */
		check(endpoint, expected ? LANDING : get_bits(event, EV_START) - iova(rig->md, rig->memory), 1000, 5);
		done(&rig->events);
		unlink_entry(endpoint, &endpoint->messages, C_PTL_LIST_OVERFLOW, 2);
	}
	barrier(endpoint);
}

/* Links the source entry of all rendezvous: offsets in it are addresses of the NIC */
static void link_source(struct endpoint *endpoint)
{
	struct rig *rig = &endpoint->rig;
	uint8_t command[64];

	append(rig, &endpoint->source, command);
	put_bits(command, TGT_OP_PUT, 0);
	put_bits(command, TGT_BUFFER_ID, 4);
	put_bits(command, TGT_START, 0);
	put_bits(command, TGT_LENGTH, (1ULL << 56) - 1);
	put_bits(command, TGT_IGNORE_BITS, UINT64_MAX & ~0xffULL);
	put_bits(command, TGT_MATCH_BITS, RDZV_ID);
	post(rig, command);
	linked(endpoint);
}

/* Unlinks the source entry after the get of a rendezvous message */
static void unlink_source(struct endpoint *endpoint)
{
	const uint8_t *event = await(&endpoint->rig.events, C_EVENT_GET, C_RC_OK);

	CHECK_EQ(get_bits(event, EV_BUFFER_ID), 4);
	CHECK_EQ(get_bits(event, EV_MLENGTH), LARGE - EAGER);
	done(&endpoint->rig.events);
	unlink_entry(endpoint, &endpoint->source, C_PTL_LIST_PRIORITY, 4);
}

/* The fields of a rendezvous put of what is at SOURCE */
static void rendezvous_fields(struct endpoint *endpoint, uint8_t command[128])
{
	struct rig *rig = &endpoint->rig;

	put_bits(command, CMD_EAGER, EAGER);
	put_bits(command, CMD_RDZV_ID, RDZV_ID);
	put_bits(command, CMD_USE_OFFSET, 1);
	put_bits(command, CMD_REMOTE_OFFSET, iova(rig->md, rig->memory + SOURCE));
}

/* A message larger than the eager part: the rest is fetched from the source, by the NIC or by software */
static void rendezvous(struct endpoint *endpoint, bool initiates)
{
	struct rig *rig = &endpoint->rig;
	uint8_t command[128];
	const uint8_t *event;
	bool issued;

	if (initiates) {
		link_source(endpoint);
	} else {
		link_entry(endpoint, &endpoint->messages, C_PTL_LIST_PRIORITY, 5, LANDING, LARGE, command);
		manage_local(command, true);
		post(rig, command);
		linked(endpoint);
	}
	barrier(endpoint);
	if (initiates) {
		fill(endpoint, SOURCE, LARGE, 3);
		to_peer(endpoint, command, C_CMD_RENDEZVOUS_PUT, MESSAGES, SOURCE, LARGE);
		put_bits(command, CMD_MATCH_BITS, TAG);
		rendezvous_fields(endpoint, command);
		send(rig, command, 64);
		completed(endpoint, C_EVENT_ACK);
		unlink_source(endpoint);
	} else {
		event = await(&rig->events, C_EVENT_PUT, C_RC_OK);
		CHECK_EQ(get_bits(event, EV_RENDEZVOUS), 1);
		CHECK_EQ(get_bits(event, EV_RLENGTH), LARGE);
		done(&rig->events);
		event = await(&rig->events, C_EVENT_RENDEZVOUS, C_RC_OK);
		issued = get_bits(event, EV_GET_ISSUED);
		if (!issued) {
			uint32_t from = get_bits(event, EV_INITIATOR);

			to_peer(endpoint, command, C_CMD_GET, RDZV_GET, LANDING + EAGER, LARGE - EAGER);
			CHECK_EQ(from >> CXI_DFA_EP_WIDTH, endpoint->nid);
			put_bits(command, CMD_MATCH_BITS, get_bits(event, EV_MATCH_BITS));
			put_bits(command, CMD_REMOTE_OFFSET, get_bits(event, EV_REMOTE_OFFSET));
			send(rig, command, 64);
		}
		done(&rig->events);
		if (issued) {
			await(&rig->events, C_EVENT_REPLY, C_RC_OK);
			done(&rig->events);
		} else {
			completed(endpoint, C_EVENT_REPLY);
		}
		check(endpoint, LANDING, LARGE, 3);
	}
	barrier(endpoint);
}

static void change_state(struct endpoint *endpoint, unsigned int state)
{
	struct rig *rig = &endpoint->rig;
	const uint8_t *event = await(&rig->events, C_EVENT_STATE_CHANGE, C_RC_OK);

	CHECK_EQ(get_bits(event, EV_STATE), state);
	done(&rig->events);
}

/*
 * Returns the bytes of the headers before the data of a message on the request list, and the remote
 * offset, which of all fields of the headers is the only one that libfabric reads [8.8]
 */
static unsigned int parse_headers(const uint8_t *message, uint64_t *remote_offset)
{
	const uint8_t *transport = message + FABRIC_HEADER;

	CHECK_EQ(message[0] >> 4, 4);
	*remote_offset = 0;
	if ((transport[0] >> 4 & 7) == 1)
		return FABRIC_HEADER + SMALL_HEADER;
	CHECK_EQ(transport[0] >> 4 & 7, 0);
	for (unsigned int byte = 22; byte < 29; byte++)
		*remote_offset = *remote_offset << 8 | transport[byte];
	return FABRIC_HEADER + UNRESTRICTED_HEADER;
}

/*
 * Takes the next message from the request list, where it is at `*at`, and moves `*at` behind it. Its
 * fields are in the event. Fetches the rest of a rendezvous message to the landing buffer.
 */
static void take_request(struct endpoint *endpoint, uint64_t *at, unsigned int len, unsigned int seed)
{
	struct rig *rig = &endpoint->rig;
	const uint8_t *event = await(&rig->events, C_EVENT_PUT, C_RC_OK);
	uint32_t written = get_bits(event, EV_MLENGTH), from = get_bits(event, EV_INITIATOR);
	uint8_t command[128];
	uint64_t remote_offset;
	unsigned int headers;

	CHECK_EQ(get_bits(event, EV_LIST), C_PTL_LIST_REQUEST);
	CHECK_EQ(get_bits(event, EV_MATCH_BITS), TAG);
	CHECK_EQ(get_bits(event, EV_HEADER_DATA), 0xfeed);
	CHECK_EQ(get_bits(event, EV_RLENGTH), len);
	CHECK_EQ(get_bits(event, EV_START), iova(rig->md, rig->memory + *at));
	CHECK_EQ(from, match_id(endpoint->nid, endpoint->pid));
	headers = parse_headers(rig->memory + *at, &remote_offset);
	CHECK(written > headers);
	memcpy(rig->memory + LANDING, rig->memory + *at + headers, written - headers);
	*at += written;
	written -= headers;
	if (get_bits(event, EV_RENDEZVOUS)) {
		CHECK_EQ(written, EAGER);
		to_peer(endpoint, command, C_CMD_GET, RDZV_GET, LANDING + written, len - written);
		put_bits(command, CMD_MATCH_BITS, get_bits(event, EV_RDZV_ID));
		put_bits(command, CMD_REMOTE_OFFSET, remote_offset + written);
		send(rig, command, 64);
		completed(endpoint, C_EVENT_REPLY);
	} else {
		CHECK_EQ(written, len);
	}
	check(endpoint, LANDING, len, seed);
	done(&rig->events);
}

/* A small message to the portal for messages */
static void send_small(struct endpoint *endpoint, unsigned int len)
{
	struct rig *rig = &endpoint->rig;
	uint8_t state[32] = { 0 }, command[64] = { 0 };

	put_bits(state, CMD_OPCODE, C_CMD_CSTATE);
	put_bits(state, CMD_LENGTH, sizeof(state));
	put_bits(state, CMD_SEND_DISABLE, 1);
	put_bits(state, CSTATE_INITIATOR, match_id(rig->dev->info.nid, rig->domain->pid));
	put_bits(state, CMD_EQ, rig->ini.eq->eqn);
	CHECK_EQ(cq_emit(rig->tx, state, sizeof(state)), 0);
	put_bits(command, CMD_SIZE, C_CMD_SIZE_64B);
	put_bits(command, CMD_OPCODE, C_CMD_SMALL_MESSAGE);
	put_bits(command, CMD_LENGTH, 32 + len);
	put_bits(command, CMD_DFA, dfa(endpoint->nid, endpoint->pid, MESSAGES));
	put_bits(command, MSG_MATCH_BITS, TAG);
	put_bits(command, MSG_HEADER_DATA, 0xfeed);
	put_bits(command, MSG_USER_PTR, 0xc0ffee);
	memcpy(command + 32, rig->memory + SOURCE, len);
	send(rig, command, 64);
}

/*
 * Hybrid matching: the portal changes to software and back, and the messages that arrive meanwhile
 * are on the request list: a small one, an ordinary one and a rendezvous
 */
static void hybrid(struct endpoint *endpoint, bool initiates)
{
	const unsigned int lens[] = { 13, 1000, LARGE };
	struct rig *rig = &endpoint->rig;
	struct cxi_pte_status status = { 0 };
	uint64_t at = OVERFLOW_BUFFER;
	unsigned int opcode;
	uint8_t command[128];

	if (!initiates) {
		CHECK_EQ(cxil_pte_status(endpoint->messages.pte, &status), 0);
		CHECK_EQ(cxil_pte_transition_sm(endpoint->messages.pte, status.drop_count), 0);
		change_state(endpoint, C_PTLTE_SOFTWARE_MANAGED);
		link_entry(endpoint, &endpoint->messages, C_PTL_LIST_REQUEST, 6, OVERFLOW_BUFFER, 8 * EAGER, command);
		manage_local(command, false);
		post(rig, command);
		linked(endpoint);
	} else {
		link_source(endpoint);
	}
	for (unsigned int turn = 0; turn < 3; turn++) {
		barrier(endpoint);
		if (!initiates) {
			take_request(endpoint, &at, lens[turn], turn);
		} else {
			fill(endpoint, SOURCE, lens[turn], turn);
			if (turn == 0) {
				send_small(endpoint, lens[turn]);
			} else {
				opcode = turn == 1 ? C_CMD_PUT : C_CMD_RENDEZVOUS_PUT;
				to_peer(endpoint, command, opcode, MESSAGES, SOURCE, lens[turn]);
				put_bits(command, CMD_MATCH_BITS, TAG);
				put_bits(command, CMD_HEADER_DATA, 0xfeed);
				if (turn == 2)
					rendezvous_fields(endpoint, command);
				send(rig, command, 64);
			}
			completed(endpoint, C_EVENT_ACK);
		}
	}
	if (initiates) {
		unlink_source(endpoint);
	} else {
		unlink_entry(endpoint, &endpoint->messages, C_PTL_LIST_REQUEST, 6);
		target(rig, command, C_CMD_TGT_SETSTATE, &endpoint->messages);
		put_bits(command, STATE_STATE, C_PTLTE_ENABLED);
		put_bits(command, STATE_DROP_COUNT, status.drop_count);
		post(rig, command);
		change_state(endpoint, C_PTLTE_ENABLED);
	}
	barrier(endpoint);
}

/* Sleeps until an event of a write is there */
static void wait_for_event(struct endpoint *endpoint, bool initiates)
{
	struct rig *rig = &endpoint->rig;
	struct pollfd ready = { .fd = cxil_get_wait_obj_fd(endpoint->wait), .events = POLLPRI | POLLIN };
	uint8_t command[128];

	if (initiates) {
		cxil_clear_wait_obj(endpoint->wait);
		CHECK(!eq_peek(endpoint->waited.eq));
		to_peer(endpoint, command, C_CMD_PUT, REGION, SOURCE, 8);
		put_bits(command, CMD_EQ, endpoint->waited.eq->eqn);
		send(rig, command, 64);
		CHECK_EQ(poll(&ready, 1, 30000), 1);
		await(&endpoint->waited, C_EVENT_ACK, C_RC_OK);
		done(&endpoint->waited);
	}
	barrier(endpoint);
}

static void run(unsigned int device, int out, int in)
{
	struct endpoint endpoint = open_endpoint(device, out, in);

	for (unsigned int turn = 0; turn < 2; turn++) {
		bool initiates = turn == device;

		if (!turn)
			rma(&endpoint, initiates);
		atomic(&endpoint, initiates);
		hybrid(&endpoint, initiates);
		message(&endpoint, initiates, true);
		message(&endpoint, initiates, false);
		rendezvous(&endpoint, initiates);
		wait_for_event(&endpoint, initiates);
	}
	close_endpoint(&endpoint);
}

/* `provider`, or `provider no-sys` where /sys/class cannot show the NICs */
int main(int argc, char **argv)
{
	int there[2], back[2], status;

	discover(argc < 2 || strcmp(argv[1], "no-sys"));
	CHECK(!pipe(there) && !pipe(back));
	/* Each process closes the ends of the other, so that a process that fails ends both */
	if (!fork()) {
		close(there[1]);
		close(back[0]);
		run(1, back[1], there[0]);
		return 0;
	}
	close(there[0]);
	close(back[1]);
	run(0, there[1], back[0]);
	CHECK(wait(&status) > 0);
	CHECK_EQ(status, 0);
	return 0;
}
