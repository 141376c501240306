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
 * A program that makes the system calls itself is not covered.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define PUBLIC __attribute__((visibility("default")))

/* The action of the program for SIGSEGV, while the NIC handles this signal */
static struct sigaction action_of_program;
static bool taken;
static atomic_flag lock = ATOMIC_FLAG_INIT;

static int next_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	static int (*_Atomic next)(int, const struct sigaction *, struct sigaction *);

	if (!next)
		next = dlsym(RTLD_NEXT, "sigaction");
	return next(number, action, old);
}

static int next_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	static int (*_Atomic next)(int, const sigset_t *, sigset_t *);

	if (!next)
		next = dlsym(RTLD_NEXT, "pthread_sigmask");
	return next(how, set, old);
}

/* Excludes other threads, and signal handlers of this one. Returns the mask for leave(). */
static sigset_t enter(void)
{
	sigset_t all, before;

	sigfillset(&all);
	next_sigmask(SIG_SETMASK, &all, &before);
	while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
		;
	return before;
}

static void leave(sigset_t before)
{
	atomic_flag_clear_explicit(&lock, memory_order_release);
	next_sigmask(SIG_SETMASK, &before, NULL);
}

/* For the software NIC: handles SIGSEGV by this action from now on */
PUBLIC int softnic_take_faults(const struct sigaction *action)
{
	sigset_t before = enter();
	struct sigaction old;
	int result = next_sigaction(SIGSEGV, action, &old);

	if (result == 0 && !taken) {
		taken = true;
		action_of_program = old;
	}
	leave(before);
	return result;
}

/* For the software NIC: the action of the program for SIGSEGV */
PUBLIC void softnic_action_of_program(struct sigaction *action)
{
	sigset_t before = enter();

	*action = action_of_program;
	leave(before);
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
	sigset_t before;
	bool kept;

	if (number == SIGSEGV) {
		before = enter();
		kept = taken;
		if (kept) {
			struct sigaction current = action_of_program;

			if (action)
				action_of_program = *action;
			if (old)
				*old = current;
		}
		leave(before);
		if (kept)
			return 0;
	}
	if (!action)
		return next_sigaction(number, NULL, old);
	changed = *action;
	changed.sa_mask = without_faults(&action->sa_mask);
	return next_sigaction(number, &changed, old);
}

PUBLIC sighandler_t signal(int number, sighandler_t handler)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART }, old;

	sigemptyset(&action.sa_mask);
	return sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

PUBLIC int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t others;

	if (!set || how == SIG_UNBLOCK)
		return next_sigmask(how, set, old);
	others = without_faults(set);
	return next_sigmask(how, &others, old);
}

PUBLIC int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	int error = pthread_sigmask(how, set, old);

	if (error == 0)
		return 0;
	errno = error;
	return -1;
}

PUBLIC int pthread_attr_setsigmask_np(pthread_attr_t *attributes, const sigset_t *set)
{
	static int (*_Atomic next)(pthread_attr_t *, const sigset_t *);
	sigset_t others;

	if (!next)
		next = dlsym(RTLD_NEXT, "pthread_attr_setsigmask_np");
	if (!set)
		return next(attributes, set);
	others = without_faults(set);
	return next(attributes, &others);
}

/* The program may have been started with a mask that blocks the signal */
__attribute__((constructor)) static void deliver_faults(void)
{
	sigset_t faults;

	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	next_sigmask(SIG_UNBLOCK, &faults, NULL);
}
