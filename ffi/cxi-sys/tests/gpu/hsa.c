/* A stand-in for libhsa-runtime64.so.1, which is linked with the one for libamdhip64.so. */
#include "device.h"

enum { SUCCESS = 0, ERROR = 0x1000 };

/* The file begins with the allocation, wherever in it the exported range lies. */
int hsa_amd_portable_export_dmabuf(const void *address, size_t size, int *file,
				   unsigned long *offset)
{
	struct buffer *buffer = device_range(address, size);
	if (!buffer || device_fails("export"))
		return ERROR;
	*file = device_export(buffer);
	*offset = (const char *)address - buffer->address;
	return SUCCESS;
}
