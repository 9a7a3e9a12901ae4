/* odd stack | odd vfork THREADS CALLS: calls from where few programs call.
 *
 * stack: fails twice to switch access on, from a stack of its own at whose end the memory ends, once called there and
 * once with a return address that is none. Expects the driver's answers, and to live.
 * vfork: a child of vfork calls first; then threads call that often. Expects all to succeed. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <setjmp.h>
#include <sys/mman.h>

static jmp_buf back;

static void __attribute__((noinline, used)) body(void) {
    struct outputs outputs, *o = &outputs;
    (void)o;
    printf("%d\n", cuDeviceCanAccessPeer(NULL, 30101, 1));
    fflush(stdout);
    longjmp(back, 1);
}

static void from_own_stack(int with_return_address) {
    enum { SIZE = 1 << 17 };
    char *memory = mmap(NULL, 2 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory, SIZE, PROT_READ | PROT_WRITE) == 0);
    char *top = memory + SIZE;
    if (setjmp(back)) return;
    if (with_return_address)
        __asm__ volatile("mov %0, %%rsp\n push $0\n push $0\n push $0x1234\n jmp *%1" ::"r"(top), "r"(body) : "memory");
    else
        __asm__ volatile("mov %0, %%rsp\n call *%1" ::"r"(top), "r"(body) : "memory");
}

static int calls;

static void *work(void *unused) {
    int can;
    for (int i = 0; i < calls; i++) CHECK(cuDeviceCanAccessPeer(&can, 1, 2) == 0);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    if (strcmp(argv[1], "stack") == 0) {
        from_own_stack(0);
        from_own_stack(1);
    } else {
        CHECK(argc == 4);
        int threads = atoi(argv[2]), can;
        calls = atoi(argv[3]);
        pid_t child = vfork();
        if (child == 0) _exit(cuDeviceCanAccessPeer(&can, 1, 2));
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        pthread_t thread[64];
        CHECK(threads <= 64);
        for (int i = 0; i < threads; i++) pthread_create(&thread[i], NULL, work, NULL);
        for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    }
    puts("done");
    return 0;
}
