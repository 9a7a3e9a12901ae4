/* Calls every function by its name, as a program linked to libcuda does: first directly, then through its
 * address, then as it is found by the other ways in. Expects every call to reach the driver once. Built
 * lazy, with -z now, and without PIE, where the address of a function is in the program itself. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"

int main(void) {
    CUresult (*volatile enable)(CUcontext, unsigned) = cuCtxEnablePeerAccess;
    void *driver = must_open("libcuda.so.1", RTLD_LAZY);
    printf("direct: %d\n", call_linked(100));
    printf("again: %d\n", call_linked(200));
    printf("by address: %d\n", enable((CUcontext)300, 0));
    printf("fails: %d\n", enable((CUcontext)(FAILS + 704), 0));
    printf("default: %d\n", call_all(dlsym, RTLD_DEFAULT, 400));
    printf("handle: %d\n", call_all(dlsym, driver, 500));
    /* Not compared with what the handle finds: for a linked call cupeer asks for the next definition, for a
     * looked-up one it asks the driver, so it has an address for each. */
    printf("address is that of RTLD_DEFAULT: %d\n", (void *)enable == dlsym(RTLD_DEFAULT, "cuCtxEnablePeerAccess"));
    void *looked_up = NULL;
    int status = -1;
    printf("look-up: %d", cuGetProcAddress_v2("cuCtxEnablePeerAccess", &looked_up, 12000, 0, &status));
    printf(" %d, as by handle: %d\n", status, looked_up == dlsym(driver, "cuCtxEnablePeerAccess"));
    printf("called: %d\n", call(F_cuCtxEnablePeerAccess, looked_up, 600));
    printf("older look-up: %d", cuGetProcAddress("cuIpcOpenMemHandle", &looked_up, 4010, 0));
    printf(", called: %d\n", call(F_cuIpcOpenMemHandle, looked_up, 601));
    return 0;
}
