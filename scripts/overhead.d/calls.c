// Prints nanoseconds a call, the least of many loops: linked and looked up, of functions in the table and of
// one that is not. Run it with and without the library preloaded.
#include "measure.h"
#include <dlfcn.h>
typedef struct { char bytes[64]; } handle;
int cuInit(unsigned), cuDriverGetVersion(int *), cuDeviceCanAccessPeer(int *, int, int);
int cuIpcOpenMemHandle_v2(unsigned long long *, handle, unsigned);
int main(void) {
    int value;
    unsigned long long pointer;
    handle h = {{0}};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*can)(int *, int, int) = (int (*)(int *, int, int))dlsym(driver, "cuDeviceCanAccessPeer");
    int (*version)(int *) = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
    Dl_info about;
    if (!can || !version || cuInit(0)) return 1;
    // The function outside of the table must be the driver's own.
    if (!dladdr((void *)version, &about) || !about.dli_sname) return 2;
    MEASURE("linked_in_table", cuDeviceCanAccessPeer(&value, i, -1));
    MEASURE("linked_by_value", cuIpcOpenMemHandle_v2(&pointer, h, 1));
    MEASURE("looked_up_in_table", can(&value, i, -1));
    MEASURE("linked_not_in_table", cuDriverGetVersion(&value));
    MEASURE("looked_up_not_in_table", version(&value));
    MEASURE("dlsym_other_name", dlsym(driver, "cuDriverGetVersion"));
    MEASURE("dlsym_name_in_table", dlsym(driver, "cuDeviceCanAccessPeer"));
    return 0;
}
