/* Looks for every function where no handle is needed: RTLD_DEFAULT, dlopen(NULL) and RTLD_NEXT. Built with
 * the driver linked (-DLINKED), expects all calls to reach it; without one, expects what there would be
 * without cupeer: no function, and the message of the C library. */
#include "common.h"

int main(void) {
#ifdef LINKED
    CHECK(call(F_cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 50) == 0);
#endif
    void *self = dlopen(NULL, RTLD_LAZY);
    CHECK(self != NULL);
    void *scopes[] = {RTLD_DEFAULT, self, RTLD_NEXT};
    const char *const what[] = {"RTLD_DEFAULT", "dlopen(NULL)", "RTLD_NEXT"};
    for (int s = 0; s < 3; s++) {
        printf("%s\n", what[s]);
        printf("good: %d\n", call_all(dlsym, scopes[s], 100 * (s + 1)));
        print_dlerror("message");
        for (int f = 0; f < FUNCTIONS; f++) {
            dlsym(scopes[s], names[f]);
            print_dlerror(names[f]);
        }
        dlsym(scopes[s], "cuGetProcAddress_v2");
        print_dlerror("cuGetProcAddress_v2");
        void *address = dlsym(scopes[s], "cuNotThere");
        CHECK(address == NULL);
        print_dlerror("cuNotThere");
        print_home("malloc", dlsym(scopes[s], "malloc"));
        print_home("cuDriverGetVersion", dlsym(scopes[s], "cuDriverGetVersion"));
        print_dlerror("cuDriverGetVersion");
    }
    return 0;
}
