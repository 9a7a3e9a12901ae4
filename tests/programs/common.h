/* What the test programs share: marked calls of the table's functions, by pointer. Each program says at its
 * head what it calls and what it expects. Programs print only what must be the same with and without
 * cupeer: never an address. */
#ifndef COMMON_H
#define COMMON_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "table.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum function {
#define NUMBER(name, ...) F_##name,
    PLAIN_TABLE(NUMBER)
#undef NUMBER
        FUNCTIONS
};

static const char *const names[] __attribute__((unused)) = {
#define NAME(name, ...) #name,
    PLAIN_TABLE(NAME)
#undef NAME
};

/* Calls function number `f` of the table at `address` with the mark `m`. */
__attribute__((unused)) static CUresult call(int f, void *address, unsigned m) {
    struct outputs outputs, *o = &outputs;
    switch (f) {
#define CALL(name, parameters, forwarded, marked, mark)                                                       \
    case F_##name: return ((CUresult(*) parameters)address) marked;
        PLAIN_TABLE(CALL)
#undef CALL
    default: abort();
    }
}

/* Looks every function of the table up with `lookup` and calls it; the marks are `base` and following.
 * Returns how many were found and succeeded. */
__attribute__((unused)) static int call_all(void *(*lookup)(void *, const char *), void *handle, unsigned base) {
    int good = 0;
    for (int f = 0; f < FUNCTIONS; f++) {
        void *address = lookup(handle, names[f]);
        if (!address) {
            printf("%s: not found\n", names[f]);
            continue;
        }
        CUresult r = call(f, address, base + f);
        if (r != 0) printf("%s: %d\n", names[f], r);
        good += r == 0;
    }
    return good;
}

/* The same by the names themselves: for programs and libraries that link them. */
#ifdef LINKED
#define DECLARE(name, parameters, ...) extern CUresult name parameters;
PLAIN_TABLE(DECLARE)
LOOKUP_TABLE(DECLARE)
#undef DECLARE
__attribute__((unused)) static int call_linked(unsigned base) {
    struct outputs outputs, *o = &outputs;
    int good = 0;
    unsigned m = base;
    CUresult r;
#define CALL(name, parameters, forwarded, marked, mark)                                                       \
    r = name marked;                                                                                          \
    m++;                                                                                                      \
    if (r != 0) printf("%s: %d\n", #name, r);                                                                 \
    good += r == 0;
    PLAIN_TABLE(CALL)
#undef CALL
    return good;
}
#endif

/* Where an address lies: the last part of the library's path, and the name there. */
__attribute__((unused)) static void print_home(const char *what, void *address) {
    Dl_info info;
    if (!address) {
        printf("%s: null\n", what);
    } else if (!dladdr(address, &info)) {
        printf("%s: nowhere\n", what);
    } else {
        const char *slash = strrchr(info.dli_fname, '/');
        printf("%s: %s %s\n", what, slash ? slash + 1 : info.dli_fname, info.dli_sname ? info.dli_sname : "-");
    }
}

/* Prints what dlerror has to say, so that it can be compared. */
__attribute__((unused)) static void print_dlerror(const char *what) {
    const char *e = dlerror();
    printf("%s: %s\n", what, e ? e : "no error");
}

__attribute__((unused)) static void *must_open(const char *path, int flags) {
    void *handle = dlopen(path, flags);
    if (!handle) {
        printf("cannot open: %s\n", dlerror());
        fflush(stdout);
        _exit(3);
    }
    return handle;
}

#define CHECK(condition)                                                                                      \
    do {                                                                                                      \
        if (!(condition)) {                                                                                   \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            fflush(stdout);                                                                                   \
            _exit(4);                                                                                         \
        }                                                                                                     \
    } while (0)
#endif
