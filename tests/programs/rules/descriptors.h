/* Descriptors that go from one process to another. */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H
#include "rules.h"
#include "../descriptor.h"
#include <stdint.h>
#include <sys/socket.h>

static inline void *as_pointer(int fd) { return (void *)(intptr_t)fd; }

/* Two processes with a socket between them, over which descriptors go. */
static int ours __attribute__((unused)), theirs __attribute__((unused));

static inline void employ_with_socket(struct link *link, void (*work)(struct link)) {
    int both[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0);
    ours = both[0], theirs = both[1];
    *link = employ(work);
}

static inline void send_descriptor(int fd) { CHECK(descriptor_to(ours, fd)); }

static inline int receive_descriptor(void) {
    int fd = descriptor_from(theirs);
    CHECK(fd >= 0);
    return fd;
}
#endif
