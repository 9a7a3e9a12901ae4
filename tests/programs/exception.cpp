// A C++ exception that is thrown within the driver's call and caught by the program. Expects it to arrive, the
// destructors between to run, and later calls to be seen as before.
extern "C" {
#ifndef LINKED
#define LINKED
#endif
#include "calls.h"
}

struct Guard {
    ~Guard() { puts("destroyed"); }
};

static void within(const char *, unsigned mark) {
    if (mark == EITHER) throw 5;
}

static void thrower() {
    Guard guard;
    CALL_MARKED(cuIpcOpenMemHandle_v2, EITHER);
    puts("not reached");
}

int main() {
    void *driver = must_open("libcuda.so.1", RTLD_NOW);
    *(void (**)(const char *, unsigned))dlsym(driver, "fake_driver_callback") = within;
    printf("before: %d\n", CALL_MARKED(cuIpcOpenMemHandle_v2, 100));
    try {
        thrower();
    } catch (int thrown) {
        printf("caught %d\n", thrown);
    }
    printf("after: %d\n", CALL_MARKED(cuIpcOpenMemHandle_v2, 101));
    return 0;
}
