/* Descriptors that go from one process to another. */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H
#include "rules.h"
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
#endif
