/*
 * A rank of Open MPI that makes no progress: `mpi HOW`. It opens a NIC, prints
 * `ready RANK PID`, and waits for others. At SIGUSR1, a thread of each rank calls
 * what the others wait for. Then the rank checks what it has received, and prints
 * `unharmed`.
 *
 *   receive   rank 1 waits for a message of rank 0, which is in a barrier
 *   mismatch  rank 2 is in a reduction, and the others in a barrier
 *   solve     rank 1 computes, and the others are in a barrier
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "rig.h"

/* What Open MPI 4 and 5 export: its headers may not be installed */
extern char ompi_mpi_comm_world[], ompi_mpi_int[], ompi_mpi_op_sum[];
int MPI_Init_thread(int *argc, char ***argv, int wanted, int *found);
int MPI_Comm_rank(void *comm, int *rank);
int MPI_Comm_dup(void *comm, void **other);
int MPI_Send(const void *memory, int count, void *type, int to, int tag, void *comm);
int MPI_Recv(void *memory, int count, void *type, int from, int tag, void *comm, void *status);
int MPI_Allreduce(const void *in, void *out, int count, void *type, void *op, void *comm);
int MPI_Barrier(void *comm);
int MPI_Finalize(void);
#define MPI_THREAD_MULTIPLE 3
#define RANKS 3
#define TAG 7

static int rank;
static void *other;
static const char *how;
static volatile int over;

static void reduce(void)
{
	int one = 1, sum = 0;

	CHECK(!MPI_Allreduce(&one, &sum, 1, ompi_mpi_int, ompi_mpi_op_sum, other));
	CHECK_EQ(sum, RANKS);
}

__attribute__((noinline)) void solve(void);

void solve(void)
{
	while (!over)
		sched_yield();
}

static void *go_on(void *signals)
{
	int value = 42, signal;

	CHECK(!sigwait(signals, &signal));
	over = 1;
	if (!strcmp(how, "receive") && rank == 0)
		CHECK(!MPI_Send(&value, 1, ompi_mpi_int, 1, TAG, ompi_mpi_comm_world));
	if (!strcmp(how, "mismatch") && rank == 2)
		CHECK(!MPI_Barrier(ompi_mpi_comm_world));
	else if (!strcmp(how, "mismatch"))
		reduce();
	return NULL;
}

int main(int argc, char **argv)
{
	struct rig rig = rig_open(0);
	int found, value = 0;
	pthread_t thread;
	sigset_t signals;

	CHECK_EQ(argc, 2);
	how = argv[1];
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_BLOCK, &signals, NULL));
	CHECK(!MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &found));
	CHECK_EQ(found, MPI_THREAD_MULTIPLE);
	CHECK(!MPI_Comm_rank(ompi_mpi_comm_world, &rank));
	CHECK(!MPI_Comm_dup(ompi_mpi_comm_world, &other));
	CHECK(!pthread_create(&thread, NULL, go_on, &signals));
	printf("ready %d %d\n", rank, (int)getpid());
	fflush(stdout);
	if (!strcmp(how, "mismatch") && rank == 2)
		reduce();
	else if (!strcmp(how, "receive") && rank == 1)
		CHECK(!MPI_Recv(&value, 1, ompi_mpi_int, 0, TAG, ompi_mpi_comm_world, NULL));
	else if (!strcmp(how, "solve") && rank == 1)
		solve();
	if (strcmp(how, "mismatch") || rank != 2)
		CHECK(!MPI_Barrier(ompi_mpi_comm_world));
	CHECK(!pthread_join(thread, NULL));
	CHECK_EQ(value, !strcmp(how, "receive") && rank == 1 ? 42 : 0);
	CHECK(!MPI_Finalize());
	rig_close(&rig);
	puts("unharmed");
	return 0;
}
