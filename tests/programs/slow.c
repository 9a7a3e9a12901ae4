// Preloaded: a file system that takes 12 s to make the first file of a record, which is longer than other threads wait for it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static int opens(const char *path, int flags, int mode) {
    static int (*real)(const char *, int, ...);
    static int is_over;
    if (flags & O_CREAT && strstr(path, ".cupeer") && !__atomic_exchange_n(&is_over, 1, __ATOMIC_SEQ_CST)) sleep(12);
    if (!real) real = dlsym(RTLD_NEXT, "open64");
    return real(path, flags, mode);
}

#define OPEN(name)                               \
    int name(const char *path, int flags, ...) { \
        va_list rest;                            \
        va_start(rest, flags);                   \
        int mode = va_arg(rest, int);            \
        va_end(rest);                            \
        return opens(path, flags, mode);         \
    }
OPEN(open)
OPEN(open64)
