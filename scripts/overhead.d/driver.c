// A driver whose functions do nothing, so that what is measured around them is not theirs.
__attribute__((noinline)) int cuInit(unsigned flags) { return (int)flags; }
__attribute__((noinline)) int cuDriverGetVersion(int *version) { return version == 0; }
__attribute__((noinline)) int cuDeviceCanAccessPeer(int *can, int device, int peer) { return can == 0 || device == peer; }
__attribute__((noinline)) int cuCtxEnablePeerAccess(void *context, unsigned flags) { return context == 0 || flags; }
typedef struct { char bytes[64]; } handle;
__attribute__((noinline)) int cuIpcOpenMemHandle_v2(unsigned long long *pointer, handle h, unsigned flags) {
    return pointer == 0 || h.bytes[0] || flags == 0;
}
__attribute__((noinline)) int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, unsigned long size, void *stream) {
    return size == 0 || from == to;
}
__attribute__((noinline)) int cuMemcpy2DAsync_v2(const void *rows, void *stream) { return rows == stream; }
__attribute__((noinline)) int cuMemcpyBatchAsync_v2(unsigned long long *to, unsigned long long *from, unsigned long *sizes, unsigned long count,
                                                    void *attributes, unsigned long *first, unsigned long attribute_count, void *stream) {
    return to == from || sizes == first || count == 0 || attributes == stream || attribute_count == 0;
}
__attribute__((noinline)) int cuMemFree_v2(unsigned long long pointer) { return pointer == ~0ull; }
__attribute__((noinline)) int cuMemFreeAsync(unsigned long long pointer, void *stream) { return stream != 0; }
__attribute__((noinline)) int cuGraphLaunch(void *graph, void *stream) { return graph == 0 || stream != 0; }
__attribute__((noinline)) int cuMemRetainAllocationHandle(unsigned long long *handle, unsigned long long address) {
    return handle == 0 || address != 0;
}
// Each allocation has an address of its own for a while.
static unsigned long long next;
static unsigned long long address(unsigned long size) { return 0x7f0000000000ull + (next++ % 8192) * (size < 4096 ? 1024 : size); }
__attribute__((noinline)) int cuMemAlloc_v2(unsigned long long *pointer, unsigned long size) { return *pointer = address(size), 0; }
__attribute__((noinline)) int cuMemAllocAsync(unsigned long long *pointer, unsigned long size, void *stream) {
    return *pointer = address(size), stream != 0;
}
static void *current = (void *)0x9000;
__attribute__((noinline)) int cuCtxGetCurrent(void **context) { return *context = current, 0; }
__attribute__((noinline)) int cuCtxGetDevice(int *device) { return *device = 0; }
__attribute__((noinline)) int cuMemGetAddressRange_v2(unsigned long long *start, unsigned long *size, unsigned long long at) {
    return start ? *start = at : 0, size ? *size = 4 << 20 : 0, 0;
}
// Each pointer is that of device memory, which begins there.
__attribute__((noinline)) int cuPointerGetAttributes(unsigned count, const int *attributes, void **data, unsigned long long at) {
    for (unsigned i = 0; i < count; i++) switch (attributes[i]) {
        case 1: *(void **)data[i] = current; break;
        case 2: *(unsigned *)data[i] = 2; break;
        case 10: *(unsigned char *)data[i] = 1; break;
        case 11: *(unsigned long long *)data[i] = at; break;
        case 12: *(unsigned long *)data[i] = 4 << 20; break;
    }
    return 0;
}
__attribute__((noinline)) int cuThreadExchangeStreamCaptureMode(int *mode) {
    static __thread int now;
    int before = now;
    return now = *mode, *mode = before, 0;
}
__attribute__((noinline)) int cuStreamGetFlags(void *stream, unsigned *flags) { return *flags = 1, stream == 0; }
__attribute__((noinline)) int cuStreamIsCapturing(void *stream, int *status) { return *status = 0, stream == 0; }
__attribute__((noinline)) int cuIpcGetMemHandle(handle *h, unsigned long long at) { return *(unsigned long long *)h = at, 0; }
__attribute__((noinline)) int cuMemsetD8Async(unsigned long long to, unsigned char value, unsigned long size, void *stream) {
    return size == 0 || stream == 0;
}
__attribute__((noinline)) int cuStreamSynchronize(void *stream) { return stream == 0; }
__attribute__((noinline)) int cuStreamQuery(void *stream) { return stream == 0; }
__attribute__((noinline)) int cuEventRecord(void *event, void *stream) { return event == stream; }
__attribute__((noinline)) int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                                             unsigned bytes, void *stream, void **parameters, void **extra) {
    return f == stream;
}
