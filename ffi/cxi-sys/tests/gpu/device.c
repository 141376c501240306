#define _GNU_SOURCE
#include "device.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *buffers;
static size_t in_use;

static size_t number(const char *name, size_t otherwise)
{
	const char *text = getenv(name);
	return text ? strtoull(text, NULL, 0) : otherwise;
}

int device_count(void)
{
	return (int)number("STANDIN_GPUS", 2);
}

bool device_fails(const char *function)
{
	const char *failing = getenv("STANDIN_FAIL");
	return failing && strcmp(failing, function) == 0;
}

void device_log(const char *format, ...)
{
	const char *path = getenv("STANDIN_LOG");
	if (!path)
		return;
	char line[200];
	int start = snprintf(line, sizeof(line), "%d ", (int)getpid());
	va_list arguments;
	va_start(arguments, format);
	int rest = vsnprintf(line + start, sizeof(line) - start - 1, format, arguments);
	va_end(arguments);
	line[start + rest] = '\n';
	int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || write(file, line, start + rest + 1) < 0)
		abort();
	close(file);
}

static struct buffer *add(int file, size_t size, size_t align, int device, void *owner)
{
	struct buffer *buffer = calloc(1, sizeof(*buffer));
	buffer->size = size;
	buffer->device = device;
	buffer->owner = owner;
	buffer->file = file;
	buffer->bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	buffer->reserved_size = size + 2 * align;
	buffer->reserved = mmap(NULL, buffer->reserved_size, PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (buffer->bytes == MAP_FAILED || buffer->reserved == MAP_FAILED)
		abort();
	uintptr_t start = ((uintptr_t)buffer->reserved + align - 1) / align * align;
	if (start % (2 * align) == 0)
		start += align;
	buffer->address = (char *)start;
	pthread_mutex_lock(&lock);
	buffer->next = buffers;
	buffers = buffer;
	pthread_mutex_unlock(&lock);
	return buffer;
}

struct buffer *device_allocate(size_t size, size_t align, int device, void *owner)
{
	pthread_mutex_lock(&lock);
	bool room = size <= number("STANDIN_MEMORY", 1u << 30) - in_use;
	if (room)
		in_use += size;
	pthread_mutex_unlock(&lock);
	if (!room)
		return NULL;
	int file = memfd_create("standin", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, size))
		abort();
	struct buffer *buffer = add(file, size, align, device, owner);
	/* What has not been written is no zero. */
	memset(buffer->bytes, 0xdd, size);
	device_log("allocate %d", device);
	return buffer;
}

struct buffer *device_import(int file, size_t size, int device, void *owner)
{
	struct stat wanted, known;
	if (fstat(file, &wanted) || (size_t)wanted.st_size < size)
		return NULL;
	bool ours = false;
	pthread_mutex_lock(&lock);
	for (struct buffer *buffer = buffers; buffer; buffer = buffer->next) {
		if (!fstat(buffer->file, &known) && known.st_ino == wanted.st_ino &&
		    known.st_dev == wanted.st_dev && buffer->device == device)
			ours = true;
	}
	pthread_mutex_unlock(&lock);
	if (!ours)
		return NULL;
	device_log("import %d", device);
	return add(fcntl(file, F_DUPFD_CLOEXEC, 0), size, 1 << 16, device, owner);
}

void device_free(struct buffer *buffer)
{
	pthread_mutex_lock(&lock);
	struct buffer **place = &buffers;
	while (*place != buffer)
		place = &(*place)->next;
	*place = buffer->next;
	pthread_mutex_unlock(&lock);
	device_log("free %d", buffer->device);
	munmap(buffer->bytes, buffer->size);
	munmap(buffer->reserved, buffer->reserved_size);
	close(buffer->file);
	free(buffer);
}

struct buffer *device_find(const void *address)
{
	struct buffer *found = NULL;
	pthread_mutex_lock(&lock);
	for (struct buffer *buffer = buffers; buffer; buffer = buffer->next) {
		uintptr_t skip = (uintptr_t)address - (uintptr_t)buffer->address;
		if (skip < buffer->size)
			found = buffer;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

struct buffer *device_range(const void *address, size_t size)
{
	struct buffer *buffer = device_find(address);
	if (!buffer || size > buffer->size - ((const char *)address - buffer->address))
		return NULL;
	return buffer;
}

/* Where the bytes are that an address stands for. */
static char *bytes(const void *address, size_t size)
{
	if (!device_find(address))
		return (char *)address;
	struct buffer *buffer = device_range(address, size);
	return buffer ? buffer->bytes + ((const char *)address - buffer->address) : NULL;
}

bool device_copy(void *to, const void *from, size_t size)
{
	char *target = bytes(to, size), *source = bytes(from, size);
	if (!target || !source)
		return false;
	memmove(target, source, size);
	return true;
}

bool device_set(void *to, int byte, size_t size)
{
	if (!device_range(to, size))
		return false;
	memset(bytes(to, size), byte, size);
	return true;
}

int device_export(const struct buffer *buffer)
{
	device_log("export %d", buffer->device);
	return fcntl(buffer->file, F_DUPFD_CLOEXEC, 0);
}

__attribute__((destructor)) static void tell_what_is_left(void)
{
	int left = 0;
	for (struct buffer *buffer = buffers; buffer; buffer = buffer->next)
		left++;
	if (left)
		device_log("left %d", left);
}
