/* Preloaded: from never_open() on, whoever opens a descriptor of another process waits for ever. So the simulated driver hangs in
 * an open of a handle. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int is_on;

void never_open(void) {
    is_on = 1;
}

static int opened(const char *name, const char *path, int flags, mode_t mode) {
    int pid, fd;
    if (is_on && sscanf(path, "/proc/%d/fd/%d", &pid, &fd) == 2 && pid != getpid())
        for (;;) pause();
    int (*next)(const char *, int, mode_t) = (int (*)(const char *, int, mode_t))dlsym(RTLD_NEXT, name);
    return next(path, flags, mode);
}

#define OPEN(name)                                                                                            \
    int name(const char *path, int flags, ...) {                                                              \
        va_list words;                                                                                        \
        va_start(words, flags);                                                                               \
        mode_t mode = va_arg(words, int);                                                                     \
        va_end(words);                                                                                        \
        return opened(#name, path, flags, mode);                                                              \
    }

OPEN(open)
OPEN(open64)
