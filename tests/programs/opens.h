// For what is preloaded and stands in place of a file system: defines open and open64, which call
// opens(path, flags, mode), for which really_opens does what they do without it.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>

static int opens(const char *path, int flags, int mode);

static int really_opens(const char *path, int flags, int mode) {
    static int (*real)(const char *, int, ...);
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
