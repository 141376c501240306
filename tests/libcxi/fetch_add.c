/*
 * The NIC executes the atomic operation whose opcode is in the driver's file as an addition
 * [nic.md 11.3].
 */
#include "rig.h"

#define FILE_OF_DRIVER "/sys/class/cxi/cxi0/device/properties/amo_remap_to_pcie_fadd"
#define LAST (MEMORY / 2)

/* Fields that nic.h lacks [nic.md 3, 11] */
#define AMO_WRITE_ADDR 512, 57
#define AMO_OP 576, 4
#define AMO_TYPE 584, 4
#define AMO_WRITE_LAC 608, 3

static void choose(struct rig *rig, int opcode, int obeyed)
{
	FILE *file = fopen(FILE_OF_DRIVER, "w");
	int found = 77;

	CHECK(file && fprintf(file, "%d\n", opcode) > 0 && !fclose(file));
	CHECK_EQ(cxil_get_amo_remap_to_pcie_fadd(rig->dev, &found), 0);
	CHECK_EQ(found, obeyed);
}

/* Exchanges the 40 in memory for 2, and returns what is there then */
static uint64_t swap(struct rig *rig, unsigned int type)
{
	volatile uint64_t *word = (uint64_t *)(rig->memory + LAST);
	uint64_t *operand = (uint64_t *)rig->memory, *result = operand + 1;
	uint8_t command[128] = { 0 };

	*word = 40;
	*operand = 2;
	*result = 0;
	dma(rig, command, C_CMD_FETCHING_ATOMIC, 0);
	put_bits(command, CMD_SIZE, C_CMD_SIZE_128B);
	put_bits(command, CMD_REQUEST_LEN, 8);
	put_bits(command, AMO_WRITE_ADDR, iova(rig->md, result));
	put_bits(command, AMO_WRITE_LAC, rig->md->lac);
	put_bits(command, AMO_OP, C_AMO_OP_SWAP);
	put_bits(command, AMO_TYPE, type);
	send(rig, command, 128);
	await(&rig->ini, C_EVENT_REPLY, C_RC_OK);
	done(&rig->ini);
	await(&rig->events, C_EVENT_FETCH_ATOMIC, C_RC_OK);
	done(&rig->events);
	CHECK_EQ(*(volatile uint64_t *)result, 40);
	return *word;
}

int main(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, 0, false);

	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 1, iova(rig.md, rig.memory + LAST), MEMORY - LAST);
	CHECK_EQ(swap(&rig, C_AMO_TYPE_UINT64_T), 2);
	choose(&rig, C_AMO_OP_SWAP, C_AMO_OP_SWAP);
	CHECK_EQ(swap(&rig, C_AMO_TYPE_UINT64_T), 42);
	CHECK_EQ(swap(&rig, C_AMO_TYPE_INT64_T), 2);
	choose(&rig, C_AMO_OP_MIN, C_AMO_OP_MIN);
	CHECK_EQ(swap(&rig, C_AMO_TYPE_UINT64_T), 2);
	choose(&rig, C_AMO_OP_CSWAP, -1);
	choose(&rig, 16, -1);
	choose(&rig, C_AMO_OP_SWAP, C_AMO_OP_SWAP);
	choose(&rig, -1, -1);
	CHECK_EQ(swap(&rig, C_AMO_TYPE_UINT64_T), 2);
	portal_close(&portal);
	rig_close(&rig);
	return 0;
}
