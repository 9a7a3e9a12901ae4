/* A library that calls every function and is loaded by host.c. Built with
 *   -DLINKED            it links libcuda and calls by name,
 *   -DBY_NEXT           it links libcuda and calls what dlsym(RTLD_NEXT) finds,
 *   -DBY_DEFAULT        it links nothing and calls what dlsym(RTLD_DEFAULT) finds,
 *   -DOWN               it links no driver: every function is its own, and it calls by name,
 *   -DOPENS             it links nothing, opens the driver and calls what dlsym finds there,
 *   -DWEAK              it has weak references, and calls what is there,
 *   -DPOINTERS          it has a pointer variable of each name, as cuew has, that it fills and calls through.
 * -DMAIN makes it a program; with -DNVML it calls NVML. Each must behave as without cupeer. */
#ifdef OWN
#define LINKED
#endif
#include "common.h"

#ifdef POINTERS
#define DECLARE(name, parameters, ...) CUresult(*name) parameters;
PLAIN_TABLE(DECLARE)
int plugin(unsigned base) {
    void *driver = must_open(SONAME, RTLD_NOW), *found;
#define FILL(name, parameters, ...)                                                                           \
    found = dlsym(driver, #name);                                                                             \
    CHECK(name == NULL);                                                                                      \
    name = (CUresult(*) parameters)found;
    PLAIN_TABLE(FILL)
    struct outputs outputs, *o = &outputs;
    int good = 0;
    unsigned m = base;
#define CALL_THROUGH(name, parameters, forwarded, marked, mark) good += name marked == 0, m++;
    PLAIN_TABLE(CALL_THROUGH)
    return good;
}
#elif defined(WEAK)
#define DECLARE(name, parameters, ...) extern CUresult name parameters __attribute__((weak));
PLAIN_TABLE(DECLARE)
int plugin(unsigned base) {
    struct outputs outputs, *o = &outputs;
    int good = 0, there = 0;
    unsigned m = base;
#define CALL_IF_THERE(name, parameters, forwarded, marked, mark)                                              \
    if (name) there++, good += name marked == 0;                                                              \
    m++;
    PLAIN_TABLE(CALL_IF_THERE)
    printf("weak references that are there: %d\n", there);
    return good;
}
#elif defined(OWN)
static _Atomic int own_calls;
#ifdef ANOTHER
/* Code in front of the functions, so that they lie elsewhere than in the library without it. */
void in_front(void) { __asm__ volatile(".skip 5000, 0xcc"); }
#endif
#define DEFINE(name, parameters, forwarded, marked, mark)                                                     \
    CUresult name parameters {                                                                                \
        own_calls++;                                                                                          \
        OUTPUT_##name return (mark) >= EITHER ? 0 : 1;                                                        \
    }
PLAIN_TABLE(DEFINE)
int plugin(unsigned base) {
    int good = call_linked(base);
    if (!getenv("QUIET")) printf("own functions called: %d\n", own_calls);
    return good;
}
#elif defined(BY_NEXT)
int plugin(unsigned base) { return call_all(dlsym, RTLD_NEXT, base); }
#elif defined(BY_DEFAULT)
int plugin(unsigned base) { return call_all(dlsym, RTLD_DEFAULT, base); }
#elif defined(OPENS)
int plugin(unsigned base) { return call_all(dlsym, must_open(SONAME, RTLD_NOW), base); }
#elif defined(LINKED)
int plugin(unsigned base) { return call_linked(base); }
#endif

/* Calls at odd times: before main, before cupeer's own constructor, and after all is over. */
#ifdef EARLY
__attribute__((constructor)) static void early(void) { printf("constructor: %d\n", plugin(EARLY)); }
#endif
#ifdef LATE
__attribute__((destructor)) static void late(void) {
    printf("destructor: %d\n", plugin(LATE));
    fflush(stdout);
}
#endif
#ifdef MAIN
int main(void) { return printf("%d\n", plugin(EITHER)) < 0; }
#endif
