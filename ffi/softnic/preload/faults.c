/*
 * libsoftnic-faults.so: lets doorbells of command queues trap in any program. cxi-softnic preloads
 * it.
 *
 * A doorbell that traps raises SIGSEGV in the thread that rings. The kernel kills a program that
 * does so in a thread that blocks this signal, and calls the program's own handler if that was
 * installed last. So these functions take the place of the C library's: they leave SIGSEGV out of
 * all masks, and once the software NIC handles it (softnic_take_faults), they keep the program's
 * actions for it aside. Faults of the program reach its own handler as before, through the NIC's.
 *
 * A program that makes the system calls itself, or through other functions such as sigset(3), is
 * not covered.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

/* The function of this name that would be called without this library */
#define NEXT(function)                                       \
	({                                                   \
		static __typeof__(function) *_Atomic next;   \
		if (!next)                                   \
			next = dlsym(RTLD_NEXT, #function);  \
		next;                                        \
	})

/*
 * Two actions of the program for SIGSEGV, of which it has set one last. The other one is free for
 * the next: a child that is forked in between finds a complete action.
 */
static struct sigaction actions[2];
static atomic_uint last;

/*
 * The process in which the NIC handles SIGSEGV. A child of vfork(2) has this memory too, and sets
 * actions of its own.
 */
static atomic_int process;

static atomic_flag lock = ATOMIC_FLAG_INIT;

static int next_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	return NEXT(sigaction)(number, action, old);
}

static int next_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return NEXT(sigprocmask)(how, set, old);
}

/* Excludes other threads, and signal handlers of this one. Returns the mask for leave(). */
static sigset_t enter(void)
{
	sigset_t all, before;

	sigfillset(&all);
	next_sigprocmask(SIG_SETMASK, &all, &before);
	while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
		;
	return before;
}

static void leave(sigset_t before)
{
	atomic_flag_clear_explicit(&lock, memory_order_release);
	next_sigprocmask(SIG_SETMASK, &before, NULL);
}

/* For the software NIC: handles SIGSEGV by this action from now on */
PUBLIC int softnic_take_faults(const struct sigaction *action)
{
	sigset_t before = enter();
	struct sigaction old;
	int result = next_sigaction(SIGSEGV, action, &old);

	if (result == 0 && !process) {
		actions[last] = old;
		process = getpid();
	}
	leave(before);
	return result;
}

/* For the software NIC: the action of the program for SIGSEGV */
PUBLIC void softnic_action_of_program(struct sigaction *action)
{
	sigset_t before = enter();

	*action = actions[last];
	leave(before);
}

/* Keeps an action for SIGSEGV aside; false if the NIC does not handle this signal here */
static bool keep(const struct sigaction *action, struct sigaction *old)
{
	sigset_t before = enter();
	struct sigaction previous = actions[last];
	bool kept = process == getpid();

	if (kept && action) {
		actions[!last] = *action;
		last = !last;
	}
	leave(before);
	if (kept && old)
		*old = previous;
	return kept;
}

static sigset_t without_faults(const sigset_t *set)
{
	sigset_t others = *set;

	sigdelset(&others, SIGSEGV);
	return others;
}

PUBLIC int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	struct sigaction changed;

	if (action) {
		changed = *action;
		changed.sa_mask = without_faults(&action->sa_mask);
		action = &changed;
	}
	if (number == SIGSEGV && keep(action, old))
		return 0;
	return next_sigaction(number, action, old);
}

static sighandler_t handle_faults(sighandler_t handler, int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags }, old;

	sigemptyset(&action.sa_mask);
	return sigaction(SIGSEGV, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

PUBLIC sighandler_t signal(int number, sighandler_t handler)
{
	return number == SIGSEGV ? handle_faults(handler, SA_RESTART) : NEXT(signal)(number, handler);
}

/* Other names of signal() */
PUBLIC sighandler_t bsd_signal(int number, sighandler_t handler)
	__attribute__((alias("signal"), leaf, nothrow));
PUBLIC sighandler_t ssignal(int number, sighandler_t handler) __attribute__((alias("signal")));

/* What signal() is in a program that is compiled for X/Open */
PUBLIC sighandler_t __sysv_signal(int number, sighandler_t handler)
{
	return number == SIGSEGV ? handle_faults(handler, SA_RESETHAND | SA_NODEFER) :
				   NEXT(__sysv_signal)(number, handler);
}

PUBLIC sighandler_t sysv_signal(int number, sighandler_t handler) __attribute__((alias("__sysv_signal")));

PUBLIC int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t others;

	if (!set || how == SIG_UNBLOCK)
		return next_sigprocmask(how, set, old);
	others = without_faults(set);
	return next_sigprocmask(how, &others, old);
}

PUBLIC int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	return sigprocmask(how, set, old) == 0 ? 0 : errno;
}

PUBLIC int pthread_attr_setsigmask_np(pthread_attr_t *attributes, const sigset_t *set)
{
	sigset_t others;

	if (set) {
		others = without_faults(set);
		set = &others;
	}
	return NEXT(pthread_attr_setsigmask_np)(attributes, set);
}

/* After fork(2): the thread that held the lock may not exist in the child */
static void start_child(void)
{
	atomic_flag_clear(&lock);
	if (process)
		process = getpid();
}

__attribute__((constructor)) static void start(void)
{
	sigset_t faults;

	pthread_atfork(NULL, NULL, start_child);
	/* The program may have been started with a mask that blocks the signal */
	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	next_sigprocmask(SIG_UNBLOCK, &faults, NULL);
}
