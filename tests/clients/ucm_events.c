// Asks UCX's libucm whether its hooks of the driver's allocation functions are installed, by its own API, and whether they see
// what is freed and mapped, however the function was found: by its name in the process, through the driver's handle, and
// through cuGetProcAddress, as the CUDA runtime finds it. UCX patches the functions in place.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <ucm/api/ucm.h>

typedef unsigned long long CUdeviceptr;
static int frees;

static void freed(ucm_event_type_t type, ucm_event_t *event, void *argument) {
    (void)type, (void)event, (void)argument;
    frees++;
}

static void *driver;
static void *must(const char *name) {
    void *found = dlsym(driver, name);
    if (!found) fprintf(stderr, "%s: not found\n", name);
    return found;
}

int main(void) {
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver) return fprintf(stderr, "%s\n", dlerror()), 1;
    void *context;
    ((int (*)(unsigned))must("cuInit"))(0);
    ((int (*)(void **, int))must("cuDevicePrimaryCtxRetain"))(&context, 0);
    ((int (*)(void *))must("cuCtxSetCurrent"))(context);

    ucs_status_t set = ucm_set_event_handler(UCM_EVENT_MEM_TYPE_FREE | UCM_EVENT_MEM_TYPE_ALLOC, 1000, freed, NULL);
    printf("set: %d\n", set);

    int (*alloc)(CUdeviceptr *, size_t) = (int (*)(CUdeviceptr *, size_t))must("cuMemAlloc_v2");
    int (*look_up)(const char *, void **, int, unsigned long long, int *) =
        (int (*)(const char *, void **, int, unsigned long long, int *))must("cuGetProcAddress_v2");
    void *ways[3] = {dlsym(RTLD_DEFAULT, "cuMemFree_v2"), must("cuMemFree_v2"), NULL};
    int status;
    look_up("cuMemFree", &ways[2], 12000, 0, &status);
    for (int way = 0; way < 3; way++) {
        CUdeviceptr memory;
        int allocated = alloc(&memory, 1 << 20);
        int before = frees;
        int result = ((int (*)(CUdeviceptr))ways[way])(memory);
        printf("%s: %d %d, events %d\n", (char *[]){"by name", "by handle", "looked up"}[way], allocated, result, frees - before);
    }
    return set != UCS_OK;
}
