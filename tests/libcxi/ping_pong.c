/*
 * A ping-pong of two processes, both of which spin on their event queues:
 * `ping_pong ROUNDS [bound]`. Prints the round trip in microseconds. With
 * `bound`, each process may use one CPU only, as MPI's launchers bind ranks.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/wait.h>

#include "rig.h"
#include "timing.h"

/* One process: writes its address to a pipe and reads the other's */
static void play(unsigned int device, int out, int in, unsigned int rounds, bool serves)
{
	struct rig rig = rig_open(device);
	struct portal portal = portal_open(&rig, 0, false);
	uint32_t mine = own_dfa(&rig, 0), theirs;
	double *trips = calloc(rounds, sizeof(*trips));
	uint8_t command[32] = { 0 }, state[32] = { 0 };

	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 0, iova(rig.md, rig.memory), PAGE);
	CHECK(write(out, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(in, &theirs, sizeof(theirs)) == sizeof(theirs));
	put_bits(state, CMD_OPCODE, C_CMD_CSTATE);
	put_bits(state, CMD_LENGTH, 32);
	put_bits(state, CMD_SEND_DISABLE, 1);
	put_bits(state, CMD_SUCCESS_DISABLE, 1);
	put_bits(state, CMD_RESTRICTED, 1);
	put_bits(state, CMD_EQ, rig.ini.eq->eqn);
	send(&rig, state, 32);
	put_bits(command, CMD_OPCODE, C_CMD_PUT);
	put_bits(command, CMD_LENGTH, 24);
	put_bits(command, CMD_DFA, theirs);
	for (uint64_t round = 1; round <= rounds; round++) {
		double start = now();

		for (int turn = 0; turn < 2; turn++) {
			if (turn == serves) {
				memcpy(command + 16, &round, 8);
				CHECK_EQ(cq_emit(rig.tx, command, 32), 0);
				cq_ring(rig.tx);
			} else {
				while (!eq_peek(rig.events.eq))
					;
				CHECK_EQ(get_bits(eq_peek(rig.events.eq), EVENT_TYPE), C_EVENT_PUT);
				done(&rig.events);
				CHECK_EQ(*(volatile uint64_t *)rig.memory, round);
			}
		}
		trips[round - 1] = now() - start;
	}
	if (!serves)
		print_times("round trip", trips, rounds);
	/* The last put must have left before its sender goes */
	CHECK(write(out, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(in, &theirs, sizeof(theirs)) == sizeof(theirs));
	portal_close(&portal);
	rig_close(&rig);
	free(trips);
}

/* Binds the process to one of the CPUs that it may use: its first or second one */
static void bind_to(int place)
{
	cpu_set_t all, one;

	CHECK(!sched_getaffinity(0, sizeof(all), &all));
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && place-- >= 0) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
		}
	CHECK(!sched_setaffinity(0, sizeof(one), &one));
}

int main(int argc, char **argv)
{
	bool binds = argc > 2 && !strcmp(argv[2], "bound");
	unsigned int rounds = argc > 1 ? atoi(argv[1]) : 1000;
	int there[2], back[2], status;

	CHECK(rounds > 0 && !pipe(there) && !pipe(back));
	if (!fork()) {
		if (binds)
			bind_to(1);
		play(1, back[1], there[0], rounds, true);
		return 0;
	}
	if (binds)
		bind_to(0);
	play(0, there[1], back[0], rounds, false);
	CHECK(wait(&status) > 0 && status == 0);
	return 0;
}
