/*
 * A one-sided writer; its target sleeps: `writer WRITES`. Prints the time from
 * a write of 8 bytes to its acknowledgement in microseconds, and the rate of
 * 64 KiB writes of which 16 are under way.
 */
#include <signal.h>
#include <sys/wait.h>

#include "rig.h"
#include "timing.h"

#define UNDER_WAY 16
#define LARGE 65536

static void be_written(int out, int in, unsigned int writes)
{
	struct rig rig = rig_open(1);
	struct portal portal = portal_open(&rig, 0, false);
	uint32_t mine = own_dfa(&rig, 0), last;
	uint8_t command[64];

	append(&rig, &portal, command);
	put_bits(command, TGT_START, iova(rig.md, rig.memory));
	put_bits(command, TGT_LENGTH, MEMORY);
	put_bits(command, 37, 1, 1); /* no events of operations */
	post(&rig, command);
	await(&rig.events, C_EVENT_LINK, C_RC_OK);
	done(&rig.events);
	CHECK(write(out, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(in, &last, sizeof(last)) == sizeof(last));
	CHECK_EQ(*(uint32_t *)rig.memory, writes);
	for (unsigned int at = LARGE; at < 2 * LARGE; at++)
		CHECK_EQ(rig.memory[at], (uint8_t)(at * 7));
	portal_close(&portal);
	rig_close(&rig);
}

static void write_all(int out, int in, unsigned int writes)
{
	struct rig rig = rig_open(0);
	double *times = calloc(writes, sizeof(*times)), start;
	uint8_t command[64];
	uint32_t theirs;

	CHECK(read(in, &theirs, sizeof(theirs)) == sizeof(theirs));
	dma(&rig, command, C_CMD_PUT, 0);
	put_bits(command, CMD_DFA, theirs);
	put_bits(command, CMD_REQUEST_LEN, 8);
	for (unsigned int round = 1; round <= writes; round++)
		times[round - 1] = timed_write(&rig, command, round);
	print_times("write and ACK", times, writes);
	for (unsigned int at = LARGE; at < 2 * LARGE; at++)
		rig.memory[at] = at * 7;
	put_bits(command, CMD_LOCAL_ADDR, iova(rig.md, rig.memory + LARGE));
	put_bits(command, CMD_REMOTE_OFFSET, LARGE);
	put_bits(command, CMD_REQUEST_LEN, LARGE);
	start = now();
	for (unsigned int sent = 0, come = 0; come < writes; come++) {
		for (; sent < writes && sent < come + UNDER_WAY; sent++)
			send(&rig, command, 64);
		await(&rig.ini, C_EVENT_ACK, C_RC_OK);
		done(&rig.ini);
	}
	printf("%u writes of %u bytes, %u under way: %.0f MB/s\n", writes, LARGE, UNDER_WAY,
	       (double)writes * LARGE / (now() - start));
	CHECK(write(out, &writes, sizeof(writes)) == sizeof(writes));
	rig_close(&rig);
	free(times);
}

int main(int argc, char **argv)
{
	unsigned int writes = argc > 1 ? atoi(argv[1]) : 1000;
	int there[2], back[2], status;

	CHECK(writes > 0 && !pipe(there) && !pipe(back));
	if (!fork()) {
		be_written(back[1], there[0], writes);
		return 0;
	}
	write_all(there[1], back[0], writes);
	CHECK(wait(&status) > 0 && status == 0);
	return 0;
}
