/* A second tool that is preloaded: it wraps every function of the table and passes calls on to the next one,
 * by RTLD_NEXT, or with -DBY_HANDLE from a driver that it opens. It keeps account in the oracle as
 * `wrapper`. With -DWRAP_DLSYM it also hands its wrappers out for what dlsym finds in a driver. Whichever of
 * the two tools comes first, each call must pass both, once. */
#include "common.h"

static void account(const char *function, unsigned mark) {
    char line[128];
    int n = snprintf(line, sizeof line, "wrapper %s %u 0 %d %d\n", function, mark, getpid(), gettid());
    int fd = open(getenv("FAKE_DRIVER_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, n) != n) abort();
    close(fd);
}

static void *next(const char *name) {
#ifdef BY_HANDLE
    return dlsym(must_open("libcuda.so.1", RTLD_NOW), name);
#else
    return dlsym(RTLD_NEXT, name);
#endif
}

#define WRAP(name, parameters, forwarded, marked, mark)                                                       \
    static CUresult(*real_##name) parameters;                                                                 \
    CUresult name parameters {                                                                                \
        CUresult(*real) parameters = real_##name;                                                             \
        if (!real) real = real_##name = (CUresult(*) parameters)next(#name);                                  \
        account(#name, (unsigned)(mark));                                                                     \
        return real ? real forwarded : 100;                                                                   \
    }
PLAIN_TABLE(WRAP)

#ifdef WRAP_DLSYM
void *dlsym(void *handle, const char *name) {
    static void *(*real)(void *, const char *);
    if (!real) real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    void *found = real(handle, name);
    if (!found || handle == RTLD_NEXT || handle == RTLD_DEFAULT) return found;
#define HAND_OUT(function, parameters, forwarded, marked, mark)                                               \
    if (strcmp(name, #function) == 0) return real_##function = (CUresult(*) parameters)found, (void *)function;
    PLAIN_TABLE(HAND_OUT)
    return found;
}
#endif
