// SPDX-License-Identifier: GPL-2.0-only
/*
 * The testbed's virtual PMU: events `vibs_op`, fed by the QEMU plugin tiersim through the memory of
 * an ivshmem-plain device, and the files of debugfs vpmu/ that say what tiersim traces.
 */

#include <linux/cpu.h>
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/io.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/nodemask.h>
#include <linux/pci.h>
#include <linux/string.h>
#include <asm/cpufeature.h>

#include "testbed/vpmu/vpmu.h"

/* QEMU's manual, "Inter-VM Shared Memory device". */
#define IVSHMEM_VENDOR 0x1af4
#define IVSHMEM_DEVICE 0x1110
#define IVSHMEM_BAR    2

struct tiersim_shared *vpmu_shared;
struct dentry *vpmu_folder;

static struct pci_dev *device;

struct tracepoint_search {
	const char *name;
	struct tracepoint *found;
};

static void compare_name(struct tracepoint *tracepoint, void *context)
{
	struct tracepoint_search *search = context;

	if (!strcmp(tracepoint->name, search->name))
		search->found = tracepoint;
}

struct tracepoint *vpmu_tracepoint(const char *name)
{
	struct tracepoint_search search = {.name = name, .found = ERR_PTR(-ENOENT)};

	for_each_kernel_tracepoint(compare_name, &search);
	if (IS_ERR(search.found))
		pr_err("vpmu: this kernel has no tracepoint %s\n", name);
	return search.found;
}

/* Tells tiersim the addresses of the nodes' memory, which the kernel read from ACPI's SRAT. Nodes
 * do not overlap: each is one stretch of addresses in a machine of QEMU's, holes aside. */
static int tell_nodes(void)
{
	int node;

	for_each_node_state (node, N_MEMORY) {
		struct tiersim_node *entry = &vpmu_shared->nodes[vpmu_shared->node_count];

		if (vpmu_shared->node_count == TIERSIM_MAX_NODES)
			return -E2BIG;
		entry->start_pfn = node_start_pfn(node);
		entry->end_pfn = node_end_pfn(node);
		entry->node = node;
		vpmu_shared->node_count++;
	}
	return 0;
}

static int map_memory(void)
{
	int error;

	device = pci_get_device(IVSHMEM_VENDOR, IVSHMEM_DEVICE, NULL);
	if (!device) {
		pr_err("vpmu: no ivshmem device: this is no machine of testbed/vm --tiersim\n");
		return -ENODEV;
	}
	error = pci_enable_device(device);
	if (error)
		goto put;
	error = -ENODEV;
	if (pci_resource_len(device, IVSHMEM_BAR) < sizeof(*vpmu_shared))
		goto disable;
	vpmu_shared = memremap(pci_resource_start(device, IVSHMEM_BAR), sizeof(*vpmu_shared),
			       MEMREMAP_WB);
	if (!vpmu_shared)
		goto disable;
	if (vpmu_shared->magic != TIERSIM_SHARED_MAGIC ||
	    vpmu_shared->version != TIERSIM_SHARED_VERSION) {
		pr_err("vpmu: tiersim has not signed the shared memory, or its version differs\n");
		goto unmap;
	}
	if (nr_cpu_ids > TIERSIM_MAX_CPUS) {
		pr_err("vpmu: %u CPUs, tiersim has room for %u\n", nr_cpu_ids, TIERSIM_MAX_CPUS);
		goto unmap;
	}
	return 0;
unmap:
	memunmap(vpmu_shared);
disable:
	pci_disable_device(device);
put:
	pci_dev_put(device);
	return error;
}

static void unmap_memory(void)
{
	memunmap(vpmu_shared);
	pci_disable_device(device);
	pci_dev_put(device);
}

static int __init vpmu_init(void)
{
	int error;

	/* User mode would have a page table of its own, and CR3 another value. */
	if (boot_cpu_has(X86_FEATURE_PTI)) {
		pr_err("vpmu: address spaces are told apart by CR3; boot with nopti\n");
		return -EOPNOTSUPP;
	}
	error = map_memory();
	if (error)
		return error;
	error = tell_nodes();
	if (error)
		goto unmap;
	vpmu_folder = debugfs_create_dir("vpmu", NULL);
	error = vpmu_trace_start();
	if (error)
		goto remove;
	error = vpmu_pmu_start();
	if (error)
		goto stop;
	return 0;
stop:
	vpmu_trace_stop();
remove:
	debugfs_remove(vpmu_folder);
unmap:
	unmap_memory();
	return error;
}

static void __exit vpmu_exit(void)
{
	vpmu_pmu_stop();
	debugfs_remove(vpmu_folder);
	vpmu_trace_stop();
	unmap_memory();
}

module_init(vpmu_init);
module_exit(vpmu_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("The tmprof authors");
MODULE_DESCRIPTION("The virtual PMU of tmprof's testbed");
