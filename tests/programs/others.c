/* others LIBRARY: names that begin as the driver's do, in other libraries, by every way. Expects the very
 * addresses that the library has, and the driver's own for what is not in the table. */
#include "common.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    void *driver = must_open("libcuda.so.1", RTLD_NOW);
    void *library = must_open(argv[1], RTLD_NOW | RTLD_GLOBAL);
    static const char *const other_names[] = {"cudnnCreate", "cublasCreate_v2", "cuFooNotOurs", "curl_easy_init",
                                              "cuIpcOpenMemHandle_v3", "cu", "cuIpc"};
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++) {
        const char *name = other_names[i];
        print_home(name, dlsym(library, name));
        print_home(name, dlsym(RTLD_DEFAULT, name));
        print_home(name, dlsym(dlopen(NULL, RTLD_NOW), name));
        print_home(name, dlsym(driver, name));
        print_dlerror(name);
        if (i < 6) printf("%d\n", ((int (*)(void))dlsym(library, name))());
    }
    static const char *const outside[] = {"cuDriverGetVersion", "cuMemAllocHost_v2", "cuMemBatchDecompressAsync", "cuCtxGetCurrent"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) print_home(outside[i], dlsym(driver, outside[i]));
    int version = 0;
    CHECK(((CUresult(*)(int *))dlsym(driver, "cuDriverGetVersion"))(&version) == 0);
    printf("version %d\n", version);
    /* A name of the table in a library that does not have it. */
    CHECK(dlsym(library, "cuIpcGetMemHandle") == NULL);
    print_dlerror("in the other library");
    for (int f = 0; f < FUNCTIONS; f++) {
        print_home(names[f], dlsym(driver, names[f]) ? (void *)main : NULL);
        print_dlerror(names[f]);
    }
    return 0;
}
