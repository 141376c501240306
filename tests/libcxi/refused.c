/*
 * Programs that repeat a refused command while they handle its event, as libfabric's protocol for
 * receivers that are not ready does: `refused append` and `refused put`. `refused leave` exits with
 * its device open, and `refused kill` kills itself then.
 */
#include <signal.h>

#include "rig.h"

/* More than a program needs that ends; the answer to each repetition would be there at once */
#define MOST 100

static uint8_t command[64];
static unsigned int repetitions;

/*
 * Handles all events that are there, and repeats a refused command. True if there was a good event
 * of this type.
 */
static bool progress(struct queue *queue, unsigned int type, void (*repeat)(struct rig *), struct rig *rig)
{
	const uint8_t *event;
	bool accepted = false;

	while ((event = eq_peek(queue->eq))) {
		bool refused = event_code(event) != C_RC_OK;

		accepted |= !refused && get_bits(event, EVENT_TYPE) == type;
		done(queue);
		if (refused) {
			repetitions++;
			CHECK(repetitions <= MOST);
			repeat(rig);
		}
	}
	return accepted;
}

static void repeat_append(struct rig *rig)
{
	post(rig, command);
}

static void repeat_put(struct rig *rig)
{
	send(rig, command, 64);
}

/* Appends to a portal without free list entries, until its event queue is empty once */
static void appends(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, 0, true);
	const uint8_t *event;
	unsigned int code;
	uint8_t unlink[64];

	append(&rig, &portal, command);
	do {
		post(&rig, command);
		while (!(event = eq_peek(rig.events.eq)))
			;
		CHECK_EQ(get_bits(event, EVENT_TYPE), C_EVENT_LINK);
		code = event_code(event);
		if (code == C_RC_OK)
			done(&rig.events);
	} while (code == C_RC_OK);
	CHECK_EQ(code, C_RC_NO_SPACE);
	put_bits(command, TGT_RESTART_SEQ, 1);
	CHECK(!progress(&rig.events, C_EVENT_LINK, repeat_append, &rig));
	CHECK(repetitions > 0);
	target(&rig, unlink, C_CMD_TGT_UNLINK, &portal);
	put_bits(unlink, TGT_LIST, C_PTL_LIST_PRIORITY);
	post(&rig, unlink);
	while (!progress(&rig.events, C_EVENT_LINK, repeat_append, &rig))
		;
	portal_close(&portal);
	rig_close(&rig);
}

/* Puts to a portal without list entries, until the event queue is empty once */
static void puts_(void)
{
	struct rig rig = rig_open(0);
	struct portal portal = portal_open(&rig, 0, true);

	dma(&rig, command, C_CMD_PUT, 0);
	send(&rig, command, 64);
	while (!eq_peek(rig.ini.eq))
		;
	CHECK(!progress(&rig.ini, C_EVENT_ACK, repeat_put, &rig));
	CHECK(repetitions > 0);
	link_all(&rig, &portal, C_PTL_LIST_PRIORITY, 0, iova(rig.md, rig.memory), PAGE);
	while (!progress(&rig.ini, C_EVENT_ACK, repeat_put, &rig))
		;
	portal_close(&portal);
	rig_close(&rig);
}

/* Exits after a refused put, with the device open */
static void leave(void)
{
	struct rig rig = rig_open(0);

	dma(&rig, command, C_CMD_PUT, 0);
	send(&rig, command, 64);
	while (!eq_peek(rig.ini.eq))
		;
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	if (!strcmp(argv[1], "append"))
		appends();
	else if (!strcmp(argv[1], "put"))
		puts_();
	else if (!strcmp(argv[1], "leave"))
		leave();
	else if (!strcmp(argv[1], "kill")) {
		leave();
		raise(SIGKILL);
	} else
		return 2;
	return 0;
}
