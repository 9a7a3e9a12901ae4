/* A process of `spaces.c`: it does what it is told, and says what the driver answered and what the library found. */
#ifndef SPACES_ACTOR_H
#define SPACES_ACTOR_H
#include "../programs/rules/rules.h"
#include "../programs/descriptor.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include "cupeer.h"

enum { ACTORS = 4, HANDLES = 6, PLACES = 4 };
enum op { CREATE, IMPORT, EXPORT, RELEASE, RETAIN, RESERVE, FREE, MAP, UNMAP, ACCESS, SEND, RECEIVE, DUP, OPEN_OTHER, CLOSE, LEAVE };
struct order {
    enum op op;
    int handle, place;                 /* where the actor keeps it */
    int types, device, count, rights;  /* `count` devices, of which the last is `device`, and the others see the memory */
    int home, number, to;              /* a device that sees the memory; a descriptor; an actor */
    unsigned long long at, size, offset;
};
struct answer {
    int result, count; /* so many were found */
    struct {
        char rule[40];
        int is_certain;
    } found[4];
    unsigned long long value;
};

/* The sockets by which each actor gets descriptors: where it reads, and where the others write. */
static int boxes[ACTORS][2];
static struct answer given;

static void found(const cupeer_finding *finding, void *data) {
    (void)data;
    if (given.count >= 4) return;
    snprintf(given.found[given.count].rule, sizeof given.found[0].rule, "%s", finding->rule);
    given.found[given.count++].is_certain = strcmp(finding->confidence, "certain") == 0;
}

static void send_descriptor(int to, int fd) { CHECK(descriptor_to(boxes[to][1], fd)); }

static int receive_descriptor(int self) {
    int fd = descriptor_from(boxes[self][0]);
    CHECK(fd >= 0);
    return fd;
}

static CUresult carry_out(int self, const struct order *order, unsigned long long *value) {
    static Allocation handles[HANDLES];
    Allocation *handle = &handles[order->handle], fresh = 0;
    Properties wanted = {.type = 1, .handle_types = order->types, .location = {1, order->device}};
    Access access[3];
    CUdeviceptr at = 0;
    CUresult result;
    int fd = -1;
    switch (order->op) {
    case CREATE:
    case IMPORT:
        result = order->op == CREATE ? cuMemCreate(&fresh, order->size, &wanted, 0)
                                     : cuMemImportFromShareableHandle(&fresh, (void *)(long)order->number, 1);
        if (result == 0) *value = *handle = fresh;
        return result;
    case EXPORT:
        result = cuMemExportToShareableHandle(&fd, *handle, order->types, 0);
        *value = (unsigned)fd;
        return result;
    case RELEASE: return cuMemRelease(*handle);
    case RETAIN:
        result = cuMemRetainAllocationHandle(&fresh, order->at);
        if (result == 0) *value = *handle = fresh;
        return result;
    case RESERVE:
        result = cuMemAddressReserve(&at, order->size, 0, 0, 0);
        *value = at;
        return result;
    case FREE: return cuMemAddressFree(order->at, order->size);
    case MAP: return cuMemMap(order->at, order->size, order->offset, *handle, 0);
    case UNMAP: return cuMemUnmap(order->at, order->size);
    case ACCESS:
        for (int i = 0; i < order->count; i++)
            access[i] = (Access){{1, i + 1 < order->count ? order->home : order->device}, order->rights};
        return cuMemSetAccess(order->at, order->size, access, (size_t)order->count);
    case SEND: return send_descriptor(order->to, order->number), 0;
    case RECEIVE: return *value = (unsigned)receive_descriptor(self), 0;
    case DUP: return *value = (unsigned)fcntl(order->number, F_DUPFD_CLOEXEC, 0), 0;
    case OPEN_OTHER: return *value = (unsigned)open("/dev/null", O_RDWR | O_CLOEXEC), 0;
    case CLOSE: return close(order->number);
    default: return -1;
    }
}

__attribute__((noreturn)) static void act(int self, int link) {
    start(self % 2);
    int (*on_finding)(cupeer_finding_callback, void *) = dlsym(RTLD_DEFAULT, "cupeer_on_finding");
    if (on_finding) on_finding(found, NULL);
    for (struct order order; recv(link, &order, sizeof order, 0) == sizeof order;) {
        if (order.op == LEAVE) exit(0);
        memset(&given, 0, sizeof given);
        given.result = carry_out(self, &order, &given.value);
        CHECK(send(link, &given, sizeof given, 0) == sizeof given);
    }
    exit(0);
}
#endif
