/* A CUDA runtime as a shared library, as far as the tests need one: its calls end in the driver's, and give the driver's results.
 * Built with -Wl,--default-symver and a soname, its names have versions as those of NVIDIA's library have. `cudart_calls` says how
 * many calls this runtime has had. */
#include "cudart.h"
#include <dlfcn.h>
#include <stdlib.h>

static int calls;
int cudart_calls(void) { return calls; }

typedef int (*Function)();
/* The driver's function of a name; in the current context of the first device. */
static Function driver(const char *name) {
    static void *library, *context;
    if (!library) {
        library = dlopen("libcuda.so.1", RTLD_NOW);
        if (!library) abort();
        ((Function)dlsym(library, "cuInit"))(0);
        ((Function)dlsym(library, "cuDevicePrimaryCtxRetain"))(&context, 0);
    }
    ((Function)dlsym(library, "cuCtxSetCurrent"))(context);
    calls++;
    return (Function)dlsym(library, name);
}
static void *context_of(int device) {
    static void *contexts[8];
    if (!contexts[device]) driver("cuDevicePrimaryCtxRetain")(&contexts[device], device);
    calls--;
    return contexts[device];
}
int cudaMalloc(void **memory, size_t size) { return driver("cuMemAlloc_v2")(memory, size); }
int cudaDeviceCanAccessPeer(int *can, int device, int peer) { return driver("cuDeviceCanAccessPeer")(can, device, peer); }
int cudaDeviceGetP2PAttribute(int *value, int attribute, int from, int to) {
    return driver("cuDeviceGetP2PAttribute")(value, attribute, from, to);
}
int cudaDeviceGetP2PAtomicCapabilities(unsigned *capabilities, const int *operations, unsigned count, int from, int to) {
    return driver("cuDeviceGetP2PAtomicCapabilities")(capabilities, operations, count, from, to);
}
int cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    void *context = context_of(peer);
    return driver("cuCtxEnablePeerAccess")(context, flags);
}
int cudaDeviceDisablePeerAccess(int peer) {
    void *context = context_of(peer);
    return driver("cuCtxDisablePeerAccess")(context);
}
int cudaIpcGetMemHandle(Handle *handle, void *memory) { return driver("cuIpcGetMemHandle")(handle, memory); }
int cudaIpcOpenMemHandle(void **memory, Handle handle, unsigned flags) {
    int (*open)(void **, Handle, unsigned) = (int (*)(void **, Handle, unsigned))driver("cuIpcOpenMemHandle_v2");
    return open(memory, handle, flags);
}
int cudaIpcCloseMemHandle(void *memory) { return driver("cuIpcCloseMemHandle")(memory); }
int cudaIpcGetEventHandle(Handle *handle, void *event) { return driver("cuIpcGetEventHandle")(handle, event); }
int cudaIpcOpenEventHandle(void **event, Handle handle) {
    int (*open)(void **, Handle) = (int (*)(void **, Handle))driver("cuIpcOpenEventHandle");
    return open(event, handle);
}
int cudaMemPoolExportToShareableHandle(void *handle, void *pool, int type, unsigned flags) {
    return driver("cuMemPoolExportToShareableHandle")(handle, pool, type, (unsigned long long)flags);
}
int cudaMemPoolImportFromShareableHandle(void **pool, void *handle, int type, unsigned flags) {
    return driver("cuMemPoolImportFromShareableHandle")(pool, handle, type, (unsigned long long)flags);
}
int cudaMemPoolExportPointer(Export *data, void *memory) { return driver("cuMemPoolExportPointer")(data, memory); }
int cudaMemPoolImportPointer(void **memory, void *pool, Export *data) {
    return driver("cuMemPoolImportPointer")(memory, pool, data);
}
