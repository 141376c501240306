/*
 * Runs a program for which the kernel refuses one system call, as filters of containers do:
 *
 *     refuse NAME ERROR PROGRAM ARGUMENT...
 *
 * NAME is a system call, or "many_cpus": then the kernel refuses masks of CPUs with fewer than
 * 2,048 bits, as a machine with that many CPUs does. ERROR is EPERM, ENOSYS or EINVAL. Exit
 * status 77: this machine does not have the system call, or no filters.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "unknown architecture"
#endif

#define UNTESTED 77
#define BYTES_OF_2048_CPUS 256

#define CALL(name) { #name, SYS_##name }

static const struct {
	const char *name;
	long number;
} calls[] = {
	CALL(clone3), CALL(epoll_create1), CALL(faccessat2), CALL(fallocate), CALL(fchmod),
	CALL(flock), CALL(ftruncate), CALL(getpriority), CALL(getrandom), CALL(getrusage),
	CALL(getsockopt), CALL(ioctl), CALL(linkat), CALL(madvise), CALL(membarrier),
	CALL(mlock), CALL(pidfd_open), CALL(ppoll), CALL(prctl), CALL(prlimit64),
	CALL(process_vm_readv), CALL(rseq), CALL(sched_getaffinity), CALL(sched_setaffinity),
	CALL(sched_setattr), CALL(set_mempolicy), CALL(set_robust_list), CALL(setpgid),
	CALL(setpriority), CALL(setsockopt), CALL(sigaltstack), CALL(socketpair), CALL(statx),
	CALL(userfaultfd),
	{ "many_cpus", SYS_sched_getaffinity },
};

static const struct {
	const char *name;
	int number;
} errors[] = { { "EPERM", EPERM }, { "ENOSYS", ENOSYS }, { "EINVAL", EINVAL } };

#define FIELD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

int main(int count, char **arguments)
{
	long call = -1;
	int error = 0;
	/* The second argument of the call: the size of the mask. */
	unsigned int most = 0xffffffff;

	if (count < 4)
		return 2;
	for (size_t at = 0; at < sizeof(calls) / sizeof(*calls); at++)
		if (!strcmp(calls[at].name, arguments[1]))
			call = calls[at].number;
	for (size_t at = 0; at < sizeof(errors) / sizeof(*errors); at++)
		if (!strcmp(errors[at].name, arguments[2]))
			error = errors[at].number;
	if (call < 0 || !error) {
		fprintf(stderr, "refuse: unknown: %s %s\n", arguments[1], arguments[2]);
		return 2;
	}
	if (!strcmp(arguments[1], "many_cpus"))
		most = BYTES_OF_2048_CPUS - 1;

	struct sock_filter filter[] = {
		FIELD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 0, 5),
		FIELD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)call, 0, 3),
		FIELD(args[1]),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, most, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("refuse: no filter");
		return UNTESTED;
	}
	execvp(arguments[3], arguments + 3);
	perror("refuse: exec");
	return UNTESTED;
}
