/* unsent HOW: two ranks. Rank 0 exports memory with flags that no driver takes, so it has no descriptor to send; rank 1
 * waits for one. `stays`: rank 0 waits, too; `ends`: it ends with 1; `sent`: its second try succeeds and is sent, and
 * rank 1 imports it, before both wait. Prints "ready" before each waits, until stdin ends. */
#include "descriptor.h"
#include "rules/memory.h"
#include <signal.h>

static void ready(void) { dprintf(1, "ready\n"); }

static void sender(const char *how, int to) {
    start(0);
    Allocation allocation = create(DESCRIPTOR);
    int fd = -1;
    CHECK(cuMemExportToShareableHandle(&fd, allocation, DESCRIPTOR, 7) == 1); /* fails */
    if (strcmp(how, "ends") == 0) exit(1);
    if (strcmp(how, "sent") == 0) {
        fd = exported(allocation);
        CHECK(descriptor_to(to, fd));
    }
    ready();
    pause();
}

static void receiver(const char *how, int from) {
    start(0);
    if (strcmp(how, "sent") == 0) imported(descriptor_from(from));
    ready();
    descriptor_from(from);
}

/* A rank is a program of its own, whose launcher says which. */
static pid_t launch(char *how, int rank, int socket) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0) return pid;
    char number[8], text[16];
    snprintf(number, sizeof number, "%d", rank);
    snprintf(text, sizeof text, "%d", socket);
    CHECK(setenv("RANK", number, 1) == 0);
    execl("/proc/self/exe", "unsent", how, text, NULL);
    give_up(4, __FILE__, __LINE__, "exec");
}

int main(int argc, char **argv) {
    if (argc == 3) {
        alarm(300);
        if (*getenv("RANK") == '0') sender(argv[1], atoi(argv[2]));
        else receiver(argv[1], atoi(argv[2]));
        return 0;
    }
    int sockets[2];
    CHECK(argc == 2 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    pid_t ranks[2] = {launch(argv[1], 0, sockets[0]), launch(argv[1], 1, sockets[1])};
    char rest;
    while (read(0, &rest, 1) > 0) {}
    for (int i = 0; i < 2; i++) kill(ranks[i], SIGKILL);
    return 0;
}
