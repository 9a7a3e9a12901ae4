/* Calls every function of the table by its name, through a handle, and through cuGetProcAddress, while a library that is given
 * has patched it in place: at the address that the first of the arguments says (`linked` or `handle`), by a jump that is
 * `near` or `far`, and `before` the first call of it or `after`. Expects that each call passes the hook once, as it does
 * where the address of a function is one; and no call once the patches are taken back. With a second library, that one has
 * patched what the handle leads to: each call passes one hook. `keep` as the last argument keeps the patches. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"

static int (*hooked[2])(void);
static int hooks_called(void) { return hooked[0]() + (hooked[1] ? hooked[1]() : 0); }

static void *patch_all(const char *library, int number, void *handle, const char *jump) {
    void *patcher = must_open(library, RTLD_NOW | RTLD_LOCAL);
    hooked[number] = (int (*)(void))dlsym(patcher, "hooks_called");
    int (*patch)(int, void *, int) = (int (*)(int, void *, int))dlsym(patcher, "patch");
    for (int f = 0; f < FUNCTIONS; f++)
        if (!patch(f, dlsym(handle, names[f]), strcmp(jump, "near") == 0)) printf("%s: cannot be patched\n", names[f]);
    return dlsym(patcher, "restore");
}

static void all(void *driver, const char *when, unsigned base) {
    int before = hooks_called();
    int called = call_linked(base) + call_all(dlsym, driver, base + 100);
    for (int f = 0; f < FUNCTIONS; f++) {
        void *found = NULL;
        int status = 0;
        /* What has another name there is another function. */
        if (cuGetProcAddress_v2(names[f], &found, 13010, 0, &status) == 0 && found && found == dlsym(driver, names[f]))
            called += call(f, found, base + 200 + f) == 0;
    }
    printf("%s: %d called, %d hooked\n", when, called, hooks_called() - before);
}

int main(int count, char **arguments) {
    CHECK(count >= 5);
    void *driver = must_open("libcuda.so.1", RTLD_NOW);
    hooked[0] = (int (*)(void))dlsym(must_open(arguments[4], RTLD_NOW), "hooks_called");
    if (strcmp(arguments[3], "after") == 0) all(driver, "before", 1000);
    void *handle = strcmp(arguments[1], "handle") == 0 ? driver : RTLD_DEFAULT;
    void (*restore)(void) = (void (*)(void))patch_all(arguments[4], 0, handle, arguments[2]);
    int keeps = strcmp(arguments[count - 1], "keep") == 0;
    void (*second)(void) = (void (*)(void))(count - keeps > 5 ? patch_all(arguments[5], 1, driver, arguments[2]) : NULL);
    all(driver, "patched", 2000);
    if (keeps) return 0;
    restore();
    if (second) second();
    all(driver, "restored", 3000);
    return 0;
}
