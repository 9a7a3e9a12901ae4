// Shares virtual memory with itself by a descriptor, and forgets to give something back where a call fails: importer HOW. HOW
// is what it forgets then: import, mapping, reservation, allocation, or nothing, which is good. Without a failure all do the
// same, and give all back.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr, Allocation;
typedef struct { int type, id; } Location;
typedef struct { Location location; int flags; } Access;
typedef struct { int type, handleTypes; Location location; void *security; unsigned char flags[8]; } Properties;
enum { GRANULE = 2 << 20 };

static void *driver;
#define FIND(name, types) CUresult(*name) types = (CUresult(*) types)dlsym(driver, #name)

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "good";
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return 2;
    FIND(cuInit, (unsigned));
    FIND(cuMemCreate, (Allocation *, size_t, const Properties *, unsigned long long));
    FIND(cuMemRelease, (Allocation));
    FIND(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long));
    FIND(cuMemAddressFree, (CUdeviceptr, size_t));
    FIND(cuMemMap, (CUdeviceptr, size_t, size_t, Allocation, unsigned long long));
    FIND(cuMemUnmap, (CUdeviceptr, size_t));
    FIND(cuMemSetAccess, (CUdeviceptr, size_t, const Access *, size_t));
    FIND(cuMemExportToShareableHandle, (void *, Allocation, int, unsigned long long));
    FIND(cuMemImportFromShareableHandle, (Allocation *, void *, int));
    const Properties properties = {.type = 1, .handleTypes = 1, .location = {1, 0}};
    const Access access = {{1, 0}, 3};
    Allocation own = 0, imported = 0;
    CUdeviceptr at = 0;
    int fd = -1, is_mapped = 0, failed = 0;
    if (cuInit(0)) return 2;
    failed = cuMemCreate(&own, GRANULE, &properties, 0) || cuMemExportToShareableHandle(&fd, own, 1, 0) ||
             cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, 1) ||
             cuMemAddressReserve(&at, GRANULE, 0, 0, 0);
    if (!failed) failed = cuMemMap(at, GRANULE, 0, imported, 0), is_mapped = !failed;
    if (!failed) failed = cuMemSetAccess(at, GRANULE, &access, 1);
#define FORGETS(what) (failed && !strcmp(how, what))
    if (is_mapped && !FORGETS("mapping")) cuMemUnmap(at, GRANULE);
    if (at && !FORGETS("reservation") && !(is_mapped && FORGETS("mapping"))) cuMemAddressFree(at, GRANULE);
    if (imported && !(FORGETS("import") && !is_mapped)) cuMemRelease(imported);
    if (own && !FORGETS("allocation")) cuMemRelease(own);
    if (fd >= 0) close(fd);
    if (failed) fprintf(stderr, "importer: a call failed\n");
    puts("done");
    return failed ? 3 : 0;
}
