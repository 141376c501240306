/*
 * The file that shows how many RGIDs have no LNI falls as processes open LNIs [libcxi.md 4].
 */
#include <signal.h>
#include <sys/wait.h>

#include "rig.h"

#define ALL 255

static int shown(void)
{
	FILE *file = fopen("/sys/class/cxi/cxi0/device/properties/rgids_avail", "r");
	int number;

	CHECK(file && fscanf(file, "%d", &number) == 1);
	fclose(file);
	return number;
}

/* A process that has an LNI until it is killed */
static pid_t start_other(void)
{
	int ready[2];
	char byte;
	pid_t other;

	CHECK(!pipe(ready));
	other = fork();
	if (!other) {
		struct cxil_dev *dev;
		struct cxil_lni *lni;

		CHECK_EQ(cxil_open_device(0, &dev), 0);
		CHECK_EQ(cxil_alloc_lni(dev, &lni, 1), 0);
		CHECK(write(ready[1], "", 1) == 1);
		for (;;)
			pause();
	}
	CHECK(other > 0 && read(ready[0], &byte, 1) == 1);
	return other;
}

int main(void)
{
	struct cxil_dev *dev;
	struct cxil_lni *lni[2];
	pid_t other;

	CHECK_EQ(shown(), ALL);
	CHECK_EQ(cxil_open_device(0, &dev), 0);
	CHECK_EQ(shown(), ALL);
	for (int at = 0; at < 2; at++) {
		CHECK_EQ(cxil_alloc_lni(dev, &lni[at], 1), 0);
		CHECK_EQ(shown(), ALL - 1 - at);
	}
	other = start_other();
	CHECK_EQ(shown(), ALL - 3);
	CHECK_EQ(cxil_destroy_lni(lni[1]), 0);
	CHECK_EQ(shown(), ALL - 2);
	/* A process that is killed writes nothing: the next change counts without it */
	CHECK(!kill(other, SIGKILL) && waitpid(other, NULL, 0) == other);
	CHECK_EQ(shown(), ALL - 2);
	CHECK_EQ(cxil_alloc_lni(dev, &lni[1], 1), 0);
	CHECK_EQ(shown(), ALL - 2);
	CHECK_EQ(cxil_destroy_lni(lni[1]), 0);
	CHECK_EQ(shown(), ALL - 1);
	cxil_close_device(dev);
	CHECK_EQ(shown(), ALL);
	return 0;
}
