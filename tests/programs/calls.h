/* How a program that is built once to link the driver (-DLINKED) and once to open it calls one function. */
#ifndef CALLS_H
#define CALLS_H
#include "common.h"
#ifdef LINKED
#define DRIVER_FUNCTION(name) ((void *)name)
#else
static void *driver_function(const char *name) {
    void *driver = must_open("libcuda.so.1", RTLD_NOW);
    void *address = dlsym(driver, name);
    CHECK(address != NULL);
    return address;
}
#define DRIVER_FUNCTION(name) driver_function(#name)
#endif
#define CALL_MARKED(name, mark) call(F_##name, DRIVER_FUNCTION(name), mark)
#endif
