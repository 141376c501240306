/*
 * A stack tool that does not end as it should: `eu-stack -p PID` attaches to the
 * process, and the variable HOLD says what then happens. With HOLD_PID, it is a
 * process with this number; of others, it prints a stack.
 *
 *   holds   it holds the process for ever, also after SIGTERM
 *   killed  it is killed before the process has noticed that it is attached
 *   dies    it is killed while it holds the process
 *   exits   it exits while it holds the process
 *   waits   it makes the file `held`, waits for the file `go`, prints a megabyte,
 *           detaches, and ends well
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static int is(const char *how)
{
	const char *hold = getenv("HOLD");

	return hold && !strcmp(hold, how);
}

int main(int argc, char **argv)
{
	pid_t pid = argc == 3 ? atoi(argv[2]) : 0;
	const char *only = getenv("HOLD_PID");
	int status;

	if (only && atoi(only) != pid)
		return printf("TID %d:\n#0  0x0000000000000001 pause\n", (int)pid) < 0;
	signal(SIGTERM, SIG_IGN);
	if (pid <= 0 || ptrace(PTRACE_ATTACH, pid, NULL, NULL))
		return 64;
	if (is("killed"))
		raise(SIGKILL);
	if (waitpid(pid, &status, __WALL) != pid)
		return 64;
	if (is("dies"))
		raise(SIGKILL);
	if (is("exits"))
		return 2;
	if (is("holds")) {
		puts("held");
		fflush(stdout);
		for (;;)
			pause();
	}
	close(open("held", O_CREAT | O_WRONLY, 0600));
	while (access("go", F_OK))
		poll(NULL, 0, 1);
	for (int line = 0; line < 1 << 14; line++)
		printf("#0  0x0000000000000000 a_function_with_a_name_that_makes_a_long_line_64\n");
	fflush(stdout);
	return ptrace(PTRACE_DETACH, pid, NULL, NULL) ? 64 : 0;
}
