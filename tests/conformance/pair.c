// Two processes that hand each other descriptors, and take turns.
#include "driver.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int sockets[2];

void send_descriptor(int fd) {
    char byte = 'x', control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec io = {&byte, 1};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (sendmsg(sockets[0], &message, 0) < 0) _exit(7);
}

int receive_descriptor(void) {
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec io = {&byte, 1};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(sockets[1], &message, 0) <= 0) _exit(6);
    int fd = -1;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

void answer(char byte) { send_to(sockets[1], &byte, 1); }

void await(int socket) {
    char byte;
    receive(socket, &byte, 1);
}

void hand_in_hand(void (*exporter)(void), void (*importer)(void)) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) _exit(7);
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        fflush(stdout);
        children[i] = fork();
        if (children[i]) continue;
        alarm(60);
        close(sockets[!i]);
        i ? importer() : exporter();
        fflush(stdout);
        _exit(0);
    }
    close(sockets[0]);
    close(sockets[1]);
    for (int i = 0; i < 2; i++) {
        int status = 0;
        waitpid(children[i], &status, 0);
        if (status) _exit(4);
    }
}
