/* stepped: calls a function again and again, each time trapping behind every instruction up to one further than before. There,
 * a signal handler calls another function. Expects each call to be logged once, none with the caller of the other. */
#include "calls.h"
#include <signal.h>
#include <ucontext.h>

enum { STEPS = 400, TRAP_FLAG = 0x100 };
static volatile int wanted, step;

static void __attribute__((noinline)) inner(int at) {
    CHECK(CALL_MARKED(cuCtxDisablePeerAccess, 2000 + at) == 0);
}

static void __attribute__((noinline)) outer(int at) {
    CHECK(CALL_MARKED(cuCtxEnablePeerAccess, 1000 + at) == 0);
}

static void handler(int signal, siginfo_t *about, void *context) {
    (void)signal, (void)about;
    if (++step < wanted) return;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    inner(wanted);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    inner(0);
    outer(0);
    for (int at = 1; at < STEPS; at++) {
        wanted = at, step = 0;
        __asm__ volatile("pushfq\n orq %0, (%%rsp)\n popfq" : : "i"(TRAP_FLAG) : "memory", "cc");
        outer(at);
        __asm__ volatile("pushfq\n andq %0, (%%rsp)\n popfq" : : "i"(~TRAP_FLAG) : "memory", "cc");
    }
    puts("done");
    return 0;
}
