/* nvml WAY: calls each function of NVML in the ways in which programs find it: `handle` by dlopen and dlsym, `global`
 * by RTLD_DEFAULT after it was opened for all, `closed` by handles that are closed in between. Expects every call to
 * reach NVML once, and a name outside of the table to have NVML's own address. */
#define NVML
#include "common.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int is_global = strcmp(argv[1], "global") == 0, is_closed = strcmp(argv[1], "closed") == 0;
    void *nvml = must_open(SONAME, RTLD_NOW | (is_global ? RTLD_GLOBAL : RTLD_LOCAL));
    printf("handle: %d\n", call_all(dlsym, nvml, 100));
    printf("fails: %d\n", call(F_nvmlDeviceGetNvLinkState, dlsym(nvml, "nvmlDeviceGetNvLinkState"), FAILS + 3));
    print_home("nvmlInit_v2", dlsym(nvml, "nvmlInit_v2"));
    void *not_there = dlsym(nvml, "nvmlNotThere");
    printf("not there: %d\n", not_there == NULL);
    print_dlerror("message");
    void *found = dlsym(RTLD_DEFAULT, "nvmlDeviceGetNvLinkState");
    printf("RTLD_DEFAULT finds it: %d\n", found != NULL);
    print_dlerror("message");
    if (is_global) printf("default: %d\n", call_all(dlsym, RTLD_DEFAULT, 200));
    if (is_closed) {
        CHECK(dlclose(nvml) == 0);
        nvml = must_open(SONAME, RTLD_NOW);
        printf("opened again: %d\n", call_all(dlsym, nvml, 300));
    }
    return 0;
}
