/* descriptors FILE: a daemon: calls once, then closes all descriptors and opens FILE, so that it gets the
 * numbers that others had, 2 among them; calls again. Expects FILE to hold what it wrote itself, alone.
 * With `closed` instead of FILE: closes stderr alone and calls. With `full`: lowers the size that a file
 * may have, and calls. With `pipe`: makes stderr a pipe that nobody reads, and calls. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <sys/resource.h>

static void calls(void) {
    int can;
    for (int i = 0; i < 20; i++) CHECK(cuDeviceCanAccessPeer(&can, i, 2) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int ends[2];
    if (strcmp(argv[1], "closed") == 0) {
        close(2);
        calls();
    } else if (strcmp(argv[1], "full") == 0) {
        struct rlimit limit = {100, 100};
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        calls();
    } else if (strcmp(argv[1], "pipe") == 0) {
        CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2);
        close(ends[0]);
        close(ends[1]);
        calls();
    } else {
        calls();
        fflush(stdout);
        for (int fd = 0; fd < 1024; fd++) close(fd);
        for (int fd = 0; fd < 10; fd++) CHECK(open(argv[1], O_RDWR | O_CREAT | O_APPEND, 0600) == fd);
        calls();
        CHECK(write(2, "data\n", 5) == 5);
        calls();
        return 0;
    }
    puts("alive");
    return 0;
}
