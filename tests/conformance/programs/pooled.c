// Four processes allocate of a pool each, export, import, write and free in a random order, and now and then destroy the
// pool and make another; one that has no device tells them what to do, and knows which bytes each has to see, what has to
// fail, and how much has to be in use.
#include "pools.h"

enum { WORKERS = 4, MOST = 48, STEPS = 6000, POOLS = 256 };
enum { ALLOCATE, FREE, EXPORT, IMPORT, WRITE, EXPECT, USED, KINDS, CREATE, ADOPT, DESTROY };

struct order {
    int what, at;        // the place of a pointer in the worker
    unsigned long value; // its size, or its bytes, or how much is in use
    int pool, expected;  // which one, and what is answered
    PoolPointer pointer;
};

static unsigned state;
static unsigned pick(unsigned below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

static void work(int socket, int device) {
    Pool pools[POOLS];
    CUdeviceptr pointers[MOST];
    size_t sizes[MOST];
    struct order order;
    int fd;
    start(device);
    size_t before = used();
    while (recv(socket, &order, sizeof order, 0) == sizeof order) {
        CUdeviceptr *p = &pointers[order.at];
        size_t *size = &sizes[order.at];
        switch (order.what) {
        case ALLOCATE:
            *size = order.value;
            IS(cuMemAllocFromPoolAsync(p, *size, pools[order.pool], NULL), 0);
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
        case USED: IS(used() - before, order.value); break;
        case CREATE:
            IS(create_pool(&pools[order.pool], device, 1), 0);
            IS(export_pool(&fd, pools[order.pool]), 0);
            send_descriptor(socket, fd);
            IS(close(fd), 0);
            continue;
        case ADOPT:
            fd = receive_descriptor(socket);
            IS(import_pool(&pools[order.pool], fd), 0);
            IS(allow_pool(pools[order.pool], device, 3), 0);
            IS(close(fd), 0);
            break;
        case DESTROY: IS(cuMemPoolDestroy(pools[order.pool]), order.expected);
        }
        IS(cuCtxSynchronize(), 0);
        IS(send(socket, "d", 1, 0), 1);
    }
}

// What each worker has: the block behind each pointer, -1 where there is none.
static struct { int socket, pointers[MOST], pool; } workers[WORKERS];
static struct { int owner, own, importers; } pools[POOLS]; // `own`: the owner's pointers, and the pool itself
static int pool_count;
static struct block {
    int owner, pool, references, is_owned, is_gone;
    unsigned long bytes;
    size_t size;
    PoolPointer pointer;
} blocks[STEPS];
static int count;
static int exported[16]; // some of the blocks that are, or were

// What the owner has freed and nobody has open can be imported until the owner's memory is asked for.
static void lose(int worker) {
    for (int i = 0; i < count; i++)
        if (blocks[i].owner == worker && !blocks[i].references) blocks[i].is_gone = 1;
}

static void tell(int worker, const struct order *order) {
    char byte = 0;
    if (order->what == ALLOCATE || order->what == USED || order->what == CREATE) lose(worker);
    IS(send(workers[worker].socket, order, sizeof *order, 0), sizeof *order);
    if (order->what == EXPORT || order->what == CREATE) return;
    if (order->what == ADOPT) send_descriptor(workers[worker].socket, order->at);
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

// The pointers of a pool that a worker has.
static int pointers_of(int w, int pool) {
    int found = 0;
    for (int at = 0; at < MOST; at++)
        found += workers[w].pointers[at] >= 0 && blocks[workers[w].pointers[at]].pool == pool;
    return found;
}

// A worker gets another pool, and all others import it. An import in which pointers are open cannot be given up.
static void renew(int w, int is_first) {
    int old = workers[w].pool, new = pool_count++;
    IS(new < POOLS, 1);
    if (!is_first) {
        tell(w, &(struct order){.what = DESTROY, .pool = old});
        pools[old].own--;
    }
    workers[w].pool = new;
    pools[new].owner = w;
    pools[new].own = 1;
    tell(w, &(struct order){.what = CREATE, .pool = new});
    int fd = receive_descriptor(workers[w].socket);
    for (int i = 0; i < WORKERS; i++) {
        if (i == w) continue;
        tell(i, &(struct order){.what = ADOPT, .pool = new, .at = fd});
        pools[new].importers++;
        if (is_first) continue;
        int is_open = pointers_of(i, old) > 0;
        tell(i, &(struct order){.what = DESTROY, .pool = old, .expected = is_open});
        if (!is_open) pools[old].importers--;
    }
    IS(close(fd), 0);
}

static void step(void) {
    static const size_t sizes[] = {512, 4096, 1 << 20, 3 << 20};
    int w = pick(WORKERS);
    if (pick(60) == 0) return renew(w, 0);
    struct order order = {.what = pick(KINDS)};
    int at = order.at = place(w, order.what != ALLOCATE && order.what != IMPORT);
    if (at < 0) return;
    int *pointer = &workers[w].pointers[at];
    struct block *block = *pointer < 0 ? NULL : &blocks[*pointer];
    switch (order.what) {
    case ALLOCATE:
        order.value = sizes[pick(4)];
        *pointer = count;
        order.pool = workers[w].pool;
        pools[order.pool].own++;
        blocks[count++] =
            (struct block){.owner = w, .pool = order.pool, .references = 1, .is_owned = 1, .size = order.value};
        break;
    case FREE:
        block->references--;
        if (block->owner == w) block->is_owned = 0, pools[block->pool].own--;
        *pointer = -1;
        break;
    case EXPORT:
        if (block->owner != w || block->pool != workers[w].pool) return;
        tell(w, &order);
        IS(recv(workers[w].socket, &block->pointer, sizeof block->pointer, 0), sizeof block->pointer);
        exported[pick(16)] = *pointer;
        return;
    case IMPORT: {
        int other = exported[pick(16)];
        if (other < 0 || blocks[other].owner == w || has(w, other)) return;
        if (blocks[other].pool != workers[blocks[other].owner].pool) return; // given up
        block = &blocks[other];
        order.value = block->size;
        order.pointer = block->pointer;
        order.pool = block->pool;
        order.expected = block->is_gone;
        if (pick(8) == 0) { // into the wrong pool
            order.expected = 1;
            while (order.pool == block->pool) order.pool = workers[pick(WORKERS)].pool;
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
        for (int i = 0; i < pool_count; i++)
            if (pools[i].owner == w && pools[i].own + pools[i].importers) order.value += GRANULE;
    }
    tell(w, &order);
}

int main(int argc, char **argv) {
    pid_t children[WORKERS];
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
            work(pair[1], i % 2);
            fflush(stdout);
            _exit(0);
        }
        close(pair[1]);
        workers[i].socket = pair[0];
    }
    for (int w = 0; w < WORKERS; w++)
        renew(w, 1);
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
