/*
 * Programs that use SIGSEGV themselves while doorbells trap: `signals TEST`.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "rig.h"

sighandler_t bsd_signal(int number, sighandler_t handler);

static sigjmp_buf escape;
static volatile sig_atomic_t handled;

static void on_fault(int number)
{
	(void)number;
	handled++;
	siglongjmp(escape, 1);
}

static void fault(void)
{
	void *forbidden = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int before = handled;

	CHECK(forbidden != MAP_FAILED);
	if (!sigsetjmp(escape, 1))
		*(volatile int *)forbidden = 1;
	CHECK_EQ(handled, before + 1);
	munmap(forbidden, PAGE);
}

/* Rings the transmit queue, which has no new command */
static void ring(struct rig *rig)
{
	*(volatile uint64_t *)rig->tx->wp_addr = rig->tx->wp32 / 2;
}

/* A handler gets the program's faults and no doorbell, whatever name signal() has */
static void names(void)
{
	sighandler_t (*const names[])(int, sighandler_t) = { signal, bsd_signal, ssignal, sysv_signal,
							     __sysv_signal };
	struct rig rig = rig_open(0);

	for (unsigned int at = 0; at < sizeof(names) / sizeof(names[0]); at++) {
		CHECK(names[at](SIGSEGV, on_fault) != SIG_ERR);
		ring(&rig);
		CHECK_EQ(handled, at);
		fault();
		ring(&rig);
	}
	CHECK(!is_writable(rig.tx->wp_addr));
	rig_close(&rig);
}

/* Other signals are handled as without the software NIC */
static void others(void)
{
	struct sigaction action;

	CHECK(signal(SIGUSR1, on_fault) == SIG_DFL);
	CHECK(!sigaction(SIGUSR1, NULL, &action));
	CHECK(action.sa_handler == on_fault && action.sa_flags & SA_RESTART);
	CHECK(sigismember(&action.sa_mask, SIGUSR1));
	CHECK(__sysv_signal(SIGUSR2, on_fault) == SIG_DFL);
	CHECK(!sigaction(SIGUSR2, NULL, &action));
	CHECK(action.sa_handler == on_fault && action.sa_flags & SA_RESETHAND);
}

/* A child of vfork, which has the memory of its parent, sets actions of its own */
static void child_of_vfork(void)
{
	struct rig rig = rig_open(0);
	int status;

	CHECK(signal(SIGSEGV, on_fault) == SIG_DFL);
	if (!vfork()) {
		signal(SIGSEGV, SIG_DFL);
		execlp("true", "true", NULL);
		_exit(1);
	}
	CHECK(wait(&status) > 0 && status == 0);
	CHECK(signal(SIGSEGV, on_fault) == on_fault);
	fault();
	rig_close(&rig);
}

static void *set_actions(void *unused)
{
	(void)unused;
	for (;;)
		signal(SIGSEGV, SIG_DFL);
	return NULL;
}

/* A child can set actions, also if it was forked while another thread did */
static void children(void)
{
	struct rig rig = rig_open(0);
	pthread_t thread;
	int status;

	CHECK_EQ(pthread_create(&thread, NULL, set_actions, NULL), 0);
	for (unsigned int child = 0; child < 500; child++) {
		if (!fork()) {
			signal(SIGSEGV, on_fault);
			fault();
			_exit(0);
		}
		CHECK(wait(&status) > 0 && status == 0);
	}
	rig_close(&rig);
}

/* Doorbells stop trapping if the program sets a handler by a system call of its own */
static void system_call(void)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void *restorer;
		unsigned long mask;
	} action = { 0 };
	struct rig rig = rig_open(0);

	/* As the C library sets it, which knows how handlers return */
	CHECK(!syscall(SYS_rt_sigaction, SIGSEGV, NULL, &action, sizeof(action.mask)));
	action.handler = on_fault;
	CHECK(!syscall(SYS_rt_sigaction, SIGSEGV, &action, NULL, sizeof(action.mask)));
	while (!is_writable(rig.tx->wp_addr))
		;
	ring(&rig);
	CHECK_EQ(handled, 0);
	fault();
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "names", names },
		{ "others", others },
		{ "child_of_vfork", child_of_vfork },
		{ "children", children },
		{ "system_call", system_call },
	};

	for (unsigned int at = 0; at < sizeof(tests) / sizeof(tests[0]); at++) {
		if (argc == 2 && !strcmp(argv[1], tests[at].name)) {
			tests[at].run();
			return 0;
		}
	}
	return 2;
}
