/* Forks, threads, several devices and processes, and many cycles of open and close: `life NAME` runs one test */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "rig.h"

/* Puts from a device to itself, and checks that they arrive */
static void work(struct rig *rig, unsigned int rounds)
{
	struct portal portal = portal_open(rig, 4, false);
	uint8_t command[64];

	link_all(rig, &portal, C_PTL_LIST_PRIORITY, 0, iova(rig->md, rig->memory + PAGE), PAGE);
	dma(rig, command, C_CMD_PUT, 4);
	put_bits(command, CMD_REQUEST_LEN, 100);
	for (unsigned int round = 0; round < rounds; round++) {
		memset(rig->memory, round, 100);
		send(rig, command, 64);
		await(&rig->ini, C_EVENT_ACK, C_RC_OK);
		done(&rig->ini);
		await(&rig->events, C_EVENT_PUT, C_RC_OK);
		done(&rig->events);
		CHECK_EQ(rig->memory[PAGE + 99], (uint8_t)round);
	}
	portal_close(&portal);
}

/* A child cannot use its parent's devices but can open its own; the parent's continue to work */
static void forks(void)
{
	struct rig rig = rig_open(0), own;
	struct cxil_lni *lni;
	int status;

	work(&rig, 5);
	if (!fork()) {
		CHECK_EQ(cxil_alloc_lni(rig.dev, &lni, 1), -EIO);
		CHECK_EQ(cxil_destroy_cmdq(rig.tx), -EIO);
		CHECK_EQ(cxil_unmap(rig.md), -EIO);
		cxil_close_device(rig.dev);
		own = rig_open(0);
		CHECK_EQ(own.domain->pid, 1);
		work(&own, 5);
		rig_close(&own);
		_exit(0);
	}
	CHECK(wait(&status) > 0);
	CHECK_EQ(status, 0);
	work(&rig, 5);
	rig_close(&rig);
}

static void *thread_with_own_device(void *device)
{
	struct rig rig = rig_open((unsigned int)(uintptr_t)device);

	work(&rig, 50);
	rig_close(&rig);
	return NULL;
}

static struct cxil_dev *shared;

static void *thread_with_shared_device(void *nothing)
{
	struct cxil_lni *lni;

	(void)nothing;
	for (int round = 0; round < 50; round++) {
		struct queue queue;

		CHECK_EQ(cxil_alloc_lni(shared, &lni, 1), 0);
		queue = queue_open(lni, PAGE);
		queue_close(&queue);
		CHECK_EQ(cxil_destroy_lni(lni), 0);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t ids[8];

	CHECK_EQ(cxil_open_device(2, &shared), 0);
	for (uintptr_t at = 0; at < 8; at++)
		CHECK_EQ(pthread_create(&ids[at], NULL, at < 4 ? thread_with_own_device : thread_with_shared_device,
					(void *)(at % 2)),
			 0);
	for (int at = 0; at < 8; at++)
		CHECK_EQ(pthread_join(ids[at], NULL), 0);
	cxil_close_device(shared);
}

/* Several devices in one process, closed with their objects in another order than opened */
static void several_devices(void)
{
	struct rig rigs[4];

	for (unsigned int at = 0; at < 4; at++)
		rigs[at] = rig_open(at % 3);
	for (unsigned int at = 0; at < 4; at++)
		work(&rigs[at], 5);
	cxil_close_device(rigs[1].dev);
	rig_close(&rigs[0]);
	work(&rigs[3], 5);
	rig_close(&rigs[2]);
	work(&rigs[3], 5);
	rig_close(&rigs[3]);
}

/* Several processes on one NIC, one of which is killed */
static void several_processes(void)
{
	pid_t children[4];
	int status;

	for (int at = 0; at < 4; at++) {
		children[at] = fork();
		if (!children[at]) {
			struct rig rig = rig_open(0);

			work(&rig, at == 3 ? 1000000 : 50);
			rig_close(&rig);
			_exit(0);
		}
	}
	for (int at = 0; at < 3; at++) {
		CHECK(waitpid(children[at], &status, 0) > 0);
		CHECK_EQ(status, 0);
	}
	CHECK(!kill(children[3], 9) && waitpid(children[3], &status, 0) > 0);
	thread_with_own_device(NULL);
}

static unsigned int count(const char *path)
{
	DIR *directory = opendir(path);
	unsigned int entries = 0;

	while (directory && readdir(directory))
		entries++;
	if (directory)
		closedir(directory);
	return entries;
}

static unsigned long lines_of_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long lines = 0;

	for (int c; (c = getc(maps)) != EOF;)
		lines += c == '\n';
	fclose(maps);
	return lines;
}

static unsigned long resident_pages(void)
{
	FILE *statm = fopen("/proc/self/statm", "r");
	unsigned long all, resident;

	CHECK(fscanf(statm, "%lu %lu", &all, &resident) == 2);
	fclose(statm);
	return resident;
}

static void cycle(void *buffer)
{
	struct cxi_cq_alloc_opts opts = { .count = 64, .flags = CXI_CQ_IS_TX };
	struct cxi_eq_attr attr = { .queue = buffer, .queue_len = PAGE };
	struct cxi_pt_alloc_opts options = { 0 };
	struct cxil_dev *dev;
	struct cxil_lni *lni;
	struct cxi_cp *cp;
	struct cxil_domain *domain;
	struct cxi_md *md;
	struct cxi_eq *eq;
	struct cxi_cq *cq;
	struct cxi_ct *ct;
	struct cxil_pte *pte;

	CHECK_EQ(cxil_open_device(0, &dev), 0);
	CHECK_EQ(cxil_alloc_lni(dev, &lni, 1), 0);
	CHECK_EQ(cxil_alloc_cp(lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, &cp), 0);
	CHECK_EQ(cxil_alloc_domain(lni, 1, C_PID_ANY, &domain), 0);
	CHECK_EQ(cxil_map(lni, buffer, PAGE, RW, NULL, &md), 0);
	CHECK_EQ(cxil_alloc_evtq(lni, md, &attr, NULL, NULL, &eq), 0);
	CHECK_EQ(cxil_alloc_cmdq(lni, NULL, &opts, &cq), 0);
	CHECK_EQ(cxil_alloc_ct(lni, NULL, &ct), 0);
	CHECK_EQ(cxil_alloc_pte(lni, eq, &options, &pte), 0);
	CHECK_EQ(cxil_destroy_pte(pte), 0);
	CHECK_EQ(cxil_destroy_ct(ct), 0);
	CHECK_EQ(cxil_destroy_cmdq(cq), 0);
	CHECK_EQ(cxil_destroy_evtq(eq), 0);
	CHECK_EQ(cxil_unmap(md), 0);
	CHECK_EQ(cxil_destroy_domain(domain), 0);
	CHECK_EQ(cxil_destroy_cp(cp), 0);
	CHECK_EQ(cxil_destroy_lni(lni), 0);
	cxil_close_device(dev);
}

#define CYCLES 2000

static void cycles(void)
{
	void *buffer = pages(PAGE);
	unsigned int descriptors, files;
	unsigned long maps, resident;

	/* The first hundred warm up the allocators */
	for (int at = 0; at < 100; at++)
		cycle(buffer);
	descriptors = count("/proc/self/fd");
	files = count(getenv("CXIDIAG_FABRIC_DIR"));
	maps = lines_of_maps();
	resident = resident_pages();
	for (int at = 0; at < CYCLES; at++)
		cycle(buffer);
	CHECK_EQ(count("/proc/self/fd"), descriptors);
	CHECK_EQ(count(getenv("CXIDIAG_FABRIC_DIR")), files);
	CHECK(lines_of_maps() <= maps + 4);
	CHECK(resident_pages() <= resident + 256);
}

/* A signal that the program waits for is not delivered to the thread of the library, whose action would kill */
static void signals(void)
{
	struct rig rig = rig_open(0);
	sigset_t waited;
	int number;

	/* The thread of the library runs */
	work(&rig, 5);
	sigemptyset(&waited);
	sigaddset(&waited, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &waited, NULL), 0);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	CHECK_EQ(sigwait(&waited, &number), 0);
	CHECK_EQ(number, SIGUSR1);
	rig_close(&rig);
}

static void *work_alone(void *nothing)
{
	struct rig rig;

	(void)nothing;
	/* The kernel describes no memory of a process whose first thread has ended */
	while (lines_of_maps())
		;
	rig = rig_open(0);
	work(&rig, 5);
	rig_close(&rig);
	exit(0);
}

/* The first thread of a program ends before the others */
static void first_thread_ends(void)
{
	pthread_t id;

	CHECK_EQ(pthread_create(&id, NULL, work_alone, NULL), 0);
	pthread_exit(NULL);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "forks", forks },
		{ "threads", threads },
		{ "several_devices", several_devices },
		{ "several_processes", several_processes },
		{ "cycles", cycles },
		{ "signals", signals },
		{ "first_thread_ends", first_thread_ends },
	};

	for (unsigned int at = 0; at < sizeof(tests) / sizeof(tests[0]); at++) {
		if (argc == 2 && !strcmp(argv[1], tests[at].name)) {
			tests[at].run();
			return 0;
		}
	}
	return 2;
}
