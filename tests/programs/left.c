/* left CALLS: a thread makes a call, is interrupted while the call is put into the record, makes CALLS calls there, jumps out of
 * both, and ends. Then two threads make as many calls each at once. All have the marks from 1 on. What is in place of a
 * signal handler stands in process_vm_readv, by which cupeer reads what a call points to. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <setjmp.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static int number_of_calls;
static __thread int is_interrupted;
static jmp_buf back;
static pthread_barrier_t barrier;

static void calls(void) {
    int can;
    for (int i = 0; i < number_of_calls; i++) CHECK(cuDeviceCanAccessPeer(&can, 1 + i, 1) == 0);
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long places, const struct iovec *from,
                         unsigned long pieces, unsigned long flags) {
    if (is_interrupted) {
        is_interrupted = 0;
        calls();
        puts("interrupted");
        longjmp(back, 1);
    }
    return syscall(SYS_process_vm_readv, pid, to, places, from, pieces, flags);
}

static void *leaves(void *unused) {
    CUdeviceptr handle;
    int can;
    CHECK(cuDeviceCanAccessPeer(&can, 1, 1) == 0);
    if (setjmp(back) == 0) {
        is_interrupted = 1;
        cuMulticastCreate(&handle, team(1));
        CHECK(!"interrupted");
    }
    return unused;
}

static void *stays(void *unused) {
    pthread_barrier_wait(&barrier);
    calls();
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    number_of_calls = atoi(argv[1]);
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, leaves, NULL) == 0);
    CHECK(pthread_join(threads[0], NULL) == 0);
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, stays, NULL) == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    puts("done");
    return 0;
}
