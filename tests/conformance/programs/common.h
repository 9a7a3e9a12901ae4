// What these programs need of cuda.h, and how they say what is wrong.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long CUdeviceptr;
typedef struct { unsigned char bytes[64]; } Handle;
int cuInit(unsigned), cuCtxCreate_v2(void **, unsigned, int), cuCtxSetCurrent(void *), cuCtxGetCurrent(void **);
int cuDevicePrimaryCtxRetain(void **, int), cuCtxDestroy_v2(void *), cuDeviceCanAccessPeer(int *, int, int);
int cuMemAlloc_v2(CUdeviceptr *, size_t), cuMemAlloc(unsigned *, unsigned), cuMemFree_v2(CUdeviceptr), cuMemFree(unsigned);
int cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t), cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
int cuMemcpyHtoD(unsigned, const void *, unsigned), cuMemcpyDtoH(void *, unsigned, unsigned);
int cuMemcpyDtoD_v2(CUdeviceptr, CUdeviceptr, size_t), cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t);
int cuMemcpy(CUdeviceptr, CUdeviceptr, size_t), cuMemGetInfo_v2(size_t *, size_t *);
int cuIpcGetMemHandle(Handle *, CUdeviceptr), cuIpcOpenMemHandle_v2(CUdeviceptr *, Handle, unsigned);
int cuIpcCloseMemHandle(CUdeviceptr), cuCtxEnablePeerAccess(void *, unsigned);
int cuCtxSynchronize(void), cuStreamCreate(void **, unsigned), cuStreamQuery(void *), cuStreamDestroy_v2(void *);
int cuEventCreate(void **, unsigned), cuEventRecord(void *, void *), cuEventQuery(void *), cuEventDestroy_v2(void *);
int cuPointerGetAttribute(void *, int, CUdeviceptr), cuMemHostRegister_v2(void *, size_t, unsigned);

// Virtual memory: a place, what it may do, and what an allocation is to be.
typedef struct { int type, id; } Location;
typedef struct { Location location; int flags; } Access;
typedef struct { int type, handleTypes; Location location; void *security; unsigned char flags[8]; } Properties;
typedef unsigned long long Allocation;
int cuMemCreate(Allocation *, size_t, const Properties *, unsigned long long), cuMemRelease(Allocation);
int cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long), cuMemAddressFree(CUdeviceptr, size_t);
int cuMemMap(CUdeviceptr, size_t, size_t, Allocation, unsigned long long), cuMemUnmap(CUdeviceptr, size_t);
int cuMemSetAccess(CUdeviceptr, size_t, const Access *, size_t), cuMemGetAccess(unsigned long long *, const Location *, CUdeviceptr);
int cuMemExportToShareableHandle(void *, Allocation, int, unsigned long long);
int cuMemImportFromShareableHandle(Allocation *, void *, int);

// Says where an answer is not the one that is expected, and ends the program.
#define IS(call, expected)                                                                                   \
    do {                                                                                                     \
        long got_ = (long)(call);                                                                            \
        if (got_ != (long)(expected)) {                                                                      \
            printf("%s:%d: %s is %ld, not %ld\n", __FILE__, __LINE__, #call, got_, (long)(expected));        \
            fflush(stdout);                                                                                  \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

// Runs a function in a child that shares nothing with us but pipes, and waits for its good end.
static inline void in_child(void (*work)(int), int argument) {
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        alarm(60);
        work(argument);
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    IS(status, 0);
}
