// What was allocated, mapped, exported and imported in a random order has its own bytes, and as much of the device
// is in use as there is of it.
#include "vmm.h"

int cupeer_sim_ledger(const char *);

enum { MOST = 24, STEPS = 4000 };

// Handles, mappings and descriptors of the blocks that were created. A block is known by its number, which it begins
// with.
static struct {
    Allocation handle;
    int block;
} handles[MOST];
static struct {
    CUdeviceptr at;
    int block, writable;
} mappings[MOST];
static struct {
    int fd, block;
} descriptors[MOST];
static size_t sizes[STEPS];
static int references[STEPS];
static int handle_count, mapping_count, descriptor_count, block_count;

static unsigned state;
static unsigned pick(unsigned below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

static void add_handle(Allocation h, int block) {
    handles[handle_count].handle = h;
    handles[handle_count++].block = block;
    references[block]++;
}

static void step(size_t before) {
    switch (pick(9)) {
    case 0: // create
        if (handle_count < MOST && block_count < STEPS) {
            Allocation h;
            int block = block_count++;
            sizes[block] = GRANULE * (1 + pick(3));
            IS(create(&h, 0, sizes[block]), 0);
            add_handle(h, block);
            CUdeviceptr at = map(h, sizes[block], 0);
            int first = 7;
            IS(cuMemcpyDtoH_v2(&first, at + sizes[block] - 4, 4), 0);
            IS(first, 0);
            IS(cuMemcpyHtoD_v2(at, &block, 4), 0);
            IS(cuMemcpyHtoD_v2(at + sizes[block] - 4, &block, 4), 0);
            IS(cuMemUnmap(at, sizes[block]), 0);
            IS(cuMemAddressFree(at, sizes[block]), 0);
        }
        break;
    case 1: // release
        if (handle_count) {
            int i = pick(handle_count);
            IS(cuMemRelease(handles[i].handle), 0);
            references[handles[i].block]--;
            handles[i] = handles[--handle_count];
        }
        break;
    case 2: // map
    case 3:
        if (handle_count && mapping_count < MOST) {
            int i = pick(handle_count), block = handles[i].block;
            mappings[mapping_count].at = map(handles[i].handle, sizes[block], 0);
            mappings[mapping_count].writable = pick(2);
            mappings[mapping_count].block = block;
            IS(allow(mappings[mapping_count].at, sizes[block], 0, mappings[mapping_count].writable ? 3 : 1), 0);
            mapping_count++;
            references[block]++;
        }
        break;
    case 4: // unmap
        if (mapping_count) {
            int i = pick(mapping_count), block = mappings[i].block;
            IS(cuMemAddressFree(mappings[i].at, sizes[block]), 1);
            IS(cuMemUnmap(mappings[i].at, sizes[block]), 0);
            IS(cuMemAddressFree(mappings[i].at, sizes[block]), 0);
            references[block]--;
            mappings[i] = mappings[--mapping_count];
        }
        break;
    case 5: // export
        if (handle_count && descriptor_count < MOST) {
            int i = pick(handle_count), fd = -1;
            int result = cuMemExportToShareableHandle(&fd, handles[i].handle, 1, 0);
            if (result == 1) break; // an import
            IS(result, 0);
            descriptors[descriptor_count].fd = fd;
            descriptors[descriptor_count++].block = handles[i].block;
            references[handles[i].block]++;
        }
        break;
    case 6: // import
        if (descriptor_count && handle_count < MOST) {
            int i = pick(descriptor_count);
            Allocation h;
            IS(import(&h, descriptors[i].fd), 0);
            add_handle(h, descriptors[i].block);
        }
        break;
    case 7: // close
        if (descriptor_count) {
            int i = pick(descriptor_count);
            IS(close(descriptors[i].fd), 0);
            references[descriptors[i].block]--;
            descriptors[i] = descriptors[--descriptor_count];
        }
        break;
    case 8: // look
        for (int i = 0; i < mapping_count; i++) {
            int ends[2] = {-1, -1}, block = mappings[i].block;
            IS(cuMemcpyDtoH_v2(&ends[0], mappings[i].at, 4), 0);
            IS(cuMemcpyDtoH_v2(&ends[1], mappings[i].at + sizes[block] - 4, 4), 0);
            IS(ends[0] == block && ends[1] == block, 1);
            IS(cuMemcpyHtoD_v2(mappings[i].at, &block, 4), !mappings[i].writable);
        }
    }
    IS(cupeer_sim_ledger("allocations"), handle_count);
    IS(cupeer_sim_ledger("mappings"), mapping_count);
    size_t expected = 0;
    for (int block = 0; block < block_count; block++)
        if (references[block]) expected += sizes[block];
    IS(used() - before, expected);
}

int main(int argc, char **argv) {
    state = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    start(0);
    size_t before = used();
    for (int i = 0; i < STEPS; i++)
        step(before);
    return 0;
}
