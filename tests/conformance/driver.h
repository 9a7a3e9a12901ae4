// What the conformance cases need of a CUDA driver: its types as far as they matter, and its functions, found
// in whatever library the program is told to load. No header of the toolkit is needed, and the same program
// runs on a real driver and on the simulated one.
#ifndef DRIVER_H
#define DRIVER_H
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct event *CUevent;
typedef struct stream *CUstream;
typedef struct pool *CUmemoryPool;
typedef struct { unsigned char bytes[64]; } Handle; // of memory or of an event
typedef struct { unsigned char bytes[16]; } CUuuid;
typedef struct {
    size_t srcX, srcY;
    int srcType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    size_t srcPitch, dstX, dstY;
    int dstType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    size_t dstPitch, width, height;
} Copy2D;

// A place in memory (CUmemLocation), who may do what (CUmemAccessDesc), and what an allocation is to be (CUmemAllocationProp).
typedef struct { int type, id; } Location;
typedef struct { Location location; int flags; } Access;
typedef struct {
    int type, handleTypes;
    Location location;
    void *security;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
} Properties;
typedef unsigned long long Allocation; // CUmemGenericAllocationHandle

// What a pool is to be (CUmemPoolProps), and what names a pointer into one (CUmemPoolPtrExportData).
typedef struct {
    int type, handleTypes;
    Location location;
    void *security;
    size_t most;
    unsigned short usage;
    unsigned char reserved[54];
} PoolProperties;
typedef struct { unsigned char bytes[64]; } PoolPointer;

// Every function that a case calls: name, and arguments.
#define FUNCTIONS(F)                                                                                         \
    F(cuInit, (unsigned))                                                                                    \
    F(cuDriverGetVersion, (int *))                                                                           \
    F(cuGetErrorName, (CUresult, const char **))                                                             \
    F(cuGetErrorString, (CUresult, const char **))                                                           \
    F(cuGetExportTable, (const void **, const CUuuid *))                                                     \
    F(cuGetProcAddress, (const char *, void **, int, uint64_t))                                              \
    F(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *))                                    \
    F(cuDeviceGet, (CUdevice *, int))                                                                        \
    F(cuDeviceGetCount, (int *))                                                                             \
    F(cuDeviceGetName, (char *, int, CUdevice))                                                              \
    F(cuDeviceGetUuid_v2, (CUuuid *, CUdevice))                                                              \
    F(cuDeviceGetLuid, (char *, unsigned *, CUdevice))                                                       \
    F(cuDeviceTotalMem_v2, (size_t *, CUdevice))                                                             \
    F(cuDeviceGetAttribute, (int *, int, CUdevice))                                                          \
    F(cuDeviceGetPCIBusId, (char *, int, CUdevice))                                                          \
    F(cuDeviceGetByPCIBusId, (CUdevice *, const char *))                                                     \
    F(cuDeviceGetExecAffinitySupport, (int *, int, CUdevice))                                                \
    F(cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice))                                                 \
    F(cuDeviceGetMemPool, (CUmemoryPool *, CUdevice))                                                        \
    F(cuDeviceSetMemPool, (CUdevice, CUmemoryPool))                                                          \
    F(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                                     \
    F(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                              \
    F(cuDevicePrimaryCtxReset_v2, (CUdevice))                                                                \
    F(cuDevicePrimaryCtxSetFlags_v2, (CUdevice, unsigned))                                                   \
    F(cuDevicePrimaryCtxGetState, (CUdevice, unsigned *, int *))                                             \
    F(cuCtxCreate_v2, (CUcontext *, unsigned, CUdevice))                                                     \
    F(cuCtxCreate_v4, (CUcontext *, void *, unsigned, CUdevice))                                             \
    F(cuCtxDestroy_v2, (CUcontext))                                                                          \
    F(cuCtxAttach, (CUcontext *, unsigned))                                                                  \
    F(cuCtxDetach, (CUcontext))                                                                              \
    F(cuCtxPushCurrent_v2, (CUcontext))                                                                      \
    F(cuCtxPopCurrent_v2, (CUcontext *))                                                                     \
    F(cuCtxSetCurrent, (CUcontext))                                                                          \
    F(cuCtxGetCurrent, (CUcontext *))                                                                        \
    F(cuCtxGetDevice, (CUdevice *))                                                                          \
    F(cuCtxGetFlags, (unsigned *))                                                                           \
    F(cuCtxSetFlags, (unsigned))                                                                             \
    F(cuCtxGetId, (CUcontext, unsigned long long *))                                                         \
    F(cuCtxGetApiVersion, (CUcontext, unsigned *))                                                           \
    F(cuCtxSynchronize, (void))                                                                              \
    F(cuCtxGetLimit, (size_t *, int))                                                                        \
    F(cuCtxSetLimit, (int, size_t))                                                                          \
    F(cuCtxGetCacheConfig, (int *))                                                                          \
    F(cuCtxSetCacheConfig, (int))                                                                            \
    F(cuCtxGetSharedMemConfig, (int *))                                                                      \
    F(cuCtxGetStreamPriorityRange, (int *, int *))                                                           \
    F(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice))                                                    \
    F(cuDeviceGetP2PAttribute, (int *, int, CUdevice, CUdevice))                                             \
    F(cuDeviceGetP2PAtomicCapabilities, (unsigned *, const int *, unsigned, CUdevice, CUdevice))             \
    F(cuCtxEnablePeerAccess, (CUcontext, unsigned))                                                          \
    F(cuCtxDisablePeerAccess, (CUcontext))                                                                   \
    F(cuIpcGetMemHandle, (Handle *, CUdeviceptr))                                                            \
    F(cuIpcOpenMemHandle, (CUdeviceptr *, Handle, unsigned))                                                 \
    F(cuIpcOpenMemHandle_v2, (CUdeviceptr *, Handle, unsigned))                                              \
    F(cuIpcCloseMemHandle, (CUdeviceptr))                                                                    \
    F(cuIpcGetEventHandle, (Handle *, CUevent))                                                              \
    F(cuIpcOpenEventHandle, (CUevent *, Handle))                                                             \
    F(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                                \
    F(cuMemAllocPitch_v2, (CUdeviceptr *, size_t *, size_t, size_t, unsigned))                               \
    F(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned))                                                  \
    F(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))                                                    \
    F(cuMemFreeAsync, (CUdeviceptr, CUstream))                                                               \
    F(cuMemFree_v2, (CUdeviceptr))                                                                           \
    F(cuMemGetInfo_v2, (size_t *, size_t *))                                                                 \
    F(cuMemGetAddressRange_v2, (CUdeviceptr *, size_t *, CUdeviceptr))                                       \
    F(cuMemHostAlloc, (void **, size_t, unsigned))                                                           \
    F(cuMemFreeHost, (void *))                                                                               \
    F(cuMemHostRegister_v2, (void *, size_t, unsigned))                                                      \
    F(cuMemHostUnregister, (void *))                                                                         \
    F(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned))                                       \
    F(cuMemHostGetFlags, (unsigned *, void *))                                                               \
    F(cuMemPoolCreate, (CUmemoryPool *, const void *))                                                       \
    F(cuMemPoolDestroy, (CUmemoryPool))                                                                      \
    F(cuMemPoolGetAttribute, (CUmemoryPool, int, void *))                                                    \
    F(cuMemPoolSetAccess, (CUmemoryPool, const void *, size_t))                                              \
    F(cuMemPoolGetAccess, (int *, CUmemoryPool, Location *))                                                 \
    F(cuMemPoolExportToShareableHandle, (void *, CUmemoryPool, int, unsigned long long))                     \
    F(cuMemPoolImportFromShareableHandle, (CUmemoryPool *, void *, int, unsigned long long))                 \
    F(cuMemPoolExportPointer, (PoolPointer *, CUdeviceptr))                                                  \
    F(cuMemPoolImportPointer, (CUdeviceptr *, CUmemoryPool, PoolPointer *))                                  \
    F(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream))                              \
    F(cuMemcpy, (CUdeviceptr, CUdeviceptr, size_t))                                                          \
    F(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                                  \
    F(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                                        \
    F(cuMemcpyDtoD_v2, (CUdeviceptr, CUdeviceptr, size_t))                                                   \
    F(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                                         \
    F(cuMemcpyPeer, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t))                                \
    F(cuMemcpy2D_v2, (const Copy2D *))                                                                       \
    F(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))                                                   \
    F(cuMemsetD16_v2, (CUdeviceptr, unsigned short, size_t))                                                 \
    F(cuMemsetD32_v2, (CUdeviceptr, unsigned, size_t))                                                       \
    F(cuMemsetD2D8_v2, (CUdeviceptr, size_t, unsigned char, size_t, size_t))                                 \
    F(cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                           \
    F(cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                    \
    F(cuMemcpy3D_v2, (const void *))                                                                         \
    F(cuMemcpyBatchAsync, (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, size_t *, CUstream)) \
    F(cuMemcpy3DBatchAsync, (size_t, void *, size_t *, unsigned long long, CUstream))                        \
    F(cuMemcpyDtoA_v2, (void *, size_t, CUdeviceptr, size_t))                                                \
    F(cuMemcpyAtoD_v2, (CUdeviceptr, void *, size_t, size_t))                                                \
    F(cuArrayCreate_v2, (void **, const void *))                                                             \
    F(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                                       \
    F(cuMemPrefetchAsync, (CUdeviceptr, size_t, CUdevice, CUstream))                                         \
    F(cuMemAdvise, (CUdeviceptr, size_t, int, CUdevice))                                                     \
    F(cuModuleLoadData, (void **, const void *))                                                             \
    F(cuModuleGetFunction, (void **, void *, const char *))                                                  \
    F(cuLaunchKernel,                                                                                        \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **)) \
    F(cuStreamBeginCapture_v2, (CUstream, int))                                                              \
    F(cuStreamEndCapture, (CUstream, void **))                                                               \
    F(cuGraphCreate, (void **, unsigned))                                                                    \
    F(cuGraphAddMemcpyNode, (void **, void *, void *const *, size_t, const void *, CUcontext))               \
    F(cuGraphAddMemsetNode, (void **, void *, void *const *, size_t, const void *, CUcontext))               \
    F(cuGraphExecMemcpyNodeSetParams, (void *, void *, const void *, CUcontext))                             \
    F(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                    \
    F(cuGraphLaunch, (void *, CUstream))                                                                     \
    F(cuPointerGetAttribute, (void *, int, CUdeviceptr))                                                     \
    F(cuPointerGetAttributes, (unsigned, int *, void **, CUdeviceptr))                                       \
    F(cuPointerSetAttribute, (const void *, int, CUdeviceptr))                                               \
    F(cuStreamCreate, (CUstream *, unsigned))                                                                \
    F(cuStreamCreateWithPriority, (CUstream *, unsigned, int))                                               \
    F(cuStreamDestroy_v2, (CUstream))                                                                        \
    F(cuStreamQuery, (CUstream))                                                                             \
    F(cuStreamSynchronize, (CUstream))                                                                       \
    F(cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                                      \
    F(cuStreamGetPriority, (CUstream, int *))                                                                \
    F(cuStreamGetFlags, (CUstream, unsigned *))                                                              \
    F(cuStreamGetId, (CUstream, unsigned long long *))                                                       \
    F(cuStreamIsCapturing, (CUstream, int *))                                                                \
    F(cuLaunchHostFunc, (CUstream, void (*)(void *), void *))                                                \
    F(cuEventCreate, (CUevent *, unsigned))                                                                  \
    F(cuEventDestroy_v2, (CUevent))                                                                          \
    F(cuEventRecord, (CUevent, CUstream))                                                                    \
    F(cuEventQuery, (CUevent))                                                                               \
    F(cuEventSynchronize, (CUevent))                                                                         \
    F(cuEventElapsedTime, (float *, CUevent, CUevent))                                                       \
    F(cuMemGetAllocationGranularity, (size_t *, const void *, int))                                          \
    F(cuMemCreate, (Allocation *, size_t, const void *, unsigned long long))                                 \
    F(cuMemRelease, (Allocation))                                                                            \
    F(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))                 \
    F(cuMemAddressFree, (CUdeviceptr, size_t))                                                               \
    F(cuMemMap, (CUdeviceptr, size_t, size_t, Allocation, unsigned long long))                               \
    F(cuMemUnmap, (CUdeviceptr, size_t))                                                                     \
    F(cuMemSetAccess, (CUdeviceptr, size_t, const void *, size_t))                                           \
    F(cuMemGetAccess, (unsigned long long *, const Location *, CUdeviceptr))                                 \
    F(cuMemExportToShareableHandle, (void *, Allocation, int, unsigned long long))                           \
    F(cuMemImportFromShareableHandle, (Allocation *, void *, int))                                           \
    F(cuMemRetainAllocationHandle, (Allocation *, void *))                                                   \
    F(cuMemGetAllocationPropertiesFromHandle, (Properties *, Allocation))                                    \
    F(cuMemGetHandleForAddressRange, (void *, CUdeviceptr, size_t, int, unsigned long long))                 \
    F(cuLogsRegisterCallback, (void (*)(void *, int, char *, size_t), void *, void **))                      \
    F(cuLogsUnregisterCallback, (void *))                                                                    \
    F(cuLogsCurrent, (unsigned *, unsigned))                                                                 \
    F(cuLogsDumpToMemory, (unsigned *, char *, size_t *, unsigned))

#define DECLARE(name, args) extern CUresult(*name) args;
FUNCTIONS(DECLARE)
#undef DECLARE

extern void *driver; // of dlopen

// One line for a case: its id, the name of its result, what the driver said about it, and more where `format`
// is not null.
void report(const char *id, CUresult result, const char *format, ...);
#define CASE(id, call, ...)                                                                                  \
    do {                                                                                                     \
        CUresult result_ = (call);                                                                           \
        report(id, result_, __VA_ARGS__);                                                                    \
    } while (0)
// The same where what the driver says differs from run to run.
#define QUIET(id, call, ...)                                                                                 \
    do {                                                                                                     \
        CUresult result_ = (call);                                                                           \
        hush();                                                                                              \
        report(id, result_, __VA_ARGS__);                                                                    \
    } while (0)
void hush(void);
// A line that is not compared.
void note(const char *format, ...);

// Runs a group of cases in a process of its own; where it dies, a line says by which signal.
void in_child(const char *id, void (*group)(void));

// cuInit, and the primary contexts of the first two devices.
extern CUcontext c0, c1;
extern int devices;
void start(void);
CUcontext new_context(CUdevice device);

// Processes that work hand in hand: what one sends, the other receives.
struct pair {
    int to[2], from[2];
};
void send_to(int fd, const void *bytes, size_t length);
void receive(int fd, void *bytes, size_t length);

// Two of them, with a socket each: the first exports descriptors, the second gets them.
extern int sockets[2];
void hand_in_hand(void (*exporter)(void), void (*importer)(void));
void send_descriptor(int fd);
int receive_descriptor(void);
void answer(char byte); // from the second to the first
void await(int socket);

void peer_groups(void);
void ipc_groups(void);
void lookup_groups(void);
void device_groups(void);
void context_groups(void);
void memory_groups(void);
void work_groups(void);
void sharing_groups(void);
void virtual_groups(void);
void pool_groups(void);
void pool_sharing_groups(void);
void use_groups(void);
#endif
