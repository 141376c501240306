/*
 * Checks, and the objects that the programs share.
 */
#ifndef RIG_H
#define RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "nic.h"

#define CHECK(condition)                                                          \
	do {                                                                      \
		if (!(condition))                                                 \
			fail(__FILE__, __LINE__, #condition);                     \
	} while (0)

#define CHECK_EQ(found, wanted)                                                   \
	do {                                                                      \
		long long found_ = (long long)(found), wanted_ = (long long)(wanted); \
		if (found_ != wanted_)                                            \
			fail_eq(__FILE__, __LINE__, #found, found_, wanted_);     \
	} while (0)

_Noreturn static inline void fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
	exit(1);
}

_Noreturn static inline void fail_eq(const char *file, int line, const char *what, long long found,
				     long long wanted)
{
	fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", file, line, what, found, wanted);
	exit(1);
}

#define PAGE 4096
#define RW (CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE)
#define VNI 1

static inline void *pages(size_t len)
{
	void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

/* An event queue with its buffer */
struct queue {
	struct cxi_eq *eq;
	struct cxi_md *md;
	void *buffer;
	size_t len;
};

/* Device, interface, queues, and memory of a megabyte */
struct rig {
	struct cxil_dev *dev;
	struct cxil_lni *lni;
	struct cxi_cp *cp;
	struct cxil_domain *domain;
	struct cxi_cq *tx, *tgt;
	struct queue ini, events;
	uint8_t *memory;
	struct cxi_md *md;
};

#define MEMORY (1 << 20)

struct portal {
	struct cxil_pte *pte;
	struct cxil_pte_map *map;
};

struct queue queue_open_flags(struct cxil_lni *lni, size_t len, uint64_t flags);
struct queue queue_open(struct cxil_lni *lni, size_t len);
void queue_close(struct queue *queue);
struct rig rig_open(unsigned int device);
void rig_close(struct rig *rig);
struct portal portal_open(struct rig *rig, unsigned int index, bool matching);
void portal_close(struct portal *portal);

/* Waits for the next event of a queue and checks its type and return code */
const uint8_t *await(struct queue *queue, unsigned int type, unsigned int code);
void done(struct queue *queue);

/* Commands with the fields that they all have */
void dma(struct rig *rig, uint8_t command[64], unsigned int opcode, unsigned int index);
void append(struct rig *rig, struct portal *portal, uint8_t command[64]);
void target(struct rig *rig, uint8_t command[64], unsigned int opcode, struct portal *portal);
void send(struct rig *rig, const void *command, unsigned int len);
void post(struct rig *rig, const uint8_t command[64]);
void link_all(struct rig *rig, struct portal *portal, unsigned int list, unsigned int id, uint64_t start,
	      uint64_t len);

/* Whether the page at a place may be written */
bool is_writable(const void *place);

uint32_t own_dfa(struct rig *rig, unsigned int index);

#endif
