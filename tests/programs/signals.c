/* A timer whose handler calls one function while the program calls others all the time, by name and by
 * pointer: so that a signal comes in at every place of a call. Expects each call of both to reach the
 * driver once, with its own arguments, and errno to be left alone. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <sys/time.h>

static volatile sig_atomic_t handled;
static CUresult (*looked_up)(CUipcEventHandle *, CUevent);

static void strike(void) {
    struct itimerval timer = {{0, 0}, {0, 100}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void handler(int signal) {
    int before = errno;
    /* Only a signal within a call of ours is worth the count; the rest comes in between. */
    if (cuCtxEnablePeerAccess((CUcontext)(uintptr_t)(20000 + handled), (unsigned)signal) != 0) abort();
    CUipcEventHandle handle;
    if (looked_up(&handle, (CUevent)(uintptr_t)(25000 + handled)) != 0) abort();
    if (errno != before) abort();
    handled++;
    /* Not before: where all this takes longer than the timer, the program would do nothing else. */
    if (handled < 2000) strike();
    errno = before;
}

int main(void) {
    void *driver = must_open("libcuda.so.1", RTLD_NOW);
    looked_up = (CUresult(*)(CUipcEventHandle *, CUevent))dlsym(driver, "cuIpcGetEventHandle");
    CUresult (*close_handle)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))dlsym(driver, "cuIpcCloseMemHandle");
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    strike();
    unsigned calls = 0;
    while (handled < 2000) {
        CHECK(calls < 9000);
        if (calls < 4000 && calls <= (unsigned)handled * 2) {
            int can;
            CHECK(cuDeviceCanAccessPeer(&can, (int)(1000 + calls), 1) == 0 && can == 1);
            CHECK(close_handle(1000 + calls) == 0);
            calls++;
        }
    }
    /* How many calls there were differs from run to run, so the program ends the same only as a whole. */
    puts("done");
    return 0;
}
