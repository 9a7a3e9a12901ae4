/* short_memory LIMIT FIRST EXTRA CALLS WAIT: calls that often in each of two threads (marks 1 to 10000; every fourth call
 * fails), FIRST calls before in the main thread and one WAIT milliseconds after the limit is gone, which is:
 *   none     none at all
 *   as       the address space may grow by EXTRA bytes
 *   data     the private memory may
 *   locked   no memory may be locked
 *   files    no file can be opened
 *   size     files may become EXTRA bytes long
 *   stack    the stack may become EXTRA bytes large
 * A call that succeeds without cupeer may fail with CUDA_ERROR_MAP_BUFFER_OBJECT_FAILED, which a plan may ask for.
 * Prints what it would without cupeer. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <sys/resource.h>

static int number_of_calls;
static pthread_barrier_t barrier;

static void calls(int count) {
    CUdeviceptr pointer;
    int can;
    errno = 77;
    for (int i = 0; i < count; i++) {
        unsigned m = 1 + (unsigned)i % 10000;
        CUresult result;
        switch (i % 4) {
        case 0: result = cuIpcOpenMemHandle_v2(&pointer, marked_handle(m), m); break;
        case 1: result = cuDeviceCanAccessPeer(&can, (CUdevice)m, 1); break;
        case 2: result = cuDeviceCanAccessPeer(&can, FAILS + 101, 1) == 101 ? 0 : 1; break;
        default: result = cuIpcCloseMemHandle(m);
        }
        if ((result != 0 && result != 205) || errno != 77) _exit(5);
    }
}

static void *work(void *unused) {
    pthread_barrier_wait(&barrier);
    calls(number_of_calls);
    pthread_barrier_wait(&barrier);
    return unused;
}

/* A line of /proc/self/status, in bytes. */
static rlim_t now(const char *name) {
    char line[256];
    rlim_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0) kib = strtoull(line + strlen(name), NULL, 10);
    fclose(file);
    CHECK(kib > 0);
    return kib * 1024;
}

static int limited = -1;
static struct rlimit before;

static void limit(int what, rlim_t value) {
    limited = what;
    CHECK(getrlimit(what, &before) == 0);
    struct rlimit limit = {value, before.rlim_max};
    CHECK(setrlimit(what, &limit) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 6);
    const char *how = argv[1];
    rlim_t extra = (rlim_t)atoll(argv[3]);
    number_of_calls = atoi(argv[4]);
    calls(atoi(argv[2]));
    pthread_barrier_init(&barrier, NULL, 3);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    if (strcmp(how, "as") == 0) limit(RLIMIT_AS, now("VmSize:") + extra);
    if (strcmp(how, "data") == 0) limit(RLIMIT_DATA, now("VmData:") + extra);
    if (strcmp(how, "locked") == 0) limit(RLIMIT_MEMLOCK, 0);
    if (strcmp(how, "files") == 0) limit(RLIMIT_NOFILE, 0);
    if (strcmp(how, "size") == 0) limit(RLIMIT_FSIZE, extra);
    if (strcmp(how, "stack") == 0) limit(RLIMIT_STACK, extra);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    if (limited >= 0) {
        setrlimit((__rlimit_resource_t)limited, &before);
        usleep(1000 * (useconds_t)atoi(argv[5]));
    }
    calls(1);
    _exit(write(1, "done\n", 5) == 5 ? 9 : 6);
}
