/* remapped host|stale|named|copy: opens memory, and closes it. `host` has memory of the host at its addresses from then on, which it copies, and
 * gives to a kernel: nothing is wrong with that. `stale` passes the address to a kernel again and again. `named` passes it to a
 * kernel whose name is as long as those of templates. `copy` copies from it, and a driver need not come back from that. */
#include "rules/memory.h"
#include <sys/mman.h>

static CUresult (*cuMemcpy)(CUdeviceptr, CUdeviceptr, size_t), (*cuMemcpyAsync)(CUdeviceptr, CUdeviceptr, size_t, void *);
static CUresult (*cuModuleLoadData)(void **, const void *), (*cuModuleGetFunction)(void **, void *, const char *);
static CUresult (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static const char head[] = ".version 6.0\n.target sm_60\n.address_size 64\n.visible .entry ", tail[] = "(.param .u64 a)\n{\nret;\n}\n";

enum { LAUNCHES = 300, LONG = 3000 };
static const char *way;

static void use(CUdeviceptr p, CUdeviceptr own) {
    void *module, *kernel, *parameters[] = {&p}, *wanted = (void *)(uintptr_t)p;
    if (!strcmp(way, "host")) {
        /* A driver may give the addresses back to the process, or keep them for itself. */
        CHECK(mmap(wanted, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == wanted);
        /* Some drivers take memory of the host for these copies, and some do not. */
        cuMemcpy(own, p, SIZE), cuMemcpyAsync(p, own, SIZE, NULL);
    }
    if (!strcmp(way, "copy")) {
        cuMemcpy(own, p, SIZE);
        return;
    }
    static char name[LONG + 1] = "add", text[sizeof head + LONG + sizeof tail];
    if (!strcmp(way, "named")) memset(name, 'k', LONG);
    snprintf(text, sizeof text, "%s%s%s", head, name, tail);
    OK(cuModuleLoadData(&module, text));
    OK(cuModuleGetFunction(&kernel, module, name));
    for (int i = 0; i < LAUNCHES; i++) OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    OK(cuCtxSynchronize());
}

static void work(struct link parent) {
    Handle handle;
    start(0);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
#define FIND(name) *(void **)&name = dlsym(driver, #name);
    FIND(cuMemcpy) FIND(cuMemcpyAsync) FIND(cuModuleLoadData) FIND(cuModuleGetFunction) FIND(cuLaunchKernel)
    get(parent, &handle, sizeof handle);
    CUdeviceptr p = open_memory(handle), own = allocate();
    OK(cuIpcCloseMemHandle(p));
    use(p, own);
    OK(cuMemFree_v2(own));
    tell(parent);
}

int main(int argc, char **argv) {
    struct link link;
    CHECK(argc == 2);
    way = argv[1];
    alarm(60);
    link = employ(work);
    start(0);
    CUdeviceptr memory = allocate();
    Handle handle = export(memory);
    put(link, &handle, sizeof handle);
    wait_for(link);
    ended(link);
    OK(cuMemFree_v2(memory));
    return 0;
}
