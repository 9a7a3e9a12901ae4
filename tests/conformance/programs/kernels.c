// Modules and libraries load, and their kernels launch and do nothing, where the machine says so; elsewhere neither is
// supported.
#include "common.h"

int cuModuleLoadData(void **, const void *), cuModuleUnload(void *), cuModuleGetFunction(void **, void *, const char *);
int cuModuleLoad(void **, const char *), cuModuleGetGlobal_v2(CUdeviceptr *, size_t *, void *, const char *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuLibraryLoadData(void **, const void *, void *, void *, unsigned, void *, void *, unsigned), cuLibraryUnload(void *);
int cuLibraryGetKernel(void **, void *, const char *), cuKernelGetFunction(void **, void *), cuFuncGetName(const char **, void *);
int cuLinkCreate_v2(unsigned, int *, void **, void **), cuLinkDestroy(void *), cuLinkComplete(void *, void **, size_t *);
int cuLinkAddData_v2(void *, int, void *, size_t, const char *, unsigned, void *, void *);
int cuFuncGetAttribute(int *, int, void *), cuFuncSetAttribute(void *, int, int), cuFuncGetModule(void **, void *);
int cuOccupancyMaxPotentialBlockSize(int *, int *, void *, void *, size_t, int), cuStreamSynchronize(void *);
enum { INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_SUPPORTED = 801, INVALID_PTX = 218, FILE_NOT_FOUND = 301 };

static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".global .align 4 .u32 seven = 7;\n.visible .entry sum(.param .u64 a) { ret; }\n";

static void works(void) {
    void *module, *function, *library, *kernel, *linker, *linked, *same, *stream, *params[1] = {&module};
    const char *name;
    CUdeviceptr seven, memory;
    size_t size;
    int value, grid, block;
    unsigned char byte;
    IS(cuModuleLoadData(&module, "no image"), INVALID_PTX);
    IS(cuModuleLoad(&module, "/no/such/file"), FILE_NOT_FOUND);
    IS(cuModuleLoadData(&module, text), 0);
    IS(cuModuleGetFunction(&function, module, "product"), NOT_FOUND);
    IS(cuModuleGetFunction(&function, module, "sum"), 0);
    IS(cuFuncGetName(&name, function), 0);
    IS(strcmp(name, "sum"), 0);
    IS(cuFuncGetAttribute(&value, 0, function), 0);
    IS(value, 1024);
    IS(cuFuncSetAttribute(function, 8, 70000), 0);
    IS(cuFuncGetAttribute(&value, 8, function), 0);
    IS(value, 70000);
    IS(cuFuncSetAttribute(function, 0, 1), 1);
    IS(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, 0, 0), 0);
    IS(grid > 0 && block > 0, 1);
    IS(cuModuleGetGlobal_v2(&seven, &size, module, "seven"), 0);
    IS(size, 4);
    IS(cuMemcpyDtoH_v2(&value, seven, 4), 0);
    IS(value, 7);
    IS(cuModuleGetGlobal_v2(&seven, &size, module, "eight"), NOT_FOUND);
    // It launches, and nothing comes of it.
    IS(cuStreamCreate(&stream, 1), 0);
    IS(cuMemAlloc_v2(&memory, 1), 0);
    IS(cuMemsetD8_v2(memory, 5, 1), 0);
    for (int i = 0; i < 3; i++) IS(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL), 0);
    IS(cuLaunchKernel(function, 0, 1, 1, 32, 1, 1, 0, stream, params, NULL), 1);
    IS(cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, stream, params, NULL), 1);
    IS(cuLaunchKernel(memory ? (void *)0x1234 : NULL, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL), INVALID_HANDLE);
    IS(cuStreamSynchronize(stream), 0);
    IS(cuMemcpyDtoH_v2(&byte, memory, 1), 0);
    IS(byte, 5);
    IS(cuModuleUnload(module), 0);
    IS(cuModuleUnload(module), INVALID_HANDLE);
    IS(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL), INVALID_HANDLE);
    // What is linked is loaded; a library's kernels are functions of each context.
    IS(cuLinkCreate_v2(0, NULL, NULL, &linker), 0);
    IS(cuLinkAddData_v2(linker, 1, (void *)text, sizeof text, "text", 0, NULL, NULL), 0);
    IS(cuLinkComplete(linker, &linked, &size), 0);
    IS(cuLibraryLoadData(&library, linked, NULL, NULL, 0, NULL, NULL, 0), 0);
    IS(cuLinkDestroy(linker), 0);
    IS(cuLibraryGetKernel(&kernel, library, "sum"), 0);
    IS(cuKernelGetFunction(&function, kernel), 0);
    IS(cuKernelGetFunction(&same, kernel), 0);
    IS(function == same && function != kernel, 1);
    IS(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), 0);
    IS(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), 0);
    IS(cuLibraryUnload(library), 0);
    IS(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), INVALID_HANDLE);
}

int main(int argc, char **argv) {
    void *context, *module = NULL;
    (void)argv;
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&context, 0), 0);
    IS(cuCtxSetCurrent(context), 0);
    int loaded = cuModuleLoadData(&module, text);
    if (loaded) {
        IS(loaded, NOT_SUPPORTED);
        IS(module == NULL, 1);
        puts("not supported");
        return 0;
    }
    works();
    puts("skipped");
    return argc - 1;
}
