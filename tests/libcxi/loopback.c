/*
 * A process that writes to itself and spins on its event queue:
 * `loopback WRITES`. Prints the time from a write of 8 bytes to its
 * acknowledgement in microseconds.
 */
#include "rig.h"
#include "timing.h"

int main(int argc, char **argv)
{
	unsigned int writes = argc > 1 ? atoi(argv[1]) : 1000;
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, 0, false);
	double *times = calloc(writes, sizeof(*times));
	uint8_t command[64];

	CHECK(writes > 0);
	append(&rig, &portal, command);
	put_bits(command, 37, 1, 1); /* no events of operations */
	post(&rig, command);
	await(&rig.events, C_EVENT_LINK, C_RC_OK);
	done(&rig.events);
	dma(&rig, command, C_CMD_PUT, 0);
	put_bits(command, CMD_REQUEST_LEN, 8);
	for (uint64_t round = 1; round <= writes; round++) {
		times[round - 1] = timed_write(&rig, command, round);
		CHECK_EQ(*(volatile uint64_t *)(rig.memory + MEMORY / 2), round);
	}
	print_times("write and ACK", times, writes);
	portal_close(&portal);
	rig_close(&rig);
	free(times);
	return 0;
}
