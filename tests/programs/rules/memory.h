/* Virtual memory, for the programs of this folder: memory that is created, mapped, and sent to another process. */
#ifndef MEMORY_H
#define MEMORY_H
#include "rules.h"
#include <stdint.h>
#include <sys/socket.h>

enum { NONE = 0, DESCRIPTOR = 1, FABRIC = 8, DEVICE = 1, PINNED = 1, READ_WRITE = 3, HALF = SIZE / 2 };

static inline Properties properties(int types) {
    return (Properties){.type = PINNED, .handle_types = types, .location = {DEVICE, 0}};
}

static inline Allocation create(int types) {
    Allocation allocation;
    Properties wanted = properties(types);
    OK(cuMemCreate(&allocation, SIZE, &wanted, 0));
    return allocation;
}

static inline CUdeviceptr reserve(size_t size) {
    CUdeviceptr at;
    OK(cuMemAddressReserve(&at, size, 0, 0, 0));
    return at;
}

static inline Access access_of(int device) { return (Access){{DEVICE, device}, READ_WRITE}; }

/* Maps and gives access, where the handle may go. */
static inline CUdeviceptr map(Allocation allocation) {
    Access access = access_of(0);
    CUdeviceptr at = reserve(SIZE);
    OK(cuMemMap(at, SIZE, 0, allocation, 0));
    OK(cuMemSetAccess(at, SIZE, &access, 1));
    return at;
}

static inline void unmap(CUdeviceptr at) {
    OK(cuMemUnmap(at, SIZE));
    OK(cuMemAddressFree(at, SIZE));
}

static inline int exported(Allocation allocation) {
    int fd;
    OK(cuMemExportToShareableHandle(&fd, allocation, DESCRIPTOR, 0));
    return fd;
}

static inline void *as_pointer(int fd) { return (void *)(intptr_t)fd; }

/* Two processes with a socket between them, over which descriptors go. */
static int ours __attribute__((unused)), theirs __attribute__((unused));

static inline void employ_with_socket(struct link *link, void (*work)(struct link)) {
    int both[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0);
    ours = both[0], theirs = both[1];
    *link = employ(work);
}

static inline void send_descriptor(int fd) {
    char byte = 'x', control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec io = {&byte, 1};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    CHECK(sendmsg(ours, &message, 0) == 1);
}

static inline int receive_descriptor(void) {
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec io = {&byte, 1};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(theirs, &message, 0) == 1);
    int fd = -1;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static inline Allocation imported(int fd) {
    Allocation allocation;
    OK(cuMemImportFromShareableHandle(&allocation, as_pointer(fd), DESCRIPTOR));
    return allocation;
}

/* Sends a descriptor to another process, which says when it has done its work. */
static inline void share_with(void (*work)(struct link)) {
    struct link link;
    employ_with_socket(&link, work);
    start(0);
    Allocation allocation = create(DESCRIPTOR);
    int fd = exported(allocation);
    send_descriptor(fd);
    close(fd);
    wait_for(link);
    ended(link);
    OK(cuMemRelease(allocation));
}
#endif
