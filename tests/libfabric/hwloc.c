/*
 * How MPICH looks a NIC up: in hwloc's topology, by the PCI address in the
 * information of libcxi; then the cores near it, and its network interface.
 *
 * Facts: docs/reference/health.md 2.4.
 */
#include <hwloc.h>
#include <hwloc/linux.h>

#include "rig.h"

/* The interface below the PCI object of a NIC */
static void has_interface(hwloc_obj_t pci, unsigned int number)
{
	char name[16];
	hwloc_obj_t below;

	snprintf(name, sizeof(name), "hsn%u", number);
	for (below = pci->io_first_child; below; below = below->next_sibling) {
		if (below->type == HWLOC_OBJ_OS_DEVICE && !strcmp(below->name, name)) {
			CHECK_EQ(below->attr->osdev.type, HWLOC_OBJ_OSDEV_NETWORK);
			return;
		}
	}
	CHECK(!"an interface");
}

/* All CPUs are near a NIC, in the mask as in the machine */
static void has_local_cpus(hwloc_topology_t topology, const struct cxil_devinfo *nic)
{
	hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
	char path[128];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/local_cpus", nic->pci_domain,
		 nic->pci_bus, nic->pci_device, nic->pci_function);
	CHECK_EQ(hwloc_linux_read_path_as_cpumask(path, cpus), 0);
	CHECK(hwloc_bitmap_isincluded(hwloc_topology_get_topology_cpuset(topology), cpus));
	hwloc_bitmap_free(cpus);
}

static void find(hwloc_topology_t topology, const struct cxil_devinfo *nic)
{
	hwloc_obj_t pci = hwloc_get_pcidev_by_busid(topology, nic->pci_domain, nic->pci_bus, nic->pci_device,
						    nic->pci_function);
	const struct hwloc_pcidev_attr_s *found;
	hwloc_obj_t near;

	CHECK(pci);
	found = &pci->attr->pcidev;
	CHECK_EQ(found->vendor_id, nic->vendor_id);
	CHECK_EQ(found->device_id, nic->device_id);
	CHECK_EQ(found->class_id, 0x0200);
	/* Of 16 lanes with 16 GT/s, in GB/s */
	CHECK(found->linkspeed > 31 && found->linkspeed < 32);
	near = hwloc_get_non_io_ancestor_obj(topology, pci);
	CHECK(near && near->cpuset && !hwloc_bitmap_iszero(near->cpuset));
	has_local_cpus(topology, nic);
	has_interface(pci, nic->dev_id);
}

int main(void)
{
	struct cxil_device_list *list;
	hwloc_topology_t topology;

	CHECK_EQ(hwloc_topology_init(&topology), 0);
	CHECK_EQ(hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL), 0);
	CHECK_EQ(hwloc_topology_load(topology), 0);
	CHECK_EQ(cxil_get_device_list(&list), 0);
	CHECK(list->count);
	for (unsigned int at = 0; at < list->count; at++)
		find(topology, &list->info[at]);
	cxil_free_device_list(list);
	hwloc_topology_destroy(topology);
	return 0;
}
