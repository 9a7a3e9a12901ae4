/* opened NAME local|global: opens the driver by NAME and finds every function with dlsym(handle), in a
 * program that does not link it. Expects every call to reach the driver once; a name outside the table to
 * have the driver's own address; a name that nobody has to be missing with the same message. */
#include "common.h"

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int scope = strcmp(argv[2], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
    void *driver = must_open(argv[1], RTLD_NOW | scope);
    printf("first: %d\n", call_all(dlsym, driver, 100));
    printf("again: %d\n", call_all(dlsym, driver, 200));
    for (int f = 0; f < FUNCTIONS; f++)
        printf("%s has one address: %d\n", names[f], dlsym(driver, names[f]) == dlsym(driver, names[f]));
    printf("fails: %d\n", call(F_cuIpcGetMemHandle, dlsym(driver, "cuIpcGetMemHandle"), FAILS + 1));
    print_home("cuDriverGetVersion", dlsym(driver, "cuDriverGetVersion"));
    print_home("cuMemAllocHost_v2", dlsym(driver, "cuMemAllocHost_v2"));
    print_home("cuCtxGetCurrent", dlsym(driver, "cuCtxGetCurrent"));
    printf("not there: %d\n", dlsym(driver, "cuNotThere") == NULL);
    print_dlerror("message");
    print_dlerror("message, read");
    /* Only a driver that was opened for all is found without its handle. */
    void *found = dlsym(RTLD_DEFAULT, "cuCtxEnablePeerAccess");
    printf("RTLD_DEFAULT finds it: %d\n", found != NULL);
    print_dlerror("message");
    if (found) printf("called: %d\n", call(F_cuCtxEnablePeerAccess, found, 300));
    void *self = dlopen(NULL, RTLD_NOW);
    void *found_in_self = dlsym(self, "cuCtxEnablePeerAccess");
    printf("dlopen(NULL) finds it: %d\n", found_in_self != NULL);
    print_dlerror("message");
    if (found_in_self) printf("called: %d\n", call(F_cuCtxEnablePeerAccess, found_in_self, 301));
    printf("dlvsym finds it: %d\n", dlvsym(driver, "cuCtxEnablePeerAccess", "CUDA_12") != NULL);
    return 0;
}
