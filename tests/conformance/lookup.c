// cuGetProcAddress: names, versions, flags, and what is no name.
#include "driver.h"
#include <dlfcn.h>
#include <stdio.h>

static void lookup(const char *name, int version, int flags) {
    void *pointer = (void *)5;
    int status = -1;
    CUresult result = cuGetProcAddress_v2(name, &pointer, version, flags, &status);
    Dl_info info;
    const char *symbol = "?";
    if (!result && pointer && dladdr(pointer, &info)) symbol = info.dli_sname ? info.dli_sname : "local";
    // Some pointers of real drivers lie behind symbols that are not exported.
    char id[128];
    snprintf(id, sizeof id, "lookup.%s.%d.%d", name, version, flags);
    report(id, result, "\"status\":%d,\"symbol\":\"%s\",\"null\":%d,\"dlsym\":%d", status, symbol, !pointer,
           *name && pointer == dlsym(driver, name));
}

static void versions_and_flags(void) {
    static const char *names[] = {
        "cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2", "cuIpcGetMemHandle", "cuIpcCloseMemHandle",
        "cuIpcGetEventHandle", "cuIpcOpenEventHandle", "cuCtxEnablePeerAccess", "cuCtxDisablePeerAccess",
        "cuDeviceCanAccessPeer", "cuDeviceGetP2PAttribute", "cuDeviceGetP2PAtomicCapabilities",
        "cuGetProcAddress", "cuGetProcAddress_v2", "cuMemAlloc", "cuMemAlloc_v2", "cuNoSuchThing",
        "cuMemcpyDtoH", "cuCtxCreate", "cuCtxCreate_v4", "",
    };
    static const int versions[] = {0,     1000,  3020,  4000,  4010,  8000,  10000,
                                   11000, 11030, 12000, 12050, 13000, 13020, 99999};
    for (unsigned n = 0; n < sizeof names / sizeof *names; n++)
        for (unsigned v = 0; v < sizeof versions / sizeof *versions; v++)
            for (int flags = 0; flags < 3; flags++)
                if (!flags || n == 0 || n == 16) lookup(names[n], versions[v], flags);
}

static void more_names(void) {
    static const char *names[] = {"cuInit", "cuMemcpy", "cuStreamSynchronize", "cuEventRecord", "cuCtxGetDevice",
                                  "cuMemAllocAsync", "cuLaunchKernel", "cuEventElapsedTime", "cuStreamGetCaptureInfo",
                                  "cuCtxSynchronize", "cuDevicePrimaryCtxRelease", "cuMemAdvise", "cuMemcpyPeer"};
    static const int versions[] = {2000, 4000, 7000, 10010, 11000, 12030, 13000};
    for (unsigned n = 0; n < sizeof names / sizeof *names; n++)
        for (unsigned v = 0; v < sizeof versions / sizeof *versions; v++)
            for (int flags = 0; flags < 3; flags += 2)
                lookup(names[n], versions[v], flags);
}

static void first_form(void) {
    void *pointer = (void *)5;
    CASE("lookup1.found", cuGetProcAddress("cuMemAlloc", &pointer, 11030, 0), "\"null\":%d", !pointer);
    pointer = (void *)5;
    CASE("lookup1.missing", cuGetProcAddress("cuNoSuchThing", &pointer, 11030, 0), "\"pointer\":%d",
         (int)(intptr_t)pointer);
    pointer = (void *)5;
    CASE("lookup1.old", cuGetProcAddress("cuIpcGetMemHandle", &pointer, 2000, 0), "\"pointer\":%d",
         (int)(intptr_t)pointer);
    pointer = (void *)5;
    CASE("lookup1.badflags", cuGetProcAddress("cuInit", &pointer, 11030, 77), "\"pointer\":%d",
         (int)(intptr_t)pointer);
    CASE("lookup1.newer", cuGetProcAddress("cuInit", &pointer, 99999, 0), 0);
    CASE("lookup.negative", cuGetProcAddress("cuInit", &pointer, -1, 0), 0);
}

static void null_symbol(void) {
    cuInit(0);
    void *pointer;
    int status = -1;
    CASE("lookup.nullsymbol.result", cuGetProcAddress_v2(NULL, &pointer, 13000, 0, &status), 0);
}
static void null_pointer(void) {
    cuInit(0);
    int status = -1;
    CASE("lookup.nullpointer.result", cuGetProcAddress_v2("cuInit", NULL, 13000, 0, &status), 0);
}

static void bad_arguments(void) {
    cuInit(0);
    void *pointer;
    int status = -1;
    CASE("lookup.nullstatus", cuGetProcAddress_v2("cuInit", &pointer, 13000, 0, NULL), 0);
    CASE("lookup.nullstatus.missing", cuGetProcAddress_v2("cuNope", &pointer, 13000, 0, NULL), 0);
    CASE("lookup.badflags", cuGetProcAddress_v2("cuInit", &pointer, 13000, 77, &status), "\"status\":%d", status);
}

void lookup_groups(void) {
    in_child("lookup", versions_and_flags); // before cuInit
    in_child("lookup.more", more_names);
    in_child("lookup1", first_form);
    in_child("lookup.nullsymbol", null_symbol);
    in_child("lookup.nullpointer", null_pointer);
    in_child("lookup.bad", bad_arguments);
}
