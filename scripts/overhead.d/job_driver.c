// A driver for checked.c that shares nothing and takes no time: it answers what the program and the record ask it. A
// handle has the exporter's pid where real ones have it, and names an address.
#include <stddef.h>
#include <string.h>
#include <unistd.h>
typedef unsigned long long pointer;
typedef struct { char bytes[64]; } handle;
typedef void *context;
#define CALL __attribute__((noinline)) int
// As much as a driver maps at least.
enum { SIZE = 2 << 20, MOST_FREE = 1024 };
static const pointer ours = 0x700000000000, theirs = 0x600000000000;
static pointer next = 0x700000000000, freed[MOST_FREE];
static int freed_count, pid, primary[2];
static context current;
// Kernels of a driver of this name need not exist.
int launches_anything;

CALL cuInit(unsigned flags) { return pid = getpid(), (int)flags; }
CALL cuDriverGetVersion(int *version) { return *version = 13000, 0; }
CALL cuDeviceGetCount(int *count) { return *count = 2, 0; }
CALL cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal >= 2; }
CALL cuDeviceGetUuid_v2(char *uuid, int device) { return memset(uuid, 1 + device, 16), 0; }
CALL cuDeviceCanAccessPeer(int *can, int device, int peer) { return *can = device != peer, 0; }
CALL cuDevicePrimaryCtxRetain(context *c, int device) { return *c = &primary[device], 0; }
CALL cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    return *flags = 0, *active = current == &primary[device], 0;
}
CALL cuCtxSetCurrent(context c) { return current = c, 0; }
CALL cuCtxGetCurrent(context *c) { return *c = current, 0; }
CALL cuCtxGetDevice(int *device) { return *device = current != &primary[0], 0; }
CALL cuCtxGetDevice_v2(int *device, context c) { return *device = c != &primary[0], 0; }
CALL cuMemAlloc_v2(pointer *p, size_t size) {
    if (size > SIZE) return 2;
    if (freed_count) *p = freed[--freed_count];
    else *p = next, next += SIZE;
    return 0;
}
CALL cuMemFree_v2(pointer p) {
    if (freed_count < MOST_FREE) freed[freed_count++] = p;
    return 0;
}
CALL cuMemGetAddressRange_v2(pointer *base, size_t *size, pointer p) {
    return *base = p & -(pointer)SIZE, *size = SIZE, 0;
}
CALL cuIpcGetMemHandle(handle *h, pointer p) {
    memset(h, 0, sizeof *h);
    memcpy(h->bytes + 8, &pid, sizeof pid);
    memcpy(h->bytes + 24, &p, sizeof p);
    return 0;
}
CALL cuIpcOpenMemHandle_v2(pointer *p, handle h, unsigned flags) {
    memcpy(p, h.bytes + 24, sizeof *p);
    *p += theirs - ours;
    return flags != 1;
}
CALL cuIpcCloseMemHandle(pointer p) { return p < theirs; }
// Of memory that is open or was: where it begins, and its size. What is theirs lies on the other device.
CALL cuPointerGetAttributes(unsigned count, const int *attributes, void **data, pointer p) {
    for (unsigned i = 0; i < count; i++)
        if (attributes[i] == 11) *(pointer *)data[i] = p & -(pointer)SIZE;
        else if (attributes[i] == 12) *(pointer *)data[i] = SIZE;
        else *(int *)data[i] = attributes[i] == 2 ? 2 : attributes[i] == 9 && p < ours;
    return 0;
}
CALL cuCtxEnablePeerAccess(context c, unsigned flags) { return c == current || flags; }
CALL cuDevicePrimaryCtxRelease_v2(int device) { return device < 0; }
CALL cuMemcpyDtoDAsync_v2(pointer to, pointer from, size_t size, void *stream) { return to == 0 || from == 0 || size == 0 || stream; }
CALL cuMemcpyHtoD_v2(pointer to, const void *from, size_t size) { return to == 0 || from == 0 || size == 0; }
CALL cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned shared, void *stream,
                    void **parameters, void **extra) {
    return f == 0 || x + y + z + a + b + c == 0 || shared || stream || parameters == 0 || extra;
}
// A kernel of 16 pointers, and the mode of a thread that captures nothing.
CALL cuKernelGetFunction(void **f, void *kernel) { return *f = (void *)0x2000, kernel == 0; }
CALL cuModuleGetFunction(void **f, void *module, const char *name) { return *f = (void *)0x1000, module == 0 || name == 0; }
CALL cuThreadExchangeStreamCaptureMode(int *mode) { return *mode = 0; }
CALL cuFuncGetParamInfo(void *f, size_t index, size_t *offset, size_t *size) {
    return *offset = 8 * index, *size = 8, f == 0 || index >= 16;
}
