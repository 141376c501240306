/*
 * A rank that makes no progress, for `cxidiag why --job`: `hang HOW`. It opens
 * a NIC, prints `ready`, and does not go on until SIGUSR1. Then it checks that
 * its NIC still works, and prints `unharmed`.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>

#include "rig.h"

static volatile sig_atomic_t over;

static void end(int number)
{
	(void)number;
	over = 1;
}

/* Writes to itself, and waits for both events */
static void check_nic(struct rig *rig)
{
	struct portal portal = portal_open(rig, 0, false);
	uint8_t command[64];

	link_all(rig, &portal, C_PTL_LIST_PRIORITY, 1, iova(rig->md, rig->memory + MEMORY / 2), PAGE);
	rig->memory[0] = 42;
	dma(rig, command, C_CMD_PUT, 0);
	put_bits(command, CMD_REQUEST_LEN, 1);
	send(rig, command, 64);
	await(&rig->events, C_EVENT_PUT, C_RC_OK);
	done(&rig->events);
	await(&rig->ini, C_EVENT_ACK, C_RC_OK);
	done(&rig->ini);
	CHECK_EQ(rig->memory[MEMORY / 2], 42);
	portal_close(&portal);
}

/* Puts to an endpoint that does not exist, one each 10 ms: somebody sends to a rank that has ended */
static void send_to_nobody(struct rig *rig)
{
	uint8_t command[64];

	while (!over) {
		dma(rig, command, C_CMD_PUT, 5);
		put_bits(command, CMD_REQUEST_LEN, 1);
		send(rig, command, 64);
		while (!over && !eq_peek(rig->ini.eq))
			poll(NULL, 0, 1);
		if (eq_peek(rig->ini.eq))
			done(&rig->ini);
		poll(NULL, 0, 10);
	}
	/* The answer to the last put */
	for (int wait = 0; wait < 300 && !eq_peek(rig->ini.eq); wait++)
		poll(NULL, 0, 1);
	if (eq_peek(rig->ini.eq))
		done(&rig->ini);
}

static void say_ready(void)
{
	puts("ready");
	fflush(stdout);
}

/*
 * Puts to itself, whose events nobody reads. Once the queue of events is full,
 * each put disables the portal, and it is enabled again: flow control for ever.
 */
static void fill_events(struct rig *rig)
{
	struct portal portal = portal_open(rig, 3, false);
	uint8_t command[64];
	bool full = false;

	link_all(rig, &portal, C_PTL_LIST_PRIORITY, 1, iova(rig->md, rig->memory + MEMORY / 2), PAGE);
	while (!over) {
		dma(rig, command, C_CMD_PUT, 3);
		put_bits(command, CMD_REQUEST_LEN, 1);
		send(rig, command, 64);
		while (!over && !eq_peek(rig->ini.eq))
			poll(NULL, 0, 1);
		if (!eq_peek(rig->ini.eq))
			break;
		if (event_code(eq_peek(rig->ini.eq)) != C_RC_OK) {
			if (!full)
				say_ready();
			full = true;
			target(rig, command, C_CMD_TGT_SETSTATE, &portal);
			put_bits(command, STATE_STATE, C_PTLTE_ENABLED);
			post(rig, command);
		}
		done(&rig->ini);
		if (full)
			poll(NULL, 0, 10);
	}
	/* The answer to the last put, and the events */
	for (int wait = 0; wait < 300; wait++) {
		if (eq_peek(rig->ini.eq))
			done(&rig->ini);
		while (eq_peek(rig->events.eq))
			done(&rig->events);
		poll(NULL, 0, 1);
	}
	portal_close(&portal);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "wait";
	struct sigaction action = { .sa_handler = end };
	struct rig rig = rig_open(0);
	struct pollfd input = { .fd = 0, .events = POLLIN };
	char byte;

	CHECK(!sigaction(SIGUSR1, &action, NULL));
	if (!strcmp(how, "events"))
		fill_events(&rig);
	else
		say_ready();
	if (!strcmp(how, "nobody"))
		send_to_nobody(&rig);
	while (!over) {
		if (!strcmp(how, "pause"))
			pause();
		else if (!strcmp(how, "sleep"))
			sleep(1000);
		else if (!strcmp(how, "pipe"))
			CHECK(read(0, &byte, 1) != 1);
		else
			poll(&input, 1, -1);
	}
	check_nic(&rig);
	rig_close(&rig);
	puts("unharmed");
	return 0;
}
