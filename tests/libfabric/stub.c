/* A libfabric that only says what it is: names and types of settings, and the sizes that its cxi
 * provider would use. names.h, which the test writes for a version, defines VERSION, NAMES, HAS_CXI and
 * DEFAULT_SIZE. STUB_BEHAVIOUR makes it hang or end at a place. Each process that asks adds a line
 * to the file STUB_LOG. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "names.h"

enum type { TEXT, INT, BOOL, SIZE };

struct fi_param { const char *name; enum type type; const char *help; const char *value; };
struct fi_tx_attr { char first[48]; size_t size; char last[24]; };
struct fi_rx_attr { char first[48]; size_t size; char last[8]; };
struct fi_fabric_attr { void *fabric; char *name; char *prov_name; uint32_t versions[2]; };
struct fi_info {
	struct fi_info *next;
	char first[64];
	struct fi_tx_attr *tx_attr;
	struct fi_rx_attr *rx_attr;
	void *ep_attr, *domain_attr;
	struct fi_fabric_attr *fabric_attr;
	void *nic;
};

_Static_assert(sizeof(struct fi_param) == 32, "");
_Static_assert(offsetof(struct fi_param, type) == 8 && offsetof(struct fi_param, value) == 24, "");
_Static_assert(sizeof(struct fi_tx_attr) == 80 && sizeof(struct fi_rx_attr) == 64, "");
_Static_assert(sizeof(struct fi_fabric_attr) == 32, "");
_Static_assert(sizeof(struct fi_info) == 120, "");
_Static_assert(offsetof(struct fi_info, tx_attr) == 72, "");
_Static_assert(offsetof(struct fi_info, fabric_attr) == 104, "");

static const struct fi_param names[] = { NAMES };

static int behaves(const char *word)
{
	const char *behaviour = getenv("STUB_BEHAVIOUR");

	return behaviour && !strcmp(behaviour, word);
}

__attribute__((constructor)) static void load(void)
{
	if (behaves("hang-in-constructor"))
		pause();
}

__attribute__((destructor)) static void unload(void)
{
	if (behaves("hang-in-destructor"))
		pause();
}

uint32_t fi_version(void)
{
	return VERSION;
}

int fi_getparams(struct fi_param **params, int *count)
{
	size_t number = sizeof(names) / sizeof(names[0]);
	FILE *log = fopen(getenv("STUB_LOG") ? getenv("STUB_LOG") : "/dev/null", "a");

	if (log) {
		fputs("asked\n", log);
		fclose(log);
	}
	if (behaves("hang"))
		pause();
	if (behaves("end"))
		_exit(7);
	puts("{ a provider prints this");
	fflush(stdout);
	*params = calloc(number + 1, sizeof(**params));
	memcpy(*params, names, sizeof(names));
	*count = (int)number;
	return 0;
}

void fi_freeparams(struct fi_param *params)
{
	free(params);
}

/* The sizes as the provider takes them: the default if they are out of range. */
static size_t size(const char *name, size_t most)
{
	const char *text = getenv(name);
	size_t value = text ? (size_t)strtol(text, NULL, 0) : DEFAULT_SIZE;

	return value < 16 || value > most ? DEFAULT_SIZE : value;
}

static struct fi_info *entry(const char *provider, size_t tx, size_t rx, struct fi_info *next)
{
	struct fi_info *info = calloc(1, sizeof(*info));

	info->next = next;
	info->tx_attr = calloc(1, sizeof(*info->tx_attr));
	info->rx_attr = calloc(1, sizeof(*info->rx_attr));
	info->fabric_attr = calloc(1, sizeof(*info->fabric_attr));
	info->tx_attr->size = tx;
	info->rx_attr->size = rx;
	info->fabric_attr->prov_name = strdup(provider);
	return info;
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const void *hints, struct fi_info **info)
{
	/* The asker must have a version that all know, and an environment without logs. */
	if (version != 0x1000f || node || service || flags || hints || getenv("FI_LOG_LEVEL") ||
	    getenv("FI_PROVIDER") || strcmp(getenv("FI_HMEM") ? getenv("FI_HMEM") : "", "system"))
		return -38;
	*info = entry("tcp;ofi_rxm", 64, 64, NULL);
	*info = entry("shm", 128, 128, *info);
	if (HAS_CXI)
		*info = entry("cxi", size("FI_CXI_DEFAULT_TX_SIZE", 16384),
			      size("FI_CXI_DEFAULT_RX_SIZE", 15360), *info);
	return 0;
}

void fi_freeinfo(struct fi_info *info)
{
	while (info) {
		struct fi_info *next = info->next;

		free(info->tx_attr);
		free(info->rx_attr);
		free(info->fabric_attr->prov_name);
		free(info->fabric_attr);
		free(info);
		info = next;
	}
}
