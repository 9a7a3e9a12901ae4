/* Calls with all sorts of arguments, for what the log shows of them: each function once, null pointers, arrays
 * that are empty, short and long, names and numbers of enumerations, handles that are equal and that are
 * not, failures. Prints nothing. */
#define _GNU_SOURCE
#ifndef LINKED
#define LINKED
#endif
#include "common.h"

int main(void) {
    int number = 0;
    cuDeviceCanAccessPeer(&number, 0, 1);
    cuDeviceCanAccessPeer(NULL, 0, -1);
    cuDeviceCanAccessPeer(&number, FAILS + 101, 1);
    cuDeviceGetP2PAttribute(&number, 1, 0, 1);
    cuDeviceGetP2PAttribute(&number, 77, 0, 1);
    unsigned capabilities[20];
    int operations[20] = {0, 9, 99};
    cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 3, 0, 1);
    cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 20, 0, 1);
    cuDeviceGetP2PAtomicCapabilities(NULL, NULL, 0, 0, 1);
    cuDeviceGetP2PAtomicCapabilities(NULL, NULL, 1000000, FAILS + 1, 1);
    cuDeviceGetP2PAtomicCapabilities((void *)16, (void *)32, 2, FAILS + 1, 1);
    cuCtxEnablePeerAccess((CUcontext)0x1234, 0);
    cuCtxEnablePeerAccess((CUcontext)(FAILS + 704), 7);
    cuCtxDisablePeerAccess(NULL);
    CUipcMemHandle handle, again, other;
    cuIpcGetMemHandle(&handle, 0x700000);
    cuIpcGetMemHandle(&again, 0x700000);
    cuIpcGetMemHandle(&other, 0x700001);
    cuIpcGetMemHandle((CUipcMemHandle *)16, FAILS + 400);
    CUdeviceptr pointer = 0;
    cuIpcOpenMemHandle_v2(&pointer, handle, 1);
    cuIpcOpenMemHandle(&pointer, other, 3);
    cuIpcCloseMemHandle(0xdeadbeef0000);
    CUipcEventHandle event_handle;
    CUevent event;
    cuIpcGetEventHandle(&event_handle, (CUevent)0x99);
    cuIpcOpenEventHandle(&event, event_handle);
    cuMemFree_v2(0x700000);
    cuMemFree_v2(FAILS + 201);
    cuEventDestroy_v2((CUevent)0x99);
    cuCtxDestroy_v2(NULL);
    cuDevicePrimaryCtxRelease_v2(1);
    cuDevicePrimaryCtxReset_v2(FAILS + 708);
    cuDeviceCanAccessPeer(&number, FAILS + 8000, 1);
    void *pfn;
    int status;
    cuGetProcAddress_v2("cuIpcGetMemHandle", &pfn, 12000, 0, &status);
    cuGetProcAddress_v2("a \"quoted\"\nname\x1b", &pfn, 12000, 2, NULL);
    cuGetProcAddress(NULL, &pfn, 12000, 9);
    return 0;
}
