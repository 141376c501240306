/* Device memory of the stand-in GPU runtimes.
 *
 * A buffer has an address that the CPU must not touch: it is reserved without rights, so that whoever
 * does dies. Its bytes are in a file of memory that is mapped elsewhere, and only device_copy gets there.
 *
 * STANDIN_GPUS     number of GPUs (2)
 * STANDIN_MEMORY   bytes of all GPUs together (1 GiB)
 * STANDIN_FAIL     name of a function that always fails
 * STANDIN_LOG      file that tells what was done, a line each
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stddef.h>

/* One allocation, or another address of the same bytes. */
struct buffer {
	char *address;
	size_t size;
	int device;
	/* Whose it is, where the runtime has such. */
	void *owner;
	/* Where the bytes are. */
	int file;
	char *bytes;
	char *reserved;
	size_t reserved_size;
	struct buffer *next;
};

int device_count(void);
bool device_fails(const char *function);
void device_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* NULL if there is not so much memory left. The address is a multiple of align and of nothing larger. */
struct buffer *device_allocate(size_t size, size_t align, int device, void *owner);
/* The bytes of an exported file under another address; NULL if it is none of ours, or too short, or of
 * another device. */
struct buffer *device_import(int file, size_t size, int device, void *owner);
void device_free(struct buffer *buffer);

/* The buffer that an address lies in. */
struct buffer *device_find(const void *address);
/* The buffer with all these bytes in it. */
struct buffer *device_range(const void *address, size_t size);

/* Between device and host, or within either. False where a device range is not inside one buffer. */
bool device_copy(void *to, const void *from, size_t size);
bool device_set(void *to, int byte, size_t size);

/* A file for drivers, whose first byte is the buffer's. */
int device_export(const struct buffer *buffer);

#endif
