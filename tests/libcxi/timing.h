/*
 * Times in microseconds, their statistics, and a write that is timed.
 */
#ifndef TIMING_H
#define TIMING_H

#include "rig.h"

static inline double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static inline int ascending(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

/* Sorts the times and prints one line */
static inline void print_times(const char *what, double *times, unsigned int count)
{
	double sum = 0;

	for (unsigned int at = 0; at < count; at++)
		sum += times[at];
	qsort(times, count, sizeof(*times), ascending);
	printf("%s [us]: min %.1f median %.1f p90 %.1f p99 %.1f max %.1f mean %.1f\n", what, times[0],
	       times[count / 2], times[(size_t)count * 9 / 10], times[(size_t)count * 99 / 100],
	       times[count - 1], sum / count);
}

/* Writes a number of 8 bytes by a command for that, and returns the time until its acknowledgement */
static inline double timed_write(struct rig *rig, const uint8_t command[64], uint64_t number)
{
	double start, time;

	memcpy(rig->memory, &number, sizeof(number));
	start = now();
	send(rig, command, 64);
	while (!eq_peek(rig->ini.eq))
		;
	time = now() - start;
	await(&rig->ini, C_EVENT_ACK, C_RC_OK);
	done(&rig->ini);
	return time;
}

#endif
