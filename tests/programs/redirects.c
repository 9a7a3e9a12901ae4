/* redirects THREADS FILE: so many threads call at once, each with a window of its own, while another thread puts FILE, which
 * is short, under some numbers of descriptors, and closes them, again and again. Prints what it would without
 * cupeer. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <stdatomic.h>

static atomic_int over;
static int file;
static pthread_barrier_t all;

static void *redirect(void *unused) {
    while (!atomic_load(&over))
        for (int fd = 900; fd < 904; fd++) {
            dup2(file, fd);
            close(fd);
        }
    return unused;
}

static void *calls(void *unused) {
    CUdeviceptr pointer;
    pthread_barrier_wait(&all);
    for (unsigned m = 1; m < 4; m++) {
        CHECK(cuIpcOpenMemHandle_v2(&pointer, marked_handle(m), m) == 0);
        CHECK(cuIpcCloseMemHandle(m) == 0);
    }
    // Until all are done: the window of a thread that has ended would be the next one's.
    pthread_barrier_wait(&all);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int count = atoi(argv[1]);
    pthread_t other, *callers = calloc((size_t)count, sizeof *callers);
    file = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(callers && file >= 0 && write(file, "short", 5) == 5);
    pthread_barrier_init(&all, NULL, (unsigned)count);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    CHECK(pthread_create(&other, NULL, redirect, NULL) == 0);
    for (int i = 0; i < count; i++) CHECK(pthread_create(&callers[i], &attributes, calls, NULL) == 0);
    for (int i = 0; i < count; i++) pthread_join(callers[i], NULL);
    atomic_store(&over, 1);
    pthread_join(other, NULL);
    puts("done");
    return 0;
}
