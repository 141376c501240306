/*
 * Runs the tests: `suite list` names them, `suite NAME` runs one. Exit status 0
 * is success; 77 says that the machine lacks what the test needs, as printed.
 */
#include "rig.h"

static const struct test *const groups[] = { control_tests, queue_tests, operation_tests, life_tests };

int main(int argc, char **argv)
{
	for (unsigned int group = 0; group < sizeof(groups) / sizeof(groups[0]); group++) {
		for (const struct test *test = groups[group]; test->name; test++) {
			if (argc == 2 && !strcmp(argv[1], "list"))
				puts(test->name);
			if (argc == 2 && !strcmp(argv[1], test->name)) {
				test->run();
				return 0;
			}
		}
	}
	return argc == 2 && !strcmp(argv[1], "list") ? 0 : 2;
}
