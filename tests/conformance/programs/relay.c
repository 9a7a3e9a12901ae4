// Four processes create, export, import, map, write and release in a random order; one that holds descriptors alone
// tells them what to do, and knows which bytes each has to see and how much of its devices it has to have in use.
#include "vmm.h"

enum { WORKERS = 4, MOST = 64, STEPS = 1500 };
enum { CREATE, RELEASE, MAP, UNMAP, EXPORT, IMPORT, WRITE, EXPECT, USED };

struct order {
    int what, at;        // the place of a handle or a mapping in the worker
    unsigned long value; // bytes, or how many are in use, or the place of the handle that is mapped
};

static unsigned state;
static unsigned pick(unsigned below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

static void work(int socket, int device) {
    Allocation handles[MOST];
    CUdeviceptr mappings[MOST], base;
    struct order order;
    start(device);
    size_t before = used();
    int fd;
    while (recv(socket, &order, sizeof order, 0) == sizeof order) {
        switch (order.what) {
        case CREATE: IS(create(&handles[order.at], device, GRANULE), 0); break;
        case RELEASE: IS(cuMemRelease(handles[order.at]), 0); break;
        case MAP: mappings[order.at] = map(handles[order.value], GRANULE, device); break;
        case UNMAP:
            base = mappings[order.at];
            IS(cuMemUnmap(base, GRANULE), 0);
            IS(cuMemAddressFree(base, GRANULE), 0);
            break;
        case EXPORT:
            IS(cuMemExportToShareableHandle(&fd, handles[order.at], 1, 0), 0);
            send_descriptor(socket, fd);
            IS(close(fd), 0);
            continue;
        case IMPORT:
            fd = receive_descriptor(socket);
            IS(import(&handles[order.at], fd), 0);
            IS(close(fd), 0);
            break;
        case WRITE: IS(cuMemcpyHtoD_v2(mappings[order.at] + GRANULE - 8, &order.value, 8), 0); break;
        case EXPECT: {
            unsigned long seen = 0;
            IS(cuMemcpyDtoH_v2(&seen, mappings[order.at] + GRANULE - 8, 8), 0);
            IS(seen, order.value);
            break;
        }
        case USED: IS(used() - before, order.value);
        }
        IS(send(socket, "d", 1, 0), 1);
    }
}

// What each worker has: the block behind each handle and mapping, -1 where there is none; and all descriptors.
static struct worker {
    int socket, handles[MOST], mappings[MOST], created[MOST]; // created: whether the handle can be exported
} workers[WORKERS];
static int descriptors[MOST], meant[MOST];
static struct block {
    int owner, references;
    unsigned long bytes;
} blocks[STEPS];
static int count;

static void tell(int worker, int what, int at, unsigned long value) {
    struct order order = {what, at, value};
    IS(send(workers[worker].socket, &order, sizeof order, 0), sizeof order);
}
static void done(int worker) {
    char byte = 0;
    recv(workers[worker].socket, &byte, 1, 0);
    IS(byte, 'd');
}
static int place(const int *places, int used) {
    for (int tries = 0; tries < 64; tries++) {
        int at = pick(MOST);
        if ((places[at] >= 0) == used) return at;
    }
    return -1;
}

static void step(void) {
    int w = pick(WORKERS), what = pick(9), at = -1, other;
    struct worker *worker = &workers[w];
    switch (what) {
    case CREATE:
        if ((at = place(worker->handles, 0)) < 0) return;
        worker->handles[at] = count;
        worker->created[at] = 1;
        blocks[count++] = (struct block){w, 1, 0};
        tell(w, CREATE, at, 0);
        break;
    case RELEASE:
        if ((at = place(worker->handles, 1)) < 0) return;
        blocks[worker->handles[at]].references--;
        worker->handles[at] = -1;
        tell(w, RELEASE, at, 0);
        break;
    case MAP:
        if ((other = place(worker->handles, 1)) < 0 || (at = place(worker->mappings, 0)) < 0) return;
        worker->mappings[at] = worker->handles[other];
        blocks[worker->mappings[at]].references++;
        tell(w, MAP, at, other);
        break;
    case UNMAP:
        if ((at = place(worker->mappings, 1)) < 0) return;
        blocks[worker->mappings[at]].references--;
        worker->mappings[at] = -1;
        tell(w, UNMAP, at, 0);
        break;
    case EXPORT:
        if ((at = place(worker->handles, 1)) < 0 || !worker->created[at]) return;
        if ((other = place(meant, 0)) < 0) {
            other = pick(MOST);
            IS(close(descriptors[other]), 0);
            blocks[meant[other]].references--;
        }
        tell(w, EXPORT, at, 0);
        descriptors[other] = receive_descriptor(worker->socket);
        meant[other] = worker->handles[at];
        blocks[meant[other]].references++;
        return;
    case IMPORT:
        if ((other = place(meant, 1)) < 0 || (at = place(worker->handles, 0)) < 0) return;
        worker->handles[at] = meant[other];
        worker->created[at] = 0;
        blocks[meant[other]].references++;
        tell(w, IMPORT, at, 0);
        send_descriptor(worker->socket, descriptors[other]);
        break;
    case WRITE:
        if ((at = place(worker->mappings, 1)) < 0) return;
        blocks[worker->mappings[at]].bytes = 1 + pick(1 << 20);
        tell(w, WRITE, at, blocks[worker->mappings[at]].bytes);
        break;
    case EXPECT:
        if ((at = place(worker->mappings, 1)) < 0) return;
        tell(w, EXPECT, at, blocks[worker->mappings[at]].bytes);
        break;
    case USED: {
        unsigned long expected = 0;
        for (int i = 0; i < count; i++)
            if (blocks[i].owner == w && blocks[i].references) expected += GRANULE;
        tell(w, USED, 0, expected);
    }
    }
    done(w);
}

int main(int argc, char **argv) {
    pid_t children[WORKERS];
    state = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    memset(meant, -1, sizeof meant);
    for (int i = 0; i < WORKERS; i++) {
        int pair[2];
        IS(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        memset(workers[i].handles, -1, sizeof workers[i].handles);
        memset(workers[i].mappings, -1, sizeof workers[i].mappings);
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
    for (int i = 0; i < STEPS; i++)
        step();
    // An owner that is killed leaves its bytes to those that have imported them.
    kill(children[0], SIGKILL);
    waitpid(children[0], NULL, 0);
    for (int w = 1; w < WORKERS; w++)
        for (int at = 0; at < MOST; at++)
            if (workers[w].mappings[at] >= 0) {
                tell(w, EXPECT, at, blocks[workers[w].mappings[at]].bytes);
                done(w);
            }
    for (int w = 1; w < WORKERS; w++) {
        int status = 0;
        close(workers[w].socket);
        waitpid(children[w], &status, 0);
        IS(status, 0);
    }
    return 0;
}
