// Two processes that hand each other descriptors, and take turns.
#include "driver.h"
#include "../programs/descriptor.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int sockets[2];

void send_descriptor(int fd) { if (!descriptor_to(sockets[0], fd)) _exit(7); }

int receive_descriptor(void) {
    int fd = descriptor_from(sockets[1]);
    if (fd < 0) _exit(6);
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
        if (WIFSIGNALED(status)) raise(WTERMSIG(status));
        if (status) _exit(4);
    }
}
