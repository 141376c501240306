/* A stand-in for libcuda.so.1: the functions of the CUDA driver API that hold a buffer, with their rules. */
#include <stdio.h>

#include "device.h"

#include <stdint.h>

enum {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	NO_DEVICE = 100,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	NOT_SUPPORTED = 801,
	UNKNOWN = 999,
};

struct context {
	int device;
	int users;
};

static bool initialised;
static struct context primary[16];

/* The contexts of a thread, the current one last. */
static __thread struct context *stack[16];
static __thread int depth;

#define BEGIN() \
	do { \
		if (!initialised) \
			return NOT_INITIALIZED; \
		if (device_fails(__func__)) \
			return UNKNOWN; \
	} while (0)

static struct context *current(void)
{
	struct context *context = depth ? stack[depth - 1] : 0;
	return context && context->users ? context : 0;
}

/* The buffer of a range that the current context may use. */
static struct buffer *usable(uint64_t address, size_t size)
{
	struct buffer *buffer = device_range((void *)address, size);
	return buffer && current() && buffer->device == current()->device ? buffer : 0;
}

__attribute__((destructor)) static void tell_what_is_left(void)
{
	for (int device = 0; device < 16; device++)
		if (primary[device].users)
			device_log("left context %d", device);
}

int cuInit(unsigned flags)
{
	if (device_fails(__func__))
		return UNKNOWN;
	if (flags)
		return INVALID_VALUE;
	if (!device_count())
		return NO_DEVICE;
	initialised = true;
	return SUCCESS;
}

int cuGetErrorString(int error, const char **text)
{
	switch (error) {
	case INVALID_VALUE: *text = "invalid argument"; break;
	case OUT_OF_MEMORY: *text = "out of memory"; break;
	case NOT_INITIALIZED: *text = "initialization error"; break;
	case UNKNOWN: *text = "unknown error"; break;
	default: *text = 0; return INVALID_VALUE;
	}
	return SUCCESS;
}

int cuDeviceGetCount(int *count)
{
	BEGIN();
	*count = device_count();
	return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal)
{
	BEGIN();
	if (ordinal < 0 || ordinal >= device_count())
		return INVALID_DEVICE;
	*device = ordinal;
	return SUCCESS;
}

int cuDeviceGetPCIBusId(char *text, int length, int device)
{
	BEGIN();
	if (device < 0 || device >= device_count())
		return INVALID_DEVICE;
	snprintf(text, length, "0000:C%d:00.0", device);
	return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	BEGIN();
	(void)device;
	if (attribute != 124)
		return INVALID_VALUE;
	*value = !device_fails("export");
	return SUCCESS;
}

int cuDevicePrimaryCtxRetain(struct context **context, int device)
{
	BEGIN();
	primary[device].device = device;
	primary[device].users++;
	*context = &primary[device];
	return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	BEGIN();
	if (!primary[device].users)
		return INVALID_CONTEXT;
	primary[device].users--;
	return SUCCESS;
}

int cuCtxPushCurrent_v2(struct context *context)
{
	BEGIN();
	if (!context || !context->users || depth == 16)
		return INVALID_CONTEXT;
	stack[depth++] = context;
	return SUCCESS;
}

int cuCtxPopCurrent_v2(struct context **context)
{
	BEGIN();
	if (!depth)
		return INVALID_CONTEXT;
	*context = stack[--depth];
	return SUCCESS;
}

int cuCtxSynchronize(void)
{
	BEGIN();
	return current() ? SUCCESS : INVALID_CONTEXT;
}

int cuMemAlloc_v2(uint64_t *address, size_t size)
{
	BEGIN();
	if (!current())
		return INVALID_CONTEXT;
	if (!size)
		return INVALID_VALUE;
	struct buffer *buffer = device_allocate(size, 512, current()->device, current());
	if (!buffer)
		return OUT_OF_MEMORY;
	*address = (uint64_t)buffer->address;
	return SUCCESS;
}

int cuMemFree_v2(uint64_t address)
{
	BEGIN();
	struct buffer *buffer = usable(address, 1);
	if (!buffer || (uint64_t)buffer->address != address)
		return INVALID_VALUE;
	device_free(buffer);
	return SUCCESS;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size)
{
	BEGIN();
	if (!usable(to, size) || device_find(from))
		return INVALID_VALUE;
	return device_copy((void *)to, from, size) ? SUCCESS : INVALID_VALUE;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size)
{
	BEGIN();
	if (!usable(from, size) || device_find(to))
		return INVALID_VALUE;
	return device_copy(to, (void *)from, size) ? SUCCESS : INVALID_VALUE;
}

int cuMemsetD8_v2(uint64_t to, unsigned char byte, size_t size)
{
	BEGIN();
	return usable(to, size) && device_set((void *)to, byte, size) ? SUCCESS : INVALID_VALUE;
}

int cuPointerGetAttribute(void *value, int attribute, uint64_t address)
{
	BEGIN();
	struct buffer *buffer = device_find((void *)address);
	if (!buffer)
		return INVALID_VALUE;
	switch (attribute) {
	case 1: *(struct context **)value = buffer->owner; return SUCCESS;
	case 2: *(unsigned *)value = 2; return SUCCESS;
	case 11: *(uint64_t *)value = (uint64_t)buffer->address; return SUCCESS;
	case 12: *(size_t *)value = buffer->size; return SUCCESS;
	default: return INVALID_VALUE;
	}
}

int cuPointerSetAttribute(const void *value, int attribute, uint64_t address)
{
	BEGIN();
	bool known = attribute == 6 && *(const unsigned *)value == 1;
	return known && usable(address, 1) ? SUCCESS : INVALID_VALUE;
}

int cuMemGetHandleForAddressRange(int *file, uint64_t address, size_t size, int type,
				  unsigned long long flags)
{
	BEGIN();
	struct buffer *buffer = usable(address, size);
	if (!buffer || address % 4096 || size % 4096 || type != 1 || flags)
		return INVALID_VALUE;
	*file = device_export(buffer);
	return SUCCESS;
}
