/* timers own|below|above|context PERIOD CALLS HANDLED JUMPS: calls all the time, while a timer of PERIOD microseconds
 * interrupts it, whose handler makes CALLS calls, on the stack that is named:
 *   own        that of the thread,
 *   below      an alternate stack below that of the thread,
 *   above      one above it,
 *   context    that of a context of makecontext, on which the thread runs as well.
 * Ends when the handler has run HANDLED times. Every JUMPS-th time (never where that is 0) the handler jumps out of what
 * it has interrupted. Call n of the thread has the mark MAIN + n, call n of its handlers HANDLER + n. Prints the marks of
 * calls that were perhaps left by a jump, and how many calls the thread and its handlers have made. */
#include "common.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

enum { MAIN = 1 << 20, HANDLER = 1 << 28, SIZE = 1 << 18 };
static CUresult (*can_access)(int *, CUdevice, CUdevice);
static CUresult (*close_handle)(CUdeviceptr);
static int calls_each, wanted, jumps, is_alternate, is_context, period;
static volatile int made, from_handlers, handled;
static char *stacks;
static sigjmp_buf back;
static ucontext_t outside, inside;

/* Every eighth call is one of which the record says more. */
static void call_once(int mark) {
    int can;
    if ((mark % 8 ? can_access(&can, mark, 1) : close_handle((CUdeviceptr)mark)) != 0) abort();
}

static void handler(int signal) {
    (void)signal;
    for (int i = 0; i < calls_each; i++) call_once(HANDLER + from_handlers++);
    handled++;
    if (jumps && handled % jumps == 0) siglongjmp(back, 1);
}

/* Of its own, so that the calls before and after a jump do not stand at the same height. */
__attribute__((noinline)) static void call_until_done(int depth) {
    volatile char room[64];
    room[0] = (char)depth;
    if (depth > 0) {
        call_until_done(depth - 1);
        room[1] = room[0];
        return;
    }
    while (handled < wanted) call_once(MAIN + made++);
}

static void work(void) {
    struct itimerval timer = {{0, period}, {0, period}}, none = {{0, 0}, {0, 0}};
    volatile int times = 0;
    if (sigsetjmp(back, 1)) {
        /* The next jump must not leave the line half written. */
        setitimer(ITIMER_REAL, &none, NULL);
        printf("left %d\n", MAIN + made - 1);
    }
    /* A jump may come before the first call. */
    setitimer(ITIMER_REAL, &timer, NULL);
    call_until_done(times++ % 3);
    setitimer(ITIMER_REAL, &none, NULL);
}

static void *in_thread(void *unused) {
    (void)unused;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    stack_t alternate = {.ss_sp = stacks + (is_alternate > 0 ? 2 * SIZE : 0), .ss_size = SIZE};
    if (is_alternate) CHECK(sigaltstack(&alternate, NULL) == 0);
    if (is_context) {
        CHECK(getcontext(&inside) == 0);
        inside.uc_stack.ss_sp = stacks;
        inside.uc_stack.ss_size = SIZE;
        inside.uc_link = &outside;
        makecontext(&inside, work, 0);
        CHECK(swapcontext(&outside, &inside) == 0);
    } else {
        work();
    }
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 6);
    is_alternate = strcmp(argv[1], "above") == 0 ? 1 : strcmp(argv[1], "below") == 0 ? -1 : 0;
    is_context = strcmp(argv[1], "context") == 0;
    period = atoi(argv[2]), calls_each = atoi(argv[3]), wanted = atoi(argv[4]), jumps = atoi(argv[5]);
    void *driver = must_open("libcuda.so.1", RTLD_NOW);
    can_access = (CUresult(*)(int *, CUdevice, CUdevice))dlsym(driver, "cuDeviceCanAccessPeer");
    close_handle = (CUresult(*)(CUdeviceptr))dlsym(driver, "cuIpcCloseMemHandle");
    CHECK(can_access != NULL && close_handle != NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | (is_alternate ? SA_ONSTACK : 0)};
    sigaction(SIGALRM, &action, NULL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    stacks = mmap(NULL, 3 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stacks != MAP_FAILED);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstack(&attributes, stacks + SIZE, SIZE) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, in_thread, NULL) == 0);
    pthread_join(thread, NULL);
    printf("made %d, in handlers %d\n", made, from_handlers);
    return 0;
}
