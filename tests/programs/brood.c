/* brood CHILDREN: calls 3 times (marks from 10 on), then forks that often; each child calls 5 times (marks from 100 on), and
 * every second one is killed then. Expects that neither parent nor child has more descriptors open than before. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <dirent.h>

static int descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

static void calls(int from, int count) {
    int can;
    for (int i = 0; i < count; i++) CHECK(cuDeviceCanAccessPeer(&can, from + i, 1) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    pid_t children[64];
    int count = atoi(argv[1]);
    CHECK(count <= 64);
    calls(10, 3);
    int before = descriptors();
    for (int i = 0; i < count; i++) {
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (children[i] == 0) {
            calls(100, 5);
            CHECK(descriptors() == before);
            if (i % 2) raise(SIGKILL);
            _exit(0);
        }
    }
    for (int i = 0; i < count; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i]);
        CHECK(i % 2 ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0);
    }
    CHECK(descriptors() == before);
    return 0;
}
