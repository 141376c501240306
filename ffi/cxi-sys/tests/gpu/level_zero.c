/* A stand-in for libze_loader.so.1. Memory belongs to a context, and is nothing to others. */
#include "device.h"

#include <stdint.h>
#include <stdlib.h>

enum {
	SUCCESS = 0,
	OUT_OF_DEVICE_MEMORY = 0x70000003,
	UNINITIALIZED = 0x78000001,
	INVALID_ARGUMENT = 0x78000004,
	INVALID_ENUMERATION = 0x7800000c,
	UNKNOWN = 0x7ffffffe,
};

enum {
	CONTEXT_DESC = 0xd,
	COMMAND_QUEUE_DESC = 0xe,
	DEVICE_MEM_ALLOC_DESC = 0x15,
	MEMORY_ALLOCATION_PROPERTIES = 0x17,
	EXPORT_DESC = 0x18,
	IMPORT_FD = 0x19,
	EXPORT_FD = 0x1a,
};

enum { DMA_BUF = 2, DEVICE_MEMORY = 2 };

/* What all descriptions and properties begin with. */
struct head {
	int type;
	void *next;
};

struct context_desc {
	struct head head;
	unsigned flags;
};

struct queue_desc {
	struct head head;
	unsigned ordinal, index, flags;
	int mode, priority;
};

struct alloc_desc {
	struct head head;
	unsigned flags, ordinal;
};

struct export_desc {
	struct head head;
	unsigned flags;
};

struct file_desc {
	struct head head;
	unsigned flags;
	int file;
};

struct properties {
	struct head head;
	int type;
	uint64_t id, page_size;
};

/* Each driver has one device. */
struct device {
	int number;
};

struct context {
	struct device *driver;
	bool exports;
};

struct list {
	struct context *context;
};

static bool initialised;
static struct device devices[16];

#define BEGIN() \
	do { \
		if (!initialised) \
			return UNINITIALIZED; \
		if (device_fails(__func__)) \
			return UNKNOWN; \
	} while (0)

unsigned zeInit(unsigned flags)
{
	if (device_fails(__func__))
		return UNKNOWN;
	if (flags != 1)
		return INVALID_ENUMERATION;
	if (!device_count())
		return UNINITIALIZED;
	for (int number = 0; number < 16; number++)
		devices[number].number = number;
	initialised = true;
	return SUCCESS;
}

unsigned zeDriverGet(unsigned *count, struct device **drivers)
{
	BEGIN();
	if (!drivers) {
		*count = device_count();
		return SUCCESS;
	}
	for (unsigned number = 0; number < *count; number++)
		drivers[number] = &devices[number];
	return SUCCESS;
}

unsigned zeDeviceGet(struct device *driver, unsigned *count, struct device **found)
{
	BEGIN();
	if (found && *count)
		found[0] = driver;
	*count = 1;
	return SUCCESS;
}

unsigned zeContextCreate(struct device *driver, const struct context_desc *desc,
			 struct context **context)
{
	BEGIN();
	if (desc->head.type != CONTEXT_DESC || desc->head.next || desc->flags)
		return INVALID_ENUMERATION;
	*context = calloc(1, sizeof(**context));
	(*context)->driver = driver;
	device_log("context");
	return SUCCESS;
}

unsigned zeContextDestroy(struct context *context)
{
	BEGIN();
	device_log("no context");
	free(context);
	return SUCCESS;
}

unsigned zeMemAllocDevice(struct context *context, const struct alloc_desc *desc, size_t size,
			  size_t align, struct device *device, void **address)
{
	BEGIN();
	if (desc->head.type != DEVICE_MEM_ALLOC_DESC || context->driver != device || !size)
		return INVALID_ARGUMENT;
	struct head *next = desc->head.next;
	struct buffer *buffer;
	if (next && next->type == IMPORT_FD) {
		struct file_desc *file = (struct file_desc *)next;
		if (file->flags != DMA_BUF)
			return INVALID_ENUMERATION;
		buffer = device_import(file->file, size, device->number, context);
		if (!buffer)
			return INVALID_ARGUMENT;
	} else {
		if (next && (next->type != EXPORT_DESC ||
			     ((struct export_desc *)next)->flags != DMA_BUF))
			return INVALID_ENUMERATION;
		context->exports = next && !device_fails("export");
		buffer = device_allocate(size, align, device->number, context);
		if (!buffer)
			return OUT_OF_DEVICE_MEMORY;
	}
	*address = buffer->address;
	return SUCCESS;
}

unsigned zeMemFree(struct context *context, void *address)
{
	BEGIN();
	struct buffer *buffer = device_find(address);
	if (!buffer || buffer->address != address || buffer->owner != context)
		return INVALID_ARGUMENT;
	device_free(buffer);
	return SUCCESS;
}

unsigned zeMemGetAllocProperties(struct context *context, const void *address,
				 struct properties *properties, struct device **device)
{
	BEGIN();
	if (properties->head.type != MEMORY_ALLOCATION_PROPERTIES)
		return INVALID_ENUMERATION;
	struct buffer *buffer = device_find(address);
	bool known = buffer && buffer->owner == context;
	properties->type = known ? DEVICE_MEMORY : 0;
	if (device && known)
		*device = &devices[buffer->device];
	struct file_desc *file = properties->head.next;
	if (known && file) {
		if (file->head.type != EXPORT_FD || file->flags != DMA_BUF)
			return INVALID_ENUMERATION;
		if (!context->exports)
			return INVALID_ARGUMENT;
		file->file = device_export(buffer);
	}
	return SUCCESS;
}

unsigned zeCommandListCreateImmediate(struct context *context, struct device *device,
				      const struct queue_desc *desc, struct list **list)
{
	BEGIN();
	/* Only a list that is synchronous keeps what this stand-in does: all at once. */
	if (desc->head.type != COMMAND_QUEUE_DESC || desc->mode != 1 || context->driver != device)
		return INVALID_ARGUMENT;
	*list = calloc(1, sizeof(**list));
	(*list)->context = context;
	return SUCCESS;
}

unsigned zeCommandListDestroy(struct list *list)
{
	BEGIN();
	free(list);
	return SUCCESS;
}

/* Device memory of another context is nothing that a list can use. */
static bool foreign(struct list *list, const void *address)
{
	struct buffer *buffer = device_find(address);
	return buffer && buffer->owner != list->context;
}

unsigned zeCommandListAppendMemoryCopy(struct list *list, void *to, const void *from, size_t size,
				       void *signal, unsigned waits, void **events)
{
	BEGIN();
	(void)signal, (void)events;
	if (waits || foreign(list, to) || foreign(list, from))
		return INVALID_ARGUMENT;
	return device_copy(to, from, size) ? SUCCESS : INVALID_ARGUMENT;
}

unsigned zeCommandListAppendMemoryFill(struct list *list, void *to, const void *pattern,
				       size_t pattern_size, size_t size, void *signal,
				       unsigned waits, void **events)
{
	BEGIN();
	(void)signal, (void)events;
	if (waits || pattern_size != 1 || foreign(list, to))
		return INVALID_ARGUMENT;
	return device_set(to, *(const unsigned char *)pattern, size) ? SUCCESS : INVALID_ARGUMENT;
}
