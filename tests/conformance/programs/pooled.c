// Four processes allocate of a pool each, export, import, write and free in a random order; one that has no device tells
// them what to do, and knows which bytes each has to see, which imports have to fail, and how much has to be in use.
#include "pools.h"

enum { WORKERS = 4, MOST = 48, STEPS = 3000 };
enum { ALLOCATE, FREE, EXPORT, IMPORT, WRITE, EXPECT, USED, KINDS };

struct order {
    int what, at;        // the place of a pointer in the worker
    unsigned long value; // its size, or its bytes, or how much is in use
    int pool, expected;  // of which process the pool is, and what an import answers
    PoolPointer pointer;
};

static unsigned state;
static unsigned pick(unsigned below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

static void work(int socket, int self) {
    Pool pools[WORKERS];
    CUdeviceptr pointers[MOST];
    size_t sizes[MOST];
    struct order order;
    int fd;
    start(self % 2);
    IS(create_pool(&pools[self], self % 2, 1), 0);
    IS(export_pool(&fd, pools[self]), 0);
    send_descriptor(socket, fd);
    IS(close(fd), 0);
    for (int i = 0; i < WORKERS; i++) {
        fd = receive_descriptor(socket);
        if (i != self) {
            IS(import_pool(&pools[i], fd), 0);
            IS(allow_pool(pools[i], self % 2, 3), 0);
        }
        IS(close(fd), 0);
    }
    size_t before = used();
    while (recv(socket, &order, sizeof order, 0) == sizeof order) {
        CUdeviceptr *p = &pointers[order.at];
        size_t *size = &sizes[order.at];
        switch (order.what) {
        case ALLOCATE:
            *size = order.value;
            IS(cuMemAllocFromPoolAsync(p, *size, pools[self], NULL), 0);
            IS(cuMemsetD8_v2(*p, 0, *size), 0);
            break;
        case FREE: IS(pick(2) ? cuMemFree_v2(*p) : cuMemFreeAsync(*p, NULL), 0); break;
        case EXPORT:
            IS(cuMemPoolExportPointer(&order.pointer, *p), 0);
            IS(send(socket, &order.pointer, sizeof order.pointer, 0), sizeof order.pointer);
            continue;
        case IMPORT:
            *size = order.value;
            IS(cuMemPoolImportPointer(p, pools[order.pool], &order.pointer), order.expected);
            break;
        case WRITE: IS(cuMemcpyHtoD_v2(*p + *size - 8, &order.value, 8), 0); break;
        case EXPECT: {
            unsigned long seen = 0;
            IS(cuMemcpyDtoH_v2(&seen, *p + *size - 8, 8), 0);
            IS(seen, order.value);
            break;
        }
        case USED: IS(used() - before, order.value);
        }
        IS(send(socket, "d", 1, 0), 1);
    }
}

// What each worker has: the block behind each pointer, -1 where there is none.
static struct { int socket, pointers[MOST]; } workers[WORKERS];
static struct block {
    int owner, references, is_owned;
    unsigned long bytes;
    size_t size;
    PoolPointer pointer;
} blocks[STEPS];
static int count;
static int exported[16]; // some of the blocks that are, or were

static void tell(int worker, const struct order *order) {
    char byte = 0;
    IS(send(workers[worker].socket, order, sizeof *order, 0), sizeof *order);
    if (order->what == EXPORT) return;
    recv(workers[worker].socket, &byte, 1, 0);
    IS(byte, 'd');
}
static int place(int w, int used) {
    for (int tries = 0; tries < 64; tries++) {
        int at = pick(MOST);
        if ((workers[w].pointers[at] >= 0) == used) return at;
    }
    return -1;
}
static int has(int w, int block) {
    for (int at = 0; at < MOST; at++)
        if (workers[w].pointers[at] == block) return 1;
    return 0;
}

static void step(void) {
    static const size_t sizes[] = {512, 4096, 1 << 20, 3 << 20};
    int w = pick(WORKERS);
    struct order order = {.what = pick(KINDS)};
    int at = order.at = place(w, order.what != ALLOCATE && order.what != IMPORT);
    if (at < 0) return;
    int *pointer = &workers[w].pointers[at];
    struct block *block = *pointer < 0 ? NULL : &blocks[*pointer];
    switch (order.what) {
    case ALLOCATE:
        order.value = sizes[pick(4)];
        *pointer = count;
        blocks[count++] = (struct block){.owner = w, .references = 1, .is_owned = 1, .size = order.value};
        break;
    case FREE:
        block->references--;
        if (block->owner == w) block->is_owned = 0;
        *pointer = -1;
        break;
    case EXPORT:
        if (block->owner != w) return;
        tell(w, &order);
        IS(recv(workers[w].socket, &block->pointer, sizeof block->pointer, 0), sizeof block->pointer);
        exported[pick(16)] = *pointer;
        return;
    case IMPORT: {
        int other = exported[pick(16)];
        if (other < 0 || blocks[other].owner == w || has(w, other)) return;
        block = &blocks[other];
        order.value = block->size;
        order.pointer = block->pointer;
        order.pool = block->owner;
        order.expected = !block->is_owned;
        if (pick(8) == 0) { // into the wrong pool
            order.expected = 1;
            while (order.pool == block->owner) order.pool = pick(WORKERS);
        }
        if (!order.expected) {
            *pointer = other;
            block->references++;
        }
        break;
    }
    case WRITE: order.value = block->bytes = 1 + pick(1 << 20); break;
    case EXPECT: order.value = block->bytes; break;
    case USED:
        for (int i = 0; i < count; i++)
            if (blocks[i].owner == w && blocks[i].references) order.value += blocks[i].size;
    }
    tell(w, &order);
}

int main(int argc, char **argv) {
    pid_t children[WORKERS];
    int descriptors[WORKERS];
    state = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    memset(exported, -1, sizeof exported);
    for (int i = 0; i < WORKERS; i++) {
        int pair[2];
        IS(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        memset(workers[i].pointers, -1, sizeof workers[i].pointers);
        fflush(stdout);
        if (!(children[i] = fork())) {
            alarm(60);
            for (int j = 0; j < i; j++)
                close(workers[j].socket);
            close(pair[0]);
            work(pair[1], i);
            fflush(stdout);
            _exit(0);
        }
        close(pair[1]);
        workers[i].socket = pair[0];
        descriptors[i] = receive_descriptor(pair[0]);
    }
    for (int w = 0; w < WORKERS; w++)
        for (int i = 0; i < WORKERS; i++)
            send_descriptor(workers[w].socket, descriptors[i]);
    for (int i = 0; i < STEPS; i++)
        step();
    // An owner that is killed leaves its bytes to those that have imported them.
    kill(children[0], SIGKILL);
    waitpid(children[0], NULL, 0);
    for (int w = 1; w < WORKERS; w++) {
        int status = 0;
        for (int at = 0; at < MOST; at++)
            if (workers[w].pointers[at] >= 0)
                tell(w, &(struct order){.what = EXPECT, .at = at, .value = blocks[workers[w].pointers[at]].bytes});
        close(workers[w].socket);
        waitpid(children[w], &status, 0);
        IS(status, 0);
    }
    return 0;
}
