// A callback that throws: the exception would leave cupeer's frames. Links nothing of the driver.
#include "../../include/cupeer.h"
#include <cstdio>
#include <dlfcn.h>

static void hear(const cupeer_finding *, void *) { throw 1; }

template <typename F> static F *find(void *library, const char *name) {
    return reinterpret_cast<F *>(dlsym(library, name));
}

int main() {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return 3;
    find<int(cupeer_finding_callback, void *)>(RTLD_DEFAULT, "cupeer_on_finding")(hear, nullptr);
    find<int(unsigned)>(driver, "cuInit")(0);
    void *context;
    find<int(void **, int)>(driver, "cuDevicePrimaryCtxRetain")(&context, 0);
    find<int(void *)>(driver, "cuCtxSetCurrent")(context);
    try {
        find<int(unsigned long long)>(driver, "cuIpcCloseMemHandle")(0x1000);
    } catch (int) {
        std::puts("caught");
    }
    return 0;
}
