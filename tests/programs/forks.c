/* Calls in children: of fork before and after the first call, of fork in a thread, of a fork that the C
 * library does not see, and of vfork, which becomes this program again. Expects each call to reach the
 * driver once, under the pid and tid of its process. Also a lock check: a child may call while its parent's
 * other threads did. */
#include "calls.h"
#include <sys/syscall.h>

static void in_child(pid_t child, unsigned mark) {
    if (child == 0) _exit(CALL_MARKED(cuIpcOpenMemHandle_v2, mark) == 0 && CALL_MARKED(cuCtxEnablePeerAccess, mark + 1) == 0 ? 0 : 5);
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    printf("child %u: %d\n", mark, status);
}

static void *thread(void *unused) {
    (void)unused;
    CALL_MARKED(cuDeviceCanAccessPeer, 500);
    in_child(fork(), 600);
    return NULL;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IONBF, 0);
    if (argc == 2) return CALL_MARKED(cuIpcGetMemHandle, (unsigned)atoi(argv[1]));
    in_child(fork(), 100);
    printf("parent: %d\n", CALL_MARKED(cuIpcOpenMemHandle_v2, 200));
    in_child(fork(), 300);
    in_child((pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), 400);
    pthread_t t;
    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, NULL);
    pid_t child = vfork();
    if (child == 0) {
        execl(argv[0], argv[0], "700", (char *)NULL);
        _exit(6);
    }
    in_child(child, 700);
    pid_t grandparent = fork();
    if (grandparent == 0) {
        in_child(fork(), 800);
        _exit(CALL_MARKED(cuIpcOpenMemHandle, 810));
    }
    in_child(grandparent, 800);
    printf("parent: %d\n", CALL_MARKED(cuIpcOpenMemHandle_v2, 900));
    execl(argv[0], argv[0], "1000", (char *)NULL);
    return 7;
}
