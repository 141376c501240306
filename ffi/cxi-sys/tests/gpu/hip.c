/* A stand-in for libamdhip64.so. */
#include <stdio.h>

#include "device.h"

enum {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NO_DEVICE = 100,
	INVALID_DEVICE = 101,
	UNKNOWN = 999,
	HOST_TO_DEVICE = 1,
	DEVICE_TO_HOST = 2,
};

struct attributes {
	int type;
	int device;
	void *device_pointer;
	void *host_pointer;
	int is_managed;
	unsigned flags;
};

static __thread int current;

#define BEGIN() \
	do { \
		if (device_fails(__func__)) \
			return UNKNOWN; \
		if (!device_count()) \
			return NO_DEVICE; \
	} while (0)

int hipInit(unsigned flags)
{
	BEGIN();
	return flags ? INVALID_VALUE : SUCCESS;
}

const char *hipGetErrorString(int error)
{
	switch (error) {
	case INVALID_VALUE: return "invalid argument";
	case OUT_OF_MEMORY: return "out of memory";
	default: return "unknown error";
	}
}

int hipGetDeviceCount(int *count)
{
	BEGIN();
	*count = device_count();
	return SUCCESS;
}

int hipDeviceGetPCIBusId(char *text, int length, int device)
{
	BEGIN();
	if (device < 0 || device >= device_count())
		return INVALID_DEVICE;
	snprintf(text, length, "0000:c%d:00.0", device);
	return SUCCESS;
}

int hipSetDevice(int device)
{
	BEGIN();
	if (device < 0 || device >= device_count())
		return INVALID_DEVICE;
	current = device;
	return SUCCESS;
}

int hipMalloc(void **address, size_t size)
{
	BEGIN();
	struct buffer *buffer = device_allocate(size, 4096, current, 0);
	if (!buffer)
		return OUT_OF_MEMORY;
	*address = buffer->address;
	return SUCCESS;
}

/* Memory of the host that devices can reach: one page of it. */
static char pinned[4096] __attribute__((aligned(4096)));

int hipHostMalloc(void **address, size_t size, unsigned flags)
{
	BEGIN();
	if (size > sizeof(pinned) || flags)
		return INVALID_VALUE;
	*address = pinned;
	return SUCCESS;
}

int hipFree(void *address)
{
	BEGIN();
	struct buffer *buffer = device_find(address);
	if (!buffer || buffer->address != address)
		return INVALID_VALUE;
	device_free(buffer);
	return SUCCESS;
}

int hipMemcpy(void *to, const void *from, size_t size, int kind)
{
	BEGIN();
	bool to_device = device_find(to), from_device = device_find(from);
	if (to_device != (kind == HOST_TO_DEVICE) || from_device != (kind == DEVICE_TO_HOST))
		return INVALID_VALUE;
	return device_copy(to, from, size) ? SUCCESS : INVALID_VALUE;
}

int hipMemset(void *to, int byte, size_t size)
{
	BEGIN();
	return device_set(to, byte, size) ? SUCCESS : INVALID_VALUE;
}

int hipDeviceSynchronize(void)
{
	BEGIN();
	return SUCCESS;
}

/* As of HIP 6: memory that it does not know is no error. */
int hipPointerGetAttributes(struct attributes *attributes, const void *address)
{
	BEGIN();
	struct buffer *buffer = device_find(address);
	*attributes = (struct attributes){ .device = -2 };
	if (buffer) {
		attributes->type = 2;
		attributes->device = buffer->device;
		attributes->device_pointer = (void *)address;
	} else if ((const char *)address >= pinned && (const char *)address < pinned + sizeof(pinned)) {
		attributes->type = 1;
		attributes->device = 0;
		attributes->device_pointer = attributes->host_pointer = (void *)address;
	}
	return SUCCESS;
}
