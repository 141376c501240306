/*
 * A rank that makes no progress, for `cxidiag why --job`: `hang HOW`. It opens
 * a NIC, prints `ready`, and does not go on until SIGUSR1. Then it checks that
 * its NIC still works, and prints `unharmed`.
 *
 * HOW is a chain of functions that call each other, such as
 * MPI_Send/cxip_tsend/wait: functions with names of MPI, of libfabric's provider
 * and of GPU runtimes, and at the end the way in which the rank hangs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
/* rig.h has another function of this name */
#define send send_to_socket
#include <sys/socket.h>
#undef send
#include <sys/wait.h>

#include "rig.h"

static volatile sig_atomic_t over;
static volatile unsigned int kept;

static void end(int number)
{
	(void)number;
	over = 1;
}

static void say_ready(void)
{
	puts("ready");
	fflush(stdout);
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

/* Appends list entries until the service has no more, and then tries again for ever */
static void fill_list(struct rig *rig)
{
	struct portal portal = portal_open(rig, 4, false);
	uint8_t command[64];
	bool full = false;

	while (!over) {
		append(rig, &portal, command);
		post(rig, command);
		while (!eq_peek(rig->events.eq))
			sched_yield();
		if (event_code(eq_peek(rig->events.eq)) != C_RC_OK) {
			if (!full)
				say_ready();
			full = true;
		}
		done(&rig->events);
		if (full)
			poll(NULL, 0, 10);
	}
	portal_close(&portal);
}

/* Waits for a counter to which nobody adds */
static void wait_for_counter(struct rig *rig)
{
	volatile uint64_t *word = aligned_alloc(64, 64);
	struct cxi_ct *ct;

	word[0] = 0;
	CHECK_EQ(cxil_alloc_ct(rig->lni, (struct c_ct_writeback *)word, &ct), 0);
	while (!over && !word[0])
		sched_yield();
	CHECK_EQ(cxil_destroy_ct(ct), 0);
}

/* Puts to itself, one each `pause` ms */
static void send_to_itself(struct rig *rig, int pause)
{
	struct portal portal = portal_open(rig, 5, false);
	uint8_t command[64];

	link_all(rig, &portal, C_PTL_LIST_PRIORITY, 1, iova(rig->md, rig->memory + MEMORY / 2), PAGE);
	say_ready();
	while (!over) {
		dma(rig, command, C_CMD_PUT, 5);
		put_bits(command, CMD_REQUEST_LEN, 1);
		send(rig, command, 64);
		await(&rig->ini, C_EVENT_ACK, C_RC_OK);
		done(&rig->ini);
		await(&rig->events, C_EVENT_PUT, C_RC_OK);
		done(&rig->events);
		if (pause)
			poll(NULL, 0, pause);
	}
	portal_close(&portal);
}

/* Puts to itself without an entry that takes them, one each 10 ms: a receive that is never posted */
static void send_unexpected(struct rig *rig)
{
	struct portal portal = portal_open(rig, 5, true);
	uint8_t command[64];

	say_ready();
	while (!over) {
		dma(rig, command, C_CMD_PUT, 5);
		put_bits(command, CMD_REQUEST_LEN, 1);
		send(rig, command, 64);
		while (!eq_peek(rig->ini.eq))
			sched_yield();
		CHECK(event_code(eq_peek(rig->ini.eq)) != C_RC_OK);
		done(&rig->ini);
		poll(NULL, 0, 10);
	}
	portal_close(&portal);
}

/* Posts a receive to which nobody sends, and polls */
static void receive(struct rig *rig)
{
	struct portal portal = portal_open(rig, 5, true);

	link_all(rig, &portal, C_PTL_LIST_PRIORITY, 1, iova(rig->md, rig->memory + MEMORY / 2), PAGE);
	say_ready();
	while (!over && !eq_peek(rig->events.eq))
		sched_yield();
	portal_close(&portal);
}

static void wait_for_file_lock(void)
{
	char path[] = "/tmp/hang.XXXXXX";
	int held = mkstemp(path), wanted = open(path, O_RDWR);

	CHECK(held >= 0 && wanted >= 0 && !unlink(path));
	CHECK(!flock(held, LOCK_EX));
	while (!over)
		CHECK(flock(wanted, LOCK_EX));
}

/* Whether SIGUSR1 waits for a process */
static bool is_signalled(pid_t pid)
{
	char path[64], text[4096] = "", *mask;
	int file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = open(path, O_RDONLY);
	CHECK(file >= 0 && read(file, text, sizeof(text) - 1) > 0 && !close(file));
	mask = strstr(text, "ShdPnd:");
	CHECK(mask);
	return strtoull(mask + strlen("ShdPnd:"), NULL, 16) >> (SIGUSR1 - 1) & 1;
}

/* It is in the kernel as long as its child: the state D that needs no root */
static void wait_in_kernel(void)
{
	pid_t parent = getpid(), child = vfork();

	if (!child) {
		while (!is_signalled(parent))
			poll(NULL, 0, 10);
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, NULL, 0) == child);
}

static void wait_for_child(void)
{
	pid_t child = fork();

	if (!child) {
		while (getppid() != 1 && !over)
			pause();
		_exit(0);
	}
	while (!over)
		CHECK(waitpid(child, NULL, 0) < 0);
	kill(child, SIGUSR1);
	CHECK(waitpid(child, NULL, 0) == child);
}

static void wait_for_socket(void)
{
	int pair[2];
	char byte;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	while (!over)
		CHECK(recv(pair[0], &byte, 1, 0) != 1);
}

static void hang(const char *how)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	char byte;

	if (!strcmp(how, "file-lock"))
		return wait_for_file_lock();
	if (!strcmp(how, "kernel"))
		return wait_in_kernel();
	if (!strcmp(how, "child"))
		return wait_for_child();
	if (!strcmp(how, "socket"))
		return wait_for_socket();
	while (!over) {
		if (!strcmp(how, "pause"))
			pause();
		else if (!strcmp(how, "sleep"))
			sleep(1000);
		else if (!strcmp(how, "pipe"))
			CHECK(read(0, &byte, 1) != 1);
		else if (!strcmp(how, "yield"))
			sched_yield();
		else if (!strcmp(how, "moment"))
			return (void)poll(&input, 1, 20);
		else
			poll(&input, 1, -1);
	}
}

static void go_on(const char *chain);

/* Functions that a stack tool shows; what follows the call keeps their frames */
#define FUNCTIONS                                                                                \
	FUNCTION(MPI_Allreduce) FUNCTION(MPI_Barrier) FUNCTION(MPI_Finalize) FUNCTION(MPI_Init) \
	FUNCTION(PMPI_Recv) FUNCTION(MPI_Send) FUNCTION(MPIDI_OFI_retry_progress)               \
	FUNCTION(cudaStreamSynchronize) FUNCTION(cxip_evtq_progress) FUNCTION(cxip_map)         \
	FUNCTION(cxip_mr_wait_append) FUNCTION(cxip_recv_reenable) FUNCTION(cxip_tsend)         \
	FUNCTION(solve)
#define FUNCTION(name)                                              \
	void name(const char *chain);                               \
	__attribute__((noinline)) void name(const char *chain)      \
	{                                                           \
		go_on(chain);                                       \
		kept++;                                             \
	}
FUNCTIONS
#undef FUNCTION
#define FUNCTION(name) { #name, name },
static const struct {
	const char *name;
	void (*call)(const char *);
} functions[] = { FUNCTIONS };

/* Calls the first function of a chain with the others */
static inline __attribute__((always_inline)) void go_on(const char *chain)
{
	size_t len = strcspn(chain, "/");

	for (size_t number = 0; number < sizeof(functions) / sizeof(functions[0]); number++)
		if (strlen(functions[number].name) == len && !strncmp(functions[number].name, chain, len))
			return functions[number].call(chain + len + 1);
	hang(chain);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) void MPI_Isend(void);

void MPI_Isend(void)
{
	CHECK(!pthread_mutex_lock(&lock));
	kept++;
}

static void *send_in_thread(void *nothing)
{
	MPI_Isend();
	return nothing;
}

/* A thread waits for the lock that this one holds in MPI */
static void hold_lock(void)
{
	pthread_t thread;

	CHECK(!pthread_mutex_lock(&lock));
	CHECK(!pthread_create(&thread, NULL, send_in_thread, NULL));
	say_ready();
	go_on("PMPI_Recv/cxip_evtq_progress/wait");
	CHECK(!pthread_mutex_unlock(&lock));
	CHECK(!pthread_join(thread, NULL));
}

/* Goes on to another call each 20 ms */
static void move_on(void)
{
	say_ready();
	while (!over) {
		go_on("PMPI_Recv/moment");
		go_on("MPI_Send/moment");
		go_on("MPI_Barrier/moment");
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "wait";
	struct sigaction action = { .sa_handler = end };
	struct rig rig = rig_open(0);

	CHECK(!sigaction(SIGUSR1, &action, NULL));
	if (!strcmp(how, "events")) {
		fill_events(&rig);
	} else if (!strcmp(how, "entries")) {
		fill_list(&rig);
	} else if (!strcmp(how, "slow")) {
		send_to_itself(&rig, 10);
	} else if (!strcmp(how, "busy")) {
		send_to_itself(&rig, 0);
	} else if (!strcmp(how, "unposted")) {
		send_unexpected(&rig);
	} else if (!strcmp(how, "receive")) {
		receive(&rig);
	} else if (!strcmp(how, "locked")) {
		hold_lock();
	} else if (!strcmp(how, "moves")) {
		move_on();
	} else {
		say_ready();
		if (!strcmp(how, "nobody"))
			send_to_nobody(&rig);
		else if (!strcmp(how, "counter"))
			wait_for_counter(&rig);
		else
			go_on(how);
	}
	check_nic(&rig);
	rig_close(&rig);
	puts("unharmed");
	return 0;
}
