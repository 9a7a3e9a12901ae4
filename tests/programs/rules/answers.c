/* The simulated driver, and answers that it never gives: where the variable ANSWERS is FUNCTION=N, that function does
 * nothing and returns N. MULTICAST=N is what devices say of multicast. All others, FORWARDED, lead to the driver that lies
 * beside this one under another name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned char bytes[64]; } Handle;

/* The driver's own functions; those that may be told what to answer come first. */
#define TOLD(F)                                                                                                        \
    F(cuIpcOpenMemHandle_v2) F(cuIpcCloseMemHandle) F(cuCtxEnablePeerAccess) F(cuDeviceGetAttribute)           \
    F(cuDevicePrimaryCtxRelease)
#define SLOT(name) __attribute__((visibility("hidden"))) void *real_##name;
TOLD(SLOT)
FORWARDED(SLOT)

__attribute__((constructor)) static void find(void) {
    void *driver = dlopen("$ORIGIN/libother.so", RTLD_NOW | RTLD_LOCAL);
    if (!driver) abort();
#define FIND(name)                                                                                                     \
    if (!(real_##name = dlsym(driver, #name))) abort();
    TOLD(FIND)
    FORWARDED(FIND)
}

static int is_told(const char *function, int *result) {
    const char *answers = getenv("ANSWERS");
    size_t length = strlen(function);
    if (!answers || strncmp(answers, function, length) != 0 || answers[length] != '=') return 0;
    *result = atoi(answers + length + 1);
    return 1;
}

/* Declared first, as a compiler wants it that warns of everything. */
#define DEFINE(name, parameters, arguments)                                                                            \
    int name parameters;                                                                                               \
    int name parameters {                                                                                              \
        int result;                                                                                                    \
        return is_told(#name, &result) ? result : ((int(*) parameters)real_##name)arguments;                           \
    }
DEFINE(cuIpcOpenMemHandle_v2, (unsigned long long *p, Handle handle, unsigned flags), (p, handle, flags))
DEFINE(cuIpcCloseMemHandle, (unsigned long long p), (p))
DEFINE(cuCtxEnablePeerAccess, (void *peer, unsigned flags), (peer, flags))
DEFINE(cuDevicePrimaryCtxRelease, (int device), (device))

/* Puts what a variable says in place of an answer. */
static int other(const char *variable, int result, int *answer) {
    const char *value = getenv(variable);
    if (value && result == 0) *answer = atoi(value);
    return result;
}
#undef DEFINE
#define DEFINE(name, parameters, body)                                                                                 \
    int name parameters;                                                                                               \
    int name parameters body
DEFINE(cuDeviceGetAttribute, (int *value, int attribute, int device), {
    int result = ((int (*)(int *, int, int))real_cuDeviceGetAttribute)(value, attribute, device);
    return attribute == 132 ? other("MULTICAST", result, value) : result;
})
/* A jump keeps all registers and the stack, whatever the arguments are. */
#if defined __x86_64__
#define GO(name) "jmp *real_" #name "(%rip)\n"
#elif defined __aarch64__
#define GO(name) "adrp x16, real_" #name "\nldr x16, [x16, #:lo12:real_" #name "]\nbr x16\n"
#endif
#define FORWARD(name)                                                                                                  \
    __asm__(".text\n.globl " #name "\n.type " #name ", %function\n" #name ":\n" GO(name));
FORWARDED(FORWARD)
