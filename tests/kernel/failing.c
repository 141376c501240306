/*
 * Preloaded into a program: some files fail with EIO, and the time of day has steps.
 *
 *     FAILING_READS=TEXT    reading a file whose path contains TEXT gives EIO
 *     FAILING_WRITES=TEXT   writing it does
 *     STEP=SECONDS          such as -2 or 0.3: the time of day steps so 100 ms after its first reading
 *     STEP_AFTER=COUNT      it steps after this many readings instead
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int fails(const char *variable, int descriptor)
{
	const char *text = getenv(variable);
	char link[64], path[4096];

	if (!text)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
	ssize_t length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return 0;
	path[length] = 0;
	return strstr(path, text) != NULL;
}

static ssize_t refused(void)
{
	errno = EIO;
	return -1;
}

ssize_t read(int descriptor, void *place, size_t size)
{
	if (fails("FAILING_READS", descriptor))
		return refused();
	return syscall(SYS_read, descriptor, place, size);
}

ssize_t write(int descriptor, const void *bytes, size_t size)
{
	if (fails("FAILING_WRITES", descriptor))
		return refused();
	return syscall(SYS_write, descriptor, bytes, size);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
	if (fails("FAILING_WRITES", descriptor))
		return refused();
	return syscall(SYS_writev, descriptor, parts, count);
}

/* std::io::copy writes from one file to another without a buffer. */
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size,
			unsigned int flags)
{
	if (fails("FAILING_WRITES", to) || fails("FAILING_READS", from))
		return refused();
	return syscall(SYS_copy_file_range, from, from_at, to, to_at, size, flags);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t size)
{
	if (fails("FAILING_WRITES", to) || fails("FAILING_READS", from))
		return refused();
	return syscall(SYS_sendfile, to, from, at, size);
}

static void add(struct timespec *time, long long ms)
{
	long long ns = time->tv_nsec + ms % 1000 * 1000000;

	time->tv_sec += ms / 1000 + (ns >= 1000000000) - (ns < 0);
	time->tv_nsec = ns + (ns < 0 ? 1000000000 : 0) - (ns >= 1000000000 ? 1000000000 : 0);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	static atomic_long first, readings;
	const char *step = getenv("STEP");
	const char *after = getenv("STEP_AFTER");
	int result = syscall(SYS_clock_gettime, clock, time);

	if (!result && step && clock == CLOCK_REALTIME) {
		struct timespec passed;
		long none = 0;

		syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &passed);
		long now = passed.tv_sec * 1000 + passed.tv_nsec / 1000000;
		atomic_compare_exchange_strong(&first, &none, now);
		if (after ? atomic_fetch_add(&readings, 1) >= atol(after) : now - first >= 100)
			add(time, atof(step) * 1000);
	}
	return result;
}
