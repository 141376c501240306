/*
 * Doorbells of counters, as a foreign program rings them: `counters TEST`.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

#include "rig.h"

#define WRITTEN (1ULL << 63)
#define CT_OF_COMMAND 16, 11
#define CT_SUCCESS 64, 48
#define CT_SET_SUCCESS 126, 1

/* A counter with its trigger queue and write-back word */
struct set {
	struct rig rig;
	struct cxi_cp *cp;
	struct cxi_cq *trigger;
	struct cxi_ct *ct;
	volatile uint64_t *word;
};

static struct set set_open(void)
{
	struct cxi_cq_alloc_opts opts = { .count = 64, .flags = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS };
	struct set set = { .rig = rig_open(0), .word = pages(PAGE) };

	CHECK_EQ(cxil_alloc_trig_cp(set.rig.lni, VNI, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT, TRIG_LCID,
				    &set.cp), 0);
	CHECK_EQ(cxil_alloc_cmdq(set.rig.lni, NULL, &opts, &set.trigger), 0);
	CHECK_EQ(cxil_alloc_ct(set.rig.lni, (struct c_ct_writeback *)set.word, &set.ct), 0);
	return set;
}

static void set_close(struct set *set)
{
	CHECK_EQ(cxil_destroy_ct(set->ct), 0);
	CHECK_EQ(cxil_destroy_cmdq(set->trigger), 0);
	CHECK_EQ(cxil_destroy_cp(set->cp), 0);
	rig_close(&set->rig);
	munmap((void *)set->word, PAGE);
}

/* Byte offsets of doorbells [9.1] */
#define ADD_SUCCESSES 0
#define ADD_FAILURES 64
#define RESET_SUCCESSES 128
#define RESET_FAILURES 192

static void ring(struct set *set, unsigned int offset, uint64_t value)
{
	*(volatile uint64_t *)((uint8_t *)set->ct->doorbell + offset) = value;
	store_fence();
}

static void add(struct set *set, uint64_t value)
{
	ring(set, ADD_SUCCESSES, value);
}

static void issue(struct set *set, unsigned int opcode, uint64_t successes)
{
	uint8_t command[64] = { 0 };

	put_bits(command, CMD_TYPE, C_CMD_TYPE_CT);
	put_bits(command, CMD_SIZE, C_CMD_SIZE_64B);
	put_bits(command, CMD_OPCODE, opcode);
	put_bits(command, CT_OF_COMMAND, set->ct->ctn);
	put_bits(command, CT_SUCCESS, successes);
	put_bits(command, CT_SET_SUCCESS, 1);
	while (cq_emit(set->trigger, command, 64))
		;
	cq_ring(set->trigger);
}

/* The counts after all that was rung so far */
static uint64_t counts(struct set *set)
{
	time_t end = time(NULL) + 30;

	*set->word = 0;
	issue(set, C_CMD_CT_GET, 0);
	while (!(*set->word & WRITTEN))
		CHECK(time(NULL) < end);
	return *set->word & ~WRITTEN;
}

static void stores(void)
{
	struct set set = set_open();

	add(&set, 10);
	add(&set, 10);
	CHECK_EQ(counts(&set), 20);
	for (unsigned int burst = 0; burst < 5000; burst++)
		add(&set, 1);
	CHECK_EQ(counts(&set), 5020);
	for (uint64_t failures = 1; failures <= 5; failures++)
		ring(&set, ADD_FAILURES, 1);
	CHECK_EQ(counts(&set), 5ULL << 48 | 5020);
	/* Resets and additions in either order */
	add(&set, 7);
	ring(&set, RESET_SUCCESSES, 0);
	add(&set, 8);
	add(&set, 1);
	CHECK_EQ(counts(&set), 5ULL << 48 | 9);
	ring(&set, RESET_FAILURES, 0);
	CHECK_EQ(counts(&set), 9);
	set_close(&set);
}

/* Commands that were rung before a store take effect before it */
static void order(void)
{
	struct set set = set_open();

	for (uint64_t round = 0; round < 500; round++) {
		issue(&set, C_CMD_CT_SET, 1000 * round);
		add(&set, 10);
		add(&set, 10);
		CHECK_EQ(counts(&set), 1000 * round + 20);
	}
	set_close(&set);
}

/* The store instructions of compilers, and one that the library does not decode */
static void forms(void)
{
	struct set set = set_open();
#if defined(__x86_64__)
	uint64_t *doorbell = set.ct->doorbell, value = 3, old = 5;

	__asm__ volatile("movq %0, (%1)" ::"r"(value), "r"(doorbell) : "memory");
	__asm__ volatile("movq $4, 8(%0,%1,8)" ::"r"(doorbell), "r"(-1L) : "memory");
	__asm__ volatile("movnti %0, (%1)" ::"r"(value), "r"(doorbell) : "memory");
	__asm__ volatile("xchgq %0, (%1)" : "+r"(old) : "r"(doorbell) : "memory");
	__asm__ volatile("movq %0, %%xmm9\n\tmovq %%xmm9, (%1)" ::"r"(value), "r"(doorbell)
			 : "memory", "xmm9");
	CHECK_EQ(counts(&set), 3 + 4 + 3 + 5 + 3);
	for (unsigned int round = 1; round <= 10; round++) {
		void *to = doorbell;

		__asm__ volatile("stosq" : "+D"(to) : "a"(value) : "memory");
		CHECK_EQ(counts(&set), 18 + 3 * round);
	}
#endif
	set_close(&set);
}

static sigjmp_buf escape;
static volatile sig_atomic_t handled;
static void *volatile fault;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)number, (void)context;
	handled++;
	fault = info->si_addr;
	siglongjmp(escape, 1);
}

static void handle_faults(int flags)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | flags };

	CHECK(!sigaction(SIGSEGV, &action, NULL));
}

static void fault_at(void *place)
{
	int before = handled;

	if (!sigsetjmp(escape, 1))
		*(volatile int *)place = 1;
	CHECK_EQ(handled, before + 1);
	CHECK(fault == place);
}

/* Whether the library of cxi-softnic that keeps handlers of the program aside is loaded */
static bool keeps_handlers_aside(void)
{
	return getenv("LD_PRELOAD") && strstr(getenv("LD_PRELOAD"), "libsoftnic-faults.so");
}

/* Faults of the program itself go to its own handler; a later handler ends the traps, unless it is kept aside */
static void handlers(void)
{
	void *forbidden = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* As small as programs make it, above a page that nothing may touch */
	uint8_t *memory = pages(3 * PAGE);
	stack_t stack = { .ss_sp = memory + PAGE, .ss_size = 2 * PAGE };
	struct sigaction action;
	struct set set;

	CHECK(!mprotect(memory, PAGE, PROT_NONE));
	CHECK(!sigaltstack(&stack, NULL));
	handle_faults(SA_ONSTACK);
	set = set_open();
	for (unsigned int round = 1; round <= 3; round++) {
		errno = 77;
		add(&set, 1);
		CHECK_EQ(errno, 77);
		fault_at(forbidden);
		CHECK_EQ(counts(&set), round);
	}
	CHECK_EQ(handled, 3);
	handle_faults(0);
	while (!keeps_handlers_aside() && !is_writable(set.ct->doorbell))
		;
	add(&set, 5);
	CHECK_EQ(counts(&set), 8);
	fault_at(forbidden);
	CHECK(!sigaction(SIGSEGV, NULL, &action));
	CHECK(action.sa_sigaction == on_fault && action.sa_flags & SA_SIGINFO);
	CHECK((void *)signal(SIGSEGV, SIG_DFL) == (void *)on_fault);
	add(&set, 2);
	CHECK_EQ(counts(&set), 10);
	set_close(&set);
}

static struct set *rung;

static void ring_in_handler(int number)
{
	(void)number;
	add(rung, 1);
}

static void *ring_in_thread(void *blocks)
{
	sigset_t all, own;

	sigfillset(&all);
	if (blocks)
		CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &own), 0);
	CHECK(sigismember(&own, SIGTERM) && sigismember(&own, SIGUSR1));
	add(rung, 1);
	return NULL;
}

/* Threads and handlers with all signals blocked ring doorbells that trap, thanks to the library of cxi-softnic */
static void blocked(void)
{
	struct sigaction action = { .sa_handler = ring_in_handler };
	struct set set = set_open();
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all;

	CHECK(keeps_handlers_aside());
	rung = &set;
	sigfillset(&all);
	CHECK_EQ(pthread_create(&thread, NULL, ring_in_thread, &set), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(pthread_attr_init(&attributes), 0);
	CHECK_EQ(pthread_attr_setsigmask_np(&attributes, &all), 0);
	CHECK_EQ(pthread_create(&thread, &attributes, ring_in_thread, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(pthread_attr_destroy(&attributes), 0);
	action.sa_mask = all;
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	raise(SIGUSR1);
	CHECK(!sigprocmask(SIG_BLOCK, &all, NULL));
	add(&set, 1);
	CHECK_EQ(counts(&set), 4);
	CHECK(!is_writable(set.ct->doorbell));
	set_close(&set);
}

static volatile unsigned int *returned;

static void return_from_fault(int number)
{
	(void)number;
	if (++*returned > 1)
		_exit(9);
}

/* A handler with SA_RESETHAND is called once: the fault repeats when it returns, and kills the program */
static void once(void)
{
	void *forbidden = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction action = { .sa_handler = return_from_fault, .sa_flags = SA_RESETHAND };
	struct set set;
	int status;

	returned = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(returned != MAP_FAILED);
	if (!fork()) {
		CHECK(!sigaction(SIGSEGV, &action, NULL));
		set = set_open();
		add(&set, 1);
		*(volatile int *)forbidden = 1;
		exit(0);
	}
	CHECK(wait(&status) > 0);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	CHECK_EQ(*returned, 1);
	/* Removes the files of the child */
	set = set_open();
	set_close(&set);
}

/* A fault of a program without a handler kills it */
static void kills(void)
{
	void *forbidden = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct set set;
	int status;

	for (int sent = 0; sent < 2; sent++) {
		if (!fork()) {
			set = set_open();
			add(&set, 1);
			if (sent)
				raise(SIGSEGV);
			*(volatile int *)forbidden = 1;
			exit(0);
		}
		CHECK(wait(&status) > 0);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	}
	/* Removes the files of the children */
	set = set_open();
	set_close(&set);
}

/* What a child stores to the doorbells of its parent counts nowhere */
static void children(void)
{
	struct set set = set_open();
	int status;

	add(&set, 1);
	if (!fork()) {
		add(&set, 10);
		add(&set, 10);
		ring(&set, RESET_FAILURES, 0);
		CHECK_EQ(*set.word, 0);
		set = set_open();
		add(&set, 2);
		CHECK_EQ(counts(&set), 2);
		exit(0);
	}
	CHECK(wait(&status) > 0 && status == 0);
	add(&set, 1);
	CHECK_EQ(counts(&set), 2);
	set_close(&set);
}

/* A store to a destroyed counter is an error of the program */
static void destroyed(void)
{
	struct set set = set_open();
	struct cxi_ct *others[100];
	uint64_t *doorbell;

	/* An LNI takes no number of a destroyed counter again (libcxi.md 10) */
	for (unsigned int cycle = 0; cycle < 10; cycle++) {
		for (unsigned int at = 0; at < 100; at++)
			CHECK_EQ(cxil_alloc_ct(set.rig.lni, NULL, &others[at]), 0);
		for (unsigned int at = 0; at < 100; at++) {
			doorbell = others[at]->doorbell;
			*(volatile uint64_t *)doorbell = 1;
			CHECK_EQ(cxil_destroy_ct(others[at]), 0);
		}
	}
	handle_faults(0);
	fault_at(doorbell);
	set_close(&set);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "stores", stores },
		{ "order", order },
		{ "forms", forms },
		{ "handlers", handlers },
		{ "blocked", blocked },
		{ "kills", kills },
		{ "once", once },
		{ "children", children },
		{ "destroyed", destroyed },
	};

	for (unsigned int at = 0; at < sizeof(tests) / sizeof(tests[0]); at++) {
		if (argc == 2 && !strcmp(argv[1], tests[at].name)) {
			tests[at].run();
			return 0;
		}
	}
	return 2;
}
