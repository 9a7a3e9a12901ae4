/* Descriptors that go from one process to another. */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H
#include "rules.h"
#include "../descriptor.h"
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>

static inline void *as_pointer(int fd) { return (void *)(intptr_t)fd; }

/* Two processes with a socket between them, over which descriptors go. */
static int ours __attribute__((unused)), theirs __attribute__((unused));
static pid_t employer __attribute__((unused));

static inline void employ_with_socket(struct link *link, void (*work)(struct link)) {
    int both[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0);
    ours = both[0], theirs = both[1], employer = getpid();
    *link = employ(work);
}

static inline void send_descriptor(int fd) { CHECK(descriptor_to(ours, fd)); }

static inline int receive_descriptor(void) {
    struct pollfd arrival = {theirs, POLLIN, 0};
    /* Nothing comes from a process that gave up, although its end of the socket is open here. */
    while (poll(&arrival, 1, 100) == 0)
        if (employer && getpid() != employer && getppid() != employer) _exit(CANNOT);
    int fd = descriptor_from(theirs);
    CHECK(fd >= 0);
    return fd;
}
#endif
