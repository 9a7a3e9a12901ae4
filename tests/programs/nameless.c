// Preloaded: a file system that has no files without a name, as NFS has none.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

static int opens(const char *path, int flags, int mode) {
    static int (*real)(const char *, int, ...);
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
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
