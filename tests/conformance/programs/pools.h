// Memory pools, and what of them can leave the process.
#include "vmm.h"

typedef struct pool *Pool;
typedef struct {
    int type, handleTypes;
    Location location;
    void *security;
    size_t most;
    unsigned char usage[56];
} PoolProperties;
typedef struct { unsigned char bytes[64]; } PoolPointer;
int cuMemPoolCreate(Pool *, const PoolProperties *), cuMemPoolDestroy(Pool);
int cuMemPoolSetAccess(Pool, const Access *, size_t), cuMemPoolGetAccess(int *, Pool, Location *);
int cuMemPoolExportToShareableHandle(void *, Pool, int, unsigned long long);
int cuMemPoolImportFromShareableHandle(Pool *, void *, int, unsigned long long);
int cuMemPoolExportPointer(PoolPointer *, CUdeviceptr), cuMemPoolImportPointer(CUdeviceptr *, Pool, PoolPointer *);
int cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, Pool, void *), cuMemFreeAsync(CUdeviceptr, void *);
int cuDeviceSetMemPool(int, Pool), cuDeviceGetDefaultMemPool(Pool *, int);
int cupeer_sim_ledger(const char *);

static inline int create_pool(Pool *pool, int device, int types) {
    PoolProperties wanted = {.type = 1, .handleTypes = types, .location = {1, device}};
    return cuMemPoolCreate(pool, &wanted);
}

static inline int export_pool(int *fd, Pool pool) { return cuMemPoolExportToShareableHandle(fd, pool, 1, 0); }

static inline int import_pool(Pool *pool, int fd) {
    return cuMemPoolImportFromShareableHandle(pool, (void *)(intptr_t)fd, 1, 0);
}

static inline int allow_pool(Pool pool, int device, int flags) {
    Access access = {{1, device}, flags};
    return cuMemPoolSetAccess(pool, &access, 1);
}

static inline int access_of(Pool pool, int device) {
    Location location = {1, device};
    int flags = 9;
    IS(cuMemPoolGetAccess(&flags, pool, &location), 0);
    return flags;
}
