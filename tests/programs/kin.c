/* kin HOW: children, by fork, by clone that the C library does not see, by vfork and posix_spawn; each, and then the
 * process itself, calls with a mark of its own.
 *   silent   children of all kinds that never call; the process calls with mark 10
 *   vfork    a child of vfork calls 2000 times (marks from 1000 on) while a second thread of the process waits; the
 *            process calls before (10) and after (20), and its other thread 1000 times after that (from 5000 on)
 *   clone    a child of clone calls (30), after the process did (10)
 *   exec     calls (10), and executes itself with `again`
 *   again    calls (40)
 *   inside   forks within a call (mark EITHER); both return from it and call (50)
 *   none     never touches the driver; its children do not either */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>

static int one(unsigned mark) { return cuIpcCloseMemHandle(mark); }
static pthread_barrier_t barrier;
static pid_t inside;

static void *later(void *unused) {
    CHECK(one(5000) == 0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (unsigned i = 1; i < 1000; i++) CHECK(one(5000 + i) == 0);
    return unused;
}

static void forks(const char *function, unsigned mark) {
    (void)function;
    if (mark == EITHER) inside = fork();
}

static void join(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void silent_children(char *self) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    join(child);
    child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    join(child);
    child = vfork();
    if (child == 0) _exit(0);
    join(child);
    char *arguments[] = {self, "nothing", NULL};
    CHECK(posix_spawn(&child, self, NULL, NULL, arguments, environ) == 0);
    join(child);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const char *how = argv[1];
    if (strcmp(how, "silent") == 0) {
        silent_children(argv[0]);
        CHECK(one(10) == 0);
        silent_children(argv[0]);
    } else if (strcmp(how, "none") == 0) {
        silent_children(argv[0]);
    } else if (strcmp(how, "vfork") == 0) {
        pthread_t thread;
        pthread_barrier_init(&barrier, NULL, 2);
        pthread_create(&thread, NULL, later, NULL);
        pthread_barrier_wait(&barrier);
        CHECK(one(10) == 0);
        pid_t child = vfork();
        if (child == 0) {
            for (unsigned i = 0; i < 2000; i++)
                if (one(1000 + i) != 0) _exit(1);
            _exit(0);
        }
        join(child);
        CHECK(one(20) == 0);
        pthread_barrier_wait(&barrier);
        pthread_join(thread, NULL);
    } else if (strcmp(how, "clone") == 0) {
        CHECK(one(10) == 0);
        pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) _exit(one(30));
        join(child);
    } else if (strcmp(how, "exec") == 0) {
        CHECK(one(10) == 0);
        execl(argv[0], argv[0], "again", (char *)NULL);
        return 1;
    } else if (strcmp(how, "again") == 0) {
        CHECK(one(40) == 0);
    } else if (strcmp(how, "inside") == 0) {
        void *driver = must_open("libcuda.so.1", RTLD_NOW);
        *(void (**)(const char *, unsigned))dlsym(driver, "fake_driver_callback") = forks;
        CHECK(one(EITHER) == 0);
        CHECK(one(50) == 0);
        if (inside == 0) _exit(0);
        join(inside);
    }
    return 0;
}
