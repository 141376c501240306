/* Memory mapped on demand: it may be missing, come, go, and change its rights */
#include "rig.h"

#define INDEX 6

/* Puts bytes from one address of the NIC to another, and checks the return code of the ACK */
static void put(struct rig *rig, struct portal *portal, const struct cxi_md *from_md, const void *from,
		const struct cxi_md *to_md, const void *to, uint32_t len, unsigned int code)
{
	uint8_t command[64];

	append(rig, portal, command);
	put_bits(command, TGT_LAC, to_md->lac);
	put_bits(command, TGT_START, iova(to_md, to));
	put_bits(command, TGT_LENGTH, len);
	put_bits(command, TGT_EVENT_COMM_DISABLE, 1);
	post(rig, command);
	await(&rig->events, C_EVENT_LINK, C_RC_OK);
	done(&rig->events);
	dma(rig, command, C_CMD_PUT, INDEX);
	put_bits(command, CMD_LAC, from_md->lac);
	put_bits(command, CMD_LOCAL_ADDR, iova(from_md, from));
	put_bits(command, CMD_REQUEST_LEN, len);
	send(rig, command, 64);
	await(&rig->ini, C_EVENT_ACK, code);
	done(&rig->ini);
	target(rig, command, C_CMD_TGT_UNLINK, portal);
	put_bits(command, TGT_LIST, C_PTL_LIST_PRIORITY);
	post(rig, command);
	await(&rig->events, C_EVENT_UNLINK, C_RC_OK);
	done(&rig->events);
}

int main(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, INDEX, false);
	const uint32_t on_demand = CXI_MAP_READ | CXI_MAP_WRITE;
	uint8_t *area = pages(2 * PAGE), *unwritten = malloc(PAGE);
	struct cxi_md *md, *faulted, *heap, *refused;

	CHECK_EQ(cxil_map(rig.lni, area, 2 * PAGE, on_demand, NULL, &md), 0);
	memset(rig.memory, 7, PAGE);
	/* A page of zeroes comes into being */
	put(&rig, &portal, rig.md, rig.memory, md, area + 10, 100, C_RC_OK);
	CHECK(area[9] == 0 && area[10] == 7 && area[109] == 7 && area[110] == 0);
	put(&rig, &portal, md, area, rig.md, rig.memory + PAGE, 200, C_RC_OK);
	CHECK(rig.memory[PAGE + 9] == 0 && rig.memory[PAGE + 10] == 7);
	CHECK_EQ(cxil_map(rig.lni, area, PAGE, on_demand | CXI_MAP_FAULT, NULL, &faulted), 0);
	/* Read-only, then without any rights */
	CHECK(!mprotect(area, PAGE, PROT_READ));
	put(&rig, &portal, rig.md, rig.memory, md, area, 8, C_RC_NO_TRANSLATION);
	put(&rig, &portal, md, area, rig.md, rig.memory, 8, C_RC_OK);
	CHECK_EQ(cxil_map(rig.lni, area, PAGE, RW, NULL, &refused), -EINVAL);
	CHECK(!mprotect(area, PAGE, PROT_NONE));
	put(&rig, &portal, md, area, rig.md, rig.memory, 8, C_RC_NO_TRANSLATION);
	CHECK_EQ(cxil_map(rig.lni, area, PAGE, RW, NULL, &refused), -EFAULT);
	CHECK_EQ(cxil_update_md(faulted, area, PAGE, on_demand | CXI_MAP_FAULT), -EINVAL);
	CHECK_EQ(cxil_update_md(faulted, area, PAGE, on_demand | CXI_MAP_PREFETCH), -EINVAL);
	CHECK(!mprotect(area, PAGE, PROT_READ | PROT_WRITE));
	CHECK_EQ(cxil_update_md(faulted, area, PAGE, on_demand | CXI_MAP_FAULT), 0);
	CHECK_EQ(cxil_update_md(md, area, PAGE, on_demand), -EINVAL);
	CHECK_EQ(cxil_update_md(md, area, PAGE, on_demand | CXI_MAP_FAULT), 0);
	CHECK_EQ(cxil_unmap(faulted), 0);
	put(&rig, &portal, rig.md, rig.memory, md, area, 8, C_RC_OK);
	CHECK_EQ(cxil_unmap(md), 0);
	/* Bytes that the program never wrote may be sent */
	CHECK_EQ(cxil_map(rig.lni, unwritten, PAGE, on_demand, NULL, &heap), 0);
	put(&rig, &portal, heap, unwritten, rig.md, rig.memory, PAGE, C_RC_OK);
	put(&rig, &portal, heap, unwritten + 8, heap, unwritten, 8, C_RC_OK);
	CHECK_EQ(cxil_unmap(heap), 0);
	free(unwritten);
	portal_close(&portal);
	rig_close(&rig);
	return 0;
}
