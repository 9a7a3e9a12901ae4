/* seccomp NUMBER ERRNO FIRST: calls FIRST times, then forbids itself the system call NUMBER, which fails with ERRNO, and
 * calls on. Prints how often the answer was not the usual one. NUMBER -1 forbids nothing. */
#ifndef LINKED
#define LINKED
#endif
#include "../programs/common.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static int wrong;

static void calls(int count) {
    CUdeviceptr pointer;
    int can;
    for (int i = 0; i < count; i++) {
        unsigned m = 1 + (unsigned)i;
        errno = 77;
        wrong += cuIpcOpenMemHandle_v2(&pointer, marked_handle(m), m) != 0;
        wrong += cuDeviceCanAccessPeer(&can, FAILS + 101, 1) != 101;
        wrong += cuDeviceCanAccessPeer(&can, (CUdevice)m, 1) != 0;
        wrong += cuIpcCloseMemHandle(m) != 0;
        wrong += errno != 77;
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int number = atoi(argv[1]), error = atoi(argv[2]), first = atoi(argv[3]);
    calls(first);
    if (number >= 0) {
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {4, filter};
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    }
    calls(40);
    char text[64];
    int length = snprintf(text, sizeof text, "done, %d wrong\n", wrong);
    _exit(write(1, text, (size_t)length) == length ? 9 : 6);
}
