/*
 * A libcxi that records what a program does with its command queues. It stands in front of the
 * software NIC. For each queue it prints a line on standard error before the queue is destroyed:
 * flags, LCID, and the first byte of the first half-slots behind the status, in hexadecimal.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "cxi.h"

#define QUEUES 64
#define STATUS_HALF_SLOTS 8
#define SHOWN 8

static struct {
	struct cxi_cq *cq;
	struct cxi_cq_alloc_opts opts;
} queues[QUEUES];

static void *next(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);

	if (!function)
		abort();
	return function;
}

int cxil_alloc_cmdq(struct cxil_lni *lni, struct cxi_eq *eq, const struct cxi_cq_alloc_opts *opts,
		    struct cxi_cq **cq)
{
	int (*alloc)(struct cxil_lni *, struct cxi_eq *, const struct cxi_cq_alloc_opts *,
		     struct cxi_cq **) = next("cxil_alloc_cmdq");
	int code = alloc(lni, eq, opts, cq);

	for (size_t at = 0; !code && at < QUEUES; at++) {
		if (queues[at].cq)
			continue;
		queues[at].cq = *cq;
		queues[at].opts = *opts;
		break;
	}
	return code;
}

int cxil_destroy_cmdq(struct cxi_cq *cq)
{
	int (*destroy)(struct cxi_cq *) = next("cxil_destroy_cmdq");
	const unsigned char *half_slot = (const unsigned char *)cq->cmds32 + 32 * STATUS_HALF_SLOTS;

	for (size_t at = 0; at < QUEUES; at++) {
		if (queues[at].cq != cq)
			continue;
		fprintf(stderr, "queue %x %u", queues[at].opts.flags, queues[at].opts.lcid);
		for (int shown = 0; shown < SHOWN; shown++, half_slot += 32)
			fprintf(stderr, " %02x", *half_slot);
		fprintf(stderr, "\n");
		queues[at].cq = NULL;
	}
	return destroy(cq);
}
