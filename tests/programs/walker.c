/* Finds the driver's functions without the dynamic loader's help: it reads the symbol table of the library itself, as some
 * language runtimes do. Nobody can come between; that nothing was seen has to be said. */
#include "common.h"
#include <link.h>

static void *walk(struct link_map *library, const char *name) {
    const char *strings = NULL;
    const ElfW(Sym) *symbols = NULL;
    const unsigned *table = NULL;
    for (const ElfW(Dyn) *d = library->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_STRTAB) strings = (const char *)d->d_un.d_ptr;
        if (d->d_tag == DT_SYMTAB) symbols = (const ElfW(Sym) *)d->d_un.d_ptr;
        if (d->d_tag == DT_GNU_HASH) table = (const unsigned *)d->d_un.d_ptr;
    }
    CHECK(strings && symbols && table);
    const unsigned *bucket = table + 4 + table[2] * 2, *chain = bucket + table[0];
    for (unsigned b = 0; b < table[0]; b++)
        for (unsigned s = bucket[b]; s != 0; s = chain[s - table[1]] & 1 ? 0 : s + 1)
            if (strcmp(strings + symbols[s].st_name, name) == 0) return (char *)library->l_addr + symbols[s].st_value;
    return NULL;
}

int main(void) {
    struct link_map *driver = must_open("libcuda.so.1", RTLD_NOW);
    CUresult (*init)(unsigned) = walk(driver, "cuInit");
    CUresult (*can)(int *, CUdevice, CUdevice) = walk(driver, "cuDeviceCanAccessPeer");
    int yes = 0;
    CHECK(init && can && init(0) == 0 && can(&yes, 0, 1) == 0);
    printf("they can: %d\n", yes);
    return 0;
}
