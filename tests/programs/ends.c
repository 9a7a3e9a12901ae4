/* ends HOW: calls with mark 100, then with the mark EITHER, and in the driver's call
 *   hang       waits for ever,
 *   peer       waits for ever in its very first call, of cuDeviceCanAccessPeer,
 *   abort, kill, _exit   ends the process so,
 *   exit       ends it by exit, whose handlers call (mark 200),
 *   exception  is left by a foreign exception: pthread_exit,
 *   cancel     is cancelled,
 *   jump       is left by longjmp,
 *   jumps      the same over and over: 100 calls with this mark, and all from the same frame,
 *   deep       is left by longjmp over 64 KiB of stack, which calls use again before the last one,
 *   aside      is interrupted by a signal whose handler has a stack of its own, calls (mark 300, twice), and kills,
 *   coroutine  waits while a coroutine on another stack does the same,
 *   nested     calls once more (mark 300),
 *   thousands  gets signals whose handler calls 3000 times (marks from 1000 on).
 * Where it goes on, it calls with mark 400. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <setjmp.h>
#include <ucontext.h>

static const char *how;
static jmp_buf back;
static unsigned handled;
static volatile int jumps;
static ucontext_t waiting, other;

static int is(const char *name) { return strcmp(how, name) == 0; }

static void within(const char *function, unsigned mark) {
    (void)function;
    if (mark != EITHER) return;
    if (is("hang") || is("peer") || is("cancel")) {
        puts("within");
        fflush(stdout);
        for (;;) pause();
    }
    if (is("abort")) abort();
    if (is("kill")) raise(SIGKILL);
    if (is("_exit")) _exit(7);
    if (is("exit")) exit(8);
    if (is("exception")) pthread_exit(NULL);
    if (is("jump") || is("jumps") || is("deep")) longjmp(back, 1);
    if (is("aside")) raise(SIGUSR2);
    if (is("coroutine")) swapcontext(&waiting, &other);
    if (is("nested")) CHECK(cuIpcCloseMemHandle(300) == 0);
    if (is("thousands"))
        for (int i = 0; i < 3; i++) raise(SIGUSR1);
}

static void handler(int signal) {
    (void)signal;
    int can;
    for (int i = 0; i < 1000; i++) CHECK(cuDeviceCanAccessPeer(&can, (int)(1000 + handled++), 1) == 0);
}

static void on_another_stack(void) {
    for (int i = 0; i < 2; i++) CHECK(cuIpcCloseMemHandle(300) == 0);
    raise(SIGKILL);
}

static void handler_on_another_stack(int signal) {
    (void)signal;
    on_another_stack();
}

static void at_exit(void) { CHECK(cuIpcCloseMemHandle(200) == 0); }

static void *work(void *unused) {
    CUdeviceptr pointer;
    cuIpcOpenMemHandle_v2(&pointer, marked_handle(EITHER), EITHER);
    return unused;
}

/* Calls something from below 64 KiB of stack. */
static void __attribute__((noinline)) from_below(void *(*call)(void *)) {
    volatile char used[65536];
    used[0] = used[65535] = 1;
    call(NULL);
    CHECK(used[0] == 1 && used[65535] == 1);
}

/* Uses the stack that others have used. */
static void *fill(void *unused) {
    volatile char used[65536];
    for (size_t i = 0; i < sizeof used; i++) used[i] = 1;
    return used[1] ? unused : NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    /* Above the frames of all calls, as that of one that is gone is below those of later ones. */
    static const size_t SIZE = 1 << 16;
    char *stack = alloca(SIZE);
    stack_t own = {.ss_sp = stack, .ss_size = SIZE};
    struct sigaction on_own = {.sa_handler = handler_on_another_stack, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR2, &on_own, NULL) == 0);
    how = argv[1];
    void *driver = must_open("libcuda.so.1", RTLD_NOW);
    *(void (**)(const char *, unsigned))dlsym(driver, "fake_driver_callback") = within;
    signal(SIGUSR1, handler);
    if (is("exit")) atexit(at_exit);
    int can;
    if (is("peer")) cuDeviceCanAccessPeer(&can, EITHER, 1);
    CHECK(cuIpcCloseMemHandle(100) == 0);
    if (is("exception") || is("cancel")) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
        if (is("cancel")) pthread_cancel(thread);
        pthread_join(thread, NULL);
    } else if (is("jumps")) {
        setjmp(back);
        if (jumps++ < 100) work(NULL);
    } else if (is("deep")) {
        if (setjmp(back) == 0) from_below(work);
        from_below(fill);
    } else if (setjmp(back) == 0) {
        if (is("aside")) CHECK(sigaltstack(&own, NULL) == 0);
        if (is("coroutine")) {
            CHECK(getcontext(&other) == 0);
            other.uc_stack = own;
            makecontext(&other, on_another_stack, 0);
        }
        work(NULL);
    }
    CHECK(cuIpcCloseMemHandle(400) == 0);
    puts("done");
    return 0;
}
