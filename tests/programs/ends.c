/* ends HOW: calls with mark 100, then with the mark EITHER, and in the driver's call
 *   hang       waits for ever,
 *   peer       waits for ever in its very first call, of cuDeviceCanAccessPeer,
 *   abort, kill, _exit   ends the process so,
 *   exit       ends it by exit, whose handlers call (mark 200),
 *   exception  is left by a foreign exception: pthread_exit,
 *   cancel     is cancelled,
 *   jump       is left by longjmp,
 *   nested     calls once more (mark 300),
 *   thousands  gets signals whose handler calls 3000 times (marks from 1000 on).
 * Where it goes on, it calls with mark 400. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <setjmp.h>

static const char *how;
static jmp_buf back;
static unsigned handled;

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
    if (is("jump")) longjmp(back, 1);
    if (is("nested")) CHECK(cuIpcCloseMemHandle(300) == 0);
    if (is("thousands"))
        for (int i = 0; i < 3; i++) raise(SIGUSR1);
}

static void handler(int signal) {
    (void)signal;
    int can;
    for (int i = 0; i < 1000; i++) CHECK(cuDeviceCanAccessPeer(&can, (int)(1000 + handled++), 1) == 0);
}

static void at_exit(void) { CHECK(cuIpcCloseMemHandle(200) == 0); }

static void *work(void *unused) {
    CUdeviceptr pointer;
    cuIpcOpenMemHandle_v2(&pointer, marked_handle(EITHER), EITHER);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
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
    } else if (setjmp(back) == 0) {
        work(NULL);
    }
    CHECK(cuIpcCloseMemHandle(400) == 0);
    puts("done");
    return 0;
}
