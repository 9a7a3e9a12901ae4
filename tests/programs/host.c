/* host BASE MODE LIBRARY [MODE LIBRARY ...]: loads libraries and calls what they export as `plugin` with the
 * mark BASE, BASE + 500 and so on. MODE is local, global, deepbind (RTLD_LOCAL | RTLD_DEEPBIND), namespace
 * (dlmopen), once (RTLD_LOCAL, and closed after the call), or keep (opened for all and not called). Links
 * nothing itself. */
#include "common.h"

int main(int argc, char **argv) {
    CHECK(argc >= 4 && argc % 2 == 0);
    unsigned base = (unsigned)atoi(argv[1]);
    for (int i = 2; i < argc; i += 2) {
        const char *mode = argv[i], *path = argv[i + 1];
        void *library;
        if (strcmp(mode, "namespace") == 0)
            library = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
        else
            library = dlopen(path, RTLD_NOW | (strcmp(mode, "local") == 0      ? RTLD_LOCAL
                                               : strcmp(mode, "once") == 0     ? RTLD_LOCAL
                                               : strcmp(mode, "deepbind") == 0 ? RTLD_LOCAL | RTLD_DEEPBIND
                                                                               : RTLD_GLOBAL));
        if (!library) printf("cannot open: %s\n", dlerror());
        CHECK(library != NULL);
        if (strcmp(mode, "keep") == 0) continue;
        int (*plugin)(unsigned) = (int (*)(unsigned))dlsym(library, "plugin");
        CHECK(plugin != NULL);
        /* A second namespace has its own stdout, so everything is printed here. */
        printf("%s: %d\n", mode, plugin(base));
        base += 500;
        if (strcmp(mode, "once") == 0) dlclose(library);
    }
    return 0;
}
