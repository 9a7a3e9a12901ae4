/* A second tool that is preloaded: it wraps every function of the table and passes calls on to the next one,
 * by RTLD_NEXT, or with -DBY_HANDLE from a driver that it opens. It keeps account in the oracle as
 * `wrapper`. With -DWRAP_DLSYM it also hands its wrappers out for what dlsym finds in a driver. Whichever of
 * the two tools comes first, each call must pass both, once.
 *
 * With -DREPLACE_DLSYM it does as those tools do that share a GPU among containers: it asks libc for dlsym by its version,
 * answers every name of its own that begins with "cu" with its own functions, whatever the handle, and so do its
 * cuGetProcAddress; and it passes calls on to what it finds itself in a driver that it opens. With -DSECRET its functions are
 * no symbols of the library. */
#include "common.h"

/* The version of the symbols that the first C library for this processor had. */
#ifdef __x86_64__
#define FIRST_VERSION "GLIBC_2.2.5"
#else
#define FIRST_VERSION "GLIBC_2.17"
#endif

static void account(const char *function, unsigned mark) {
    char line[128];
    int n = snprintf(line, sizeof line, "wrapper %s %u 0 %d %d\n", function, mark, getpid(), gettid());
    int fd = open(getenv("FAKE_DRIVER_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, n) != n) abort();
    close(fd);
}

#ifdef REPLACE_DLSYM
typedef void *(*lookup)(void *, const char *);
static lookup libcs(void) {
    static lookup real;
    if (!real) real = (lookup)dlvsym(RTLD_NEXT, "dlsym", FIRST_VERSION);
    CHECK(real != NULL);
    return real;
}
#endif

static void *next(const char *name) {
#ifdef REPLACE_DLSYM
    return libcs()(must_open("libcuda.so.1", RTLD_NOW), name);
#elif defined BY_HANDLE
    return dlsym(must_open("libcuda.so.1", RTLD_NOW), name);
#else
    return dlsym(RTLD_NEXT, name);
#endif
}

#ifdef SECRET
#define SCOPE static
#else
#define SCOPE
#endif
#define WRAP(name, parameters, forwarded, marked, mark)                                                       \
    static CUresult(*real_##name) parameters;                                                                 \
    SCOPE CUresult name parameters {                                                                                \
        CUresult(*real) parameters = real_##name;                                                             \
        if (!real) real = real_##name = (CUresult(*) parameters)next(#name);                                  \
        account(#name, (unsigned)(mark));                                                                     \
        return real ? real forwarded : 100;                                                                   \
    }
PLAIN_TABLE(WRAP)

#ifdef WRAP_DLSYM
void *dlsym(void *handle, const char *name) {
    static void *(*real)(void *, const char *);
    if (!real) real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", FIRST_VERSION);
    void *found = real(handle, name);
    if (!found || handle == RTLD_NEXT || handle == RTLD_DEFAULT) return found;
#define HAND_OUT(function, parameters, forwarded, marked, mark)                                               \
    if (strcmp(name, #function) == 0) return real_##function = (CUresult(*) parameters)found, (void *)function;
    PLAIN_TABLE(HAND_OUT)
    return found;
}
#endif

#ifdef REPLACE_DLSYM
/* Of the tool's functions, whoever else has some of these names. */
#ifdef SECRET
#define OWN(name) ((void *)name)
#else
#define OWN(name) ((void *)own_##name)
#define ALIAS(name, parameters, ...)                                                                          \
    extern CUresult own_##name parameters __attribute__((alias(#name), visibility("hidden")));
PLAIN_TABLE(ALIAS)
#endif

static void *find(const char *name);
SCOPE CUresult cuGetProcAddress(const char *name, void **found, int version, uint64_t flags) {
    CUresult (*real)(const char *, void **, int, uint64_t) = next("cuGetProcAddress");
    CUresult r = real(name, found, version, flags);
    if (r == 0 && *found && find(name)) *found = find(name);
    return r;
}
SCOPE CUresult cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
    CUresult (*real)(const char *, void **, int, uint64_t, int *) = next("cuGetProcAddress_v2");
    CUresult r = real(name, found, version, flags, status);
    if (r == 0 && *found && find(name)) *found = find(name);
    return r;
}
#ifndef SECRET
ALIAS(cuGetProcAddress, (const char *, void **, int, uint64_t))
ALIAS(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *))
#endif

static void *find(const char *name) {
#define FIND(function, ...)                                                                                   \
    if (strcmp(name, #function) == 0) return OWN(function);
    PLAIN_TABLE(FIND)
    FIND(cuGetProcAddress)
    FIND(cuGetProcAddress_v2)
    return NULL;
}

void *dlsym(void *handle, const char *name) {
    void *own = strncmp(name, "cu", 2) == 0 && handle != RTLD_NEXT ? find(name) : NULL;
    return own ? own : libcs()(handle, name);
}
#endif
