/* use RULE bad|good: rules about the use of shared memory that is gone. The right programs use what came there again. */
#include "rows.h"

static char text[64];
static CUdeviceptr own; /* memory of this process */

/* Opens memory, and closes it as often, but opens it once more in the right program. */
static CUdeviceptr closed(struct link parent) {
    start(0);
    own = allocate();
    Handle handle = get_handle(parent);
    CUdeviceptr p = open_memory(handle), again = open_memory(handle);
    CHECK(p == again);
    OK(cuIpcCloseMemHandle(p));
    OK(cuMemcpyDtoH_v2(text, p, sizeof text));
    OK(cuIpcCloseMemHandle(p));
    return bad ? p : open_memory(handle);
}
static void finish(CUdeviceptr p) {
    OK(cuMemFree_v2(own));
    if (!bad) OK(cuIpcCloseMemHandle(p));
}

static void read_it(struct link parent) {
    CUdeviceptr p = closed(parent);
    CALL(cuMemcpyDtoH_v2, (text, p + OFFSET, sizeof text));
    finish(p);
}
static void after_close(void) { export_for(read_it); }

static void read_later(struct link parent) {
    CUdeviceptr p = closed(parent);
    CALL(cuMemcpyDtoHAsync_v2, (text, p + SIZE - sizeof text, sizeof text, NULL));
    finish(p);
}
static void after_close_async(void) { export_for(read_later); }

static void fill_it(struct link parent) {
    CUdeviceptr p = closed(parent);
    CALL(cuMemsetD32_v2, (p, 7, SIZE / 4));
    finish(p);
}
static void after_close_fill(void) { export_for(fill_it); }

/* The last of the rows is in the memory. */
static void read_rows(struct link parent) {
    CUdeviceptr p = closed(parent);
    Rows rows = {{.type = ON_DEVICE, .device = p, .x = 16, .y = 1, .pitch = 64}, {.type = HOST, .host = text, .pitch = 16}, 16, 4};
    CALL(cuMemcpy2D_v2, (&rows));
    finish(p);
}
static void after_close_rows(void) { export_for(read_rows); }

/* Between memory of its own and memory that is closed. */
static void copy_it(struct link parent) {
    CUdeviceptr p = closed(parent);
    CALL(cuMemcpyDtoDAsync_v2, (own, p, SIZE, NULL));
    finish(p);
}
static void after_close_copy(void) { export_for(copy_it); }

/* The memory goes with its context. */
static void with_context(struct link parent) {
    start(0);
    CUcontext other;
    OK(cuCtxCreate_v2(&other, 0, 0));
    Handle handle = get_handle(parent);
    CUdeviceptr p = open_memory(handle);
    if (bad) OK(cuCtxDestroy_v2(other));
    OK(cuCtxSetCurrent(bad ? c0 : other));
    CALL(cuMemcpyDtoH_v2, (text, p, sizeof text));
    if (bad) return;
    OK(cuIpcCloseMemHandle(p));
    OK(cuCtxDestroy_v2(other));
}
static void after_context(void) { export_for(with_context); }

/* Uses the addresses of what it imported and unmapped; in the right program, other memory is mapped there. */
static void unmapped(struct link parent) {
    start(0);
    Allocation allocation = imported(receive_descriptor()), another = create(NONE);
    CUdeviceptr at = map(allocation);
    Access access = access_of(0);
    OK(cuMemUnmap(at, SIZE));
    if (!bad) {
        OK(cuMemMap(at, SIZE, 0, another, 0));
        OK(cuMemSetAccess(at, SIZE, &access, 1));
    }
    CALL(cuMemcpyHtoD_v2, (at + OFFSET, text, sizeof text));
    if (!bad) OK(cuMemUnmap(at, SIZE));
    OK(cuMemAddressFree(at, SIZE));
    OK(cuMemRelease(another));
    OK(cuMemRelease(allocation));
    tell(parent);
}
static void after_unmap(void) { share_with(unmapped); }

/* Uses what it exported and freed; in the right program, it allocates until the address is another's. */
static void after_free(void) {
    enum { MOST = 64 };
    CUdeviceptr all[MOST];
    int count = 0;
    start(0);
    CUdeviceptr p = allocate();
    export(p);
    OK(cuMemFree_v2(p));
    while (!bad && count < MOST && (all[count] = allocate()) != p) count++;
    CALL(cuMemcpyDtoH_v2, (text, bad || count < MOST ? p : all[0], sizeof text));
    for (int i = 0; !bad && i < MOST && i <= count; i++) OK(cuMemFree_v2(all[i]));
}

/* Reads what its owner has freed meanwhile; the right program has closed it, and reads memory of its own. */
static void read_after_owner(struct link parent) {
    start(0);
    own = allocate();
    CUdeviceptr p = open_memory(get_handle(parent));
    OK(cuMemcpyDtoH_v2(text, p, sizeof text));
    if (!bad) OK(cuIpcCloseMemHandle(p));
    tell(parent);
    wait_for(parent);
    CALL(cuMemcpyDtoH_v2, (text, bad ? p : own, sizeof text));
    if (bad) OK(cuIpcCloseMemHandle(p));
    OK(cuMemFree_v2(own));
}
static void after_owner(void) {
    struct link link = employ(read_after_owner);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    wait_for(link);
    OK(cuMemFree_v2(p));
    tell(link);
    ended(link);
}

/* Uses an imported pointer of a pool after its free. */
static void freed_pointer(CUdeviceptr p) {
    if (bad) {
        OK(cuMemFreeAsync(p, NULL));
        OK(cuCtxSynchronize());
    }
    CALL(cuMemcpyDtoH_v2, (text, p, sizeof text));
    if (!bad) OK(cuMemFreeAsync(p, NULL));
}
static void (*use_pointer)(CUdeviceptr p);
static void import_pointer(struct link parent) {
    CUdeviceptr p;
    PoolPointer pointer;
    Pool pool;
    start(0);
    int fd = receive_descriptor();
    OK(cuMemPoolImportFromShareableHandle(&pool, as_pointer(fd), DESCRIPTOR, 0));
    close(fd);
    get(parent, &pointer, sizeof pointer);
    OK(cuMemPoolImportPointer(&p, pool, &pointer));
    use_pointer(p);
    OK(cuCtxSynchronize());
    OK(cuMemPoolDestroy(pool));
    tell(parent);
}
static void share_pointer(void (*use)(CUdeviceptr)) {
    struct link link;
    Pool pool;
    PoolProperties wanted = {.type = PINNED, .handle_types = DESCRIPTOR, .location = {DEVICE, 0}};
    CUdeviceptr p;
    PoolPointer pointer;
    int fd;
    use_pointer = use;
    employ_with_socket(&link, import_pointer);
    start(0);
    OK(cuMemPoolCreate(&pool, &wanted));
    OK(cuMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0));
    OK(cuMemAllocFromPoolAsync(&p, SIZE, pool, NULL));
    OK(cuCtxSynchronize());
    send_descriptor(fd);
    close(fd);
    OK(cuMemPoolExportPointer(&pointer, p));
    put(link, &pointer, sizeof pointer);
    wait_for(link);
    ended(link);
    OK(cuMemFreeAsync(p, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemPoolDestroy(pool));
}

static void after_free_pool(void) { share_pointer(freed_pointer); }

/* Frees what is freed already. */
static void free_again(CUdeviceptr p) {
    if (bad) {
        OK(cuMemFreeAsync(p, NULL));
        OK(cuCtxSynchronize());
    }
    CALL(cuMemFreeAsync, (p, NULL));
}
static void after_free_again(void) { share_pointer(free_again); }

static void launched(CUdeviceptr p) {
    OK(cuCtxSynchronize());
    finish(p);
}

/* Two copies, of which the second one is from the closed memory, in the thread's own stream: the legacy one takes no batch. */
static void batch(struct link parent) {
    static CUresult (*cuMemcpyBatchAsync_v2)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, void *);
    *(void **)&cuMemcpyBatchAsync_v2 = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyBatchAsync_v2");
    CUdeviceptr p = closed(parent), to[] = {own, own + OFFSET}, from[] = {own + 2 * OFFSET, p};
    /* CUmemcpyAttributes: the order of the stream. */
    struct { int order; Location hints[2]; unsigned flags; } attributes = {.order = 1};
    size_t sizes[] = {64, 64}, first = 0;
    CALL(cuMemcpyBatchAsync_v2, (to, from, sizes, 2, &attributes, &first, 1, (void *)2));
    launched(p);
}
static void after_close_batch(void) { export_for(batch); }

static void batch_of_slices(struct link parent) {
    static CUresult (*cuMemcpy3DBatchAsync_v2)(size_t, Slices *, unsigned long long, void *);
    *(void **)&cuMemcpy3DBatchAsync_v2 = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpy3DBatchAsync_v2");
    CUdeviceptr p = closed(parent);
    Slices slices = {{1, p, 0, 0, {0, 0}}, {1, own, 0, 0, {0, 0}}, 64, 4, 2, 1, 0};
    CALL(cuMemcpy3DBatchAsync_v2, (1, &slices, 0, (void *)2));
    launched(p);
}
static void after_close_slices(void) { export_for(batch_of_slices); }

/* A device array of bytes, and memory that is closed. */
static void to_array(struct link parent) {
    static CUresult (*cuMemcpyDtoA_v2)(void *, size_t, CUdeviceptr, size_t), (*cuArrayCreate_v2)(void **, const void *);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *array;
    *(void **)&cuMemcpyDtoA_v2 = dlsym(driver, "cuMemcpyDtoA_v2");
    *(void **)&cuArrayCreate_v2 = dlsym(driver, "cuArrayCreate_v2");
    struct { size_t width, height; int format; unsigned channels; } bytes = {64, 0, 1, 1};
    CUdeviceptr p = closed(parent);
    OK(cuArrayCreate_v2(&array, &bytes));
    CALL(cuMemcpyDtoA_v2, (array, 0, p, 64));
    finish(p);
}
static void after_close_array(void) { export_for(to_array); }

/* The last bytes of what it opened, and as many behind it. */
static void read_beyond(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent)) + SIZE - sizeof text;
    CALL(cuMemcpyDtoH_v2, (text, bad ? p + sizeof text / 2 : p, sizeof text));
    OK(cuIpcCloseMemHandle(p + sizeof text - SIZE));
}
static void beyond_end(void) { export_for(read_beyond); }

/* The same offset in the buffer of the exporter, which is another allocation of its. */
static void read_behind(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent));
    CALL(cuMemcpyDtoH_v2, (text, bad ? p + SIZE + OFFSET : p + OFFSET, sizeof text));
    OK(cuIpcCloseMemHandle(p));
}
static void behind_end(void) { export_for(read_behind); }

/* Twice as many elements as there are. */
static void set_beyond(CUdeviceptr p) {
    CALL(cuMemsetD32_v2, (p, 7, bad ? SIZE / 2 : SIZE / 4));
    OK(cuMemFreeAsync(p, NULL));
}
static void beyond_pointer(void) { share_pointer(set_beyond); }

/* Of two copies, the second one goes beyond. */
static void batch_beyond(struct link parent) {
    static CUresult (*cuMemcpyBatchAsync_v2)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, void *);
    *(void **)&cuMemcpyBatchAsync_v2 = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyBatchAsync_v2");
    start(0);
    own = allocate();
    CUdeviceptr p = open_memory(get_handle(parent)), to[] = {own, own + OFFSET}, from[] = {p, p + SIZE - (bad ? 32 : 64)};
    struct { int order; Location hints[2]; unsigned flags; } attributes = {.order = 1};
    size_t sizes[] = {64, 64}, first = 0;
    CALL(cuMemcpyBatchAsync_v2, (to, from, sizes, 2, &attributes, &first, 1, (void *)2));
    OK(cuCtxSynchronize());
    OK(cuMemFree_v2(own));
    OK(cuIpcCloseMemHandle(p));
}
static void beyond_end_batch(void) { export_for(batch_beyond); }

/* Imports one allocation of a buffer that has two; the right program maps another one behind it. */
static void copy_over_both(struct link parent) {
    start(0);
    Allocation allocation = imported(receive_descriptor()), another = create(NONE);
    CUdeviceptr at = reserve(2 * SIZE);
    Access access = access_of(0);
    OK(cuMemMap(at, SIZE, 0, allocation, 0));
    if (!bad) OK(cuMemMap(at + SIZE, SIZE, 0, another, 0));
    OK(cuMemSetAccess(at, bad ? SIZE : 2 * SIZE, &access, 1));
    CALL(cuMemcpyHtoD_v2, (at + SIZE - sizeof text / 2, text, sizeof text));
    OK(cuMemUnmap(at, bad ? SIZE : 2 * SIZE));
    OK(cuMemAddressFree(at, 2 * SIZE));
    OK(cuMemRelease(another));
    OK(cuMemRelease(allocation));
    tell(parent);
}
static void beyond_mapping(void) { share_with(copy_over_both); }

/* Imports one allocation of a buffer that has two, and writes where the other one would be; the right program maps one there. */
static void copy_to_next(struct link parent) {
    start(0);
    Allocation allocation = imported(receive_descriptor()), another = create(NONE);
    CUdeviceptr at = reserve(2 * SIZE);
    Access access = access_of(0);
    OK(cuMemMap(at, SIZE, 0, allocation, 0));
    if (!bad) OK(cuMemMap(at + SIZE, SIZE, 0, another, 0));
    OK(cuMemSetAccess(at, bad ? SIZE : 2 * SIZE, &access, 1));
    CALL(cuMemcpyHtoD_v2, (at + SIZE + OFFSET, text, sizeof text));
    OK(cuMemUnmap(at, bad ? SIZE : 2 * SIZE));
    OK(cuMemAddressFree(at, 2 * SIZE));
    OK(cuMemRelease(another));
    OK(cuMemRelease(allocation));
    tell(parent);
}
static void behind_mapping(void) { share_with(copy_to_next); }

/* Maps what it imported, for the first device or for another one. */
static void copy_to_mapped(struct link parent, int device) {
    start(0);
    Allocation allocation = imported(receive_descriptor());
    CUdeviceptr at = reserve(SIZE);
    Access access = access_of(bad ? device : 0);
    OK(cuMemMap(at, SIZE, 0, allocation, 0));
    if (!bad || device) OK(cuMemSetAccess(at, SIZE, &access, 1));
    CALL(cuMemcpyHtoD_v2, (at + OFFSET, text, sizeof text));
    OK(cuMemUnmap(at, SIZE));
    OK(cuMemAddressFree(at, SIZE));
    OK(cuMemRelease(allocation));
    tell(parent);
}
static void copy_without_access(struct link parent) { copy_to_mapped(parent, 0); }
static void without_access(void) { share_with(copy_without_access); }
static void copy_from_elsewhere(struct link parent) { copy_to_mapped(parent, 1); }
static void access_elsewhere(void) { share_with(copy_from_elsewhere); }

/* Copies to another device what it imported, and names the context of that device for both. */
static void copy_with_a_context(struct link parent) {
    start(0);
    c1 = retain(1);
    CUresult (*cuMemcpyPeer)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
    *(void **)&cuMemcpyPeer = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyPeer");
    Allocation allocation = imported(receive_descriptor());
    CUdeviceptr at = reserve(SIZE);
    Access access = access_of(0);
    OK(cuMemMap(at, SIZE, 0, allocation, 0));
    OK(cuMemSetAccess(at, SIZE, &access, 1));
    OK(cuCtxSetCurrent(c1));
    CUdeviceptr there = allocate();
    OK(cuCtxSetCurrent(c0));
    CALL(cuMemcpyPeer, (there, c1, at + OFFSET, bad ? c1 : c0, sizeof text));
    OK(cuMemFree_v2(there));
    OK(cuMemUnmap(at, SIZE));
    OK(cuMemAddressFree(at, SIZE));
    OK(cuMemRelease(allocation));
    tell(parent);
}
static void access_by_context(void) { share_with(copy_with_a_context); }

/* Memory that cannot be exported, as allocators with a sleep mode have it: it sleeps, and the right program wakes it up. */
static CUdeviceptr sleeper(void) {
    start(0);
    Allocation allocation = create(NONE);
    CUdeviceptr at = map(allocation);
    OK(cuMemsetD32_v2(at, 7, SIZE / 4));
    /* cuMemUnmap does not wait for it. */
    OK(cuCtxSynchronize());
    OK(cuMemUnmap(at, SIZE));
    OK(cuMemRelease(allocation));
    return at;
}
static void wake(CUdeviceptr at, int flags) {
    Allocation allocation = create(NONE);
    Access access = {{DEVICE, 0}, flags};
    OK(cuMemMap(at, SIZE, 0, allocation, 0));
    OK(cuMemSetAccess(at, SIZE, &access, 1));
    OK(cuMemRelease(allocation));
}
static void own_asleep(void) {
    CUdeviceptr at = sleeper();
    if (!bad) wake(at, READ_WRITE);
    CALL(cuMemsetD32_v2, (at, 7, SIZE / 4));
    OK(cuCtxSynchronize());
    if (bad) OK(cuMemAddressFree(at, SIZE));
    else unmap(at);
}
/* Some addresses of what it unmapped as one are awake. */
static void own_in_part(void) {
    start(0);
    CUdeviceptr at = reserve(2 * SIZE);
    wake(at, READ_WRITE);
    wake(at + SIZE, READ_WRITE);
    OK(cuMemUnmap(at, 2 * SIZE));
    wake(at, READ_WRITE);
    OK(cuMemsetD32_v2(at, 7, SIZE / 4));
    if (!bad) wake(at + SIZE, READ_WRITE);
    CALL(cuMemcpyHtoD_v2, (at + SIZE + OFFSET, text, sizeof text));
    OK(cuMemUnmap(at, bad ? SIZE : 2 * SIZE));
    OK(cuMemAddressFree(at, 2 * SIZE));
}
static void own_addresses(void) {
    CUdeviceptr at = sleeper();
    if (bad) OK(cuMemAddressFree(at, SIZE));
    else wake(at, READ_WRITE);
    CALL(cuMemcpyDtoH_v2, (text, at, sizeof text));
    if (!bad) unmap(at);
}
static void only_reserved(void) {
    start(0);
    CUdeviceptr at = reserve(SIZE);
    if (!bad) wake(at, READ_WRITE);
    CALL(cuMemsetD32_v2, (at, 7, 16));
    if (bad) OK(cuMemAddressFree(at, SIZE));
    else unmap(at);
}
/* The pool has grown, and was mapped only in part. */
static void own_hole(void) {
    start(0);
    CUdeviceptr at = reserve(2 * SIZE);
    wake(at, READ_WRITE);
    if (!bad) wake(at + SIZE, READ_WRITE);
    CALL(cuMemcpyHtoD_v2, (at + SIZE - sizeof text / 2, text, sizeof text));
    OK(cuMemUnmap(at, bad ? SIZE : 2 * SIZE));
    OK(cuMemAddressFree(at, 2 * SIZE));
}
static void own_read_only(void) {
    start(0);
    CUdeviceptr at = reserve(SIZE);
    wake(at, bad ? 1 : READ_WRITE);
    OK(cuMemcpyDtoH_v2(text, at, sizeof text));
    CALL(cuMemcpyHtoD_v2, (at, text, sizeof text));
    unmap(at);
}
/* Copies by the other device, which only cuCtxEnablePeerAccess was told of. */
static void own_peer(void) {
    start(0);
    c1 = retain(1);
    CUdeviceptr at = reserve(SIZE);
    Access access = access_of(1);
    wake(at, READ_WRITE);
    if (!bad) OK(cuMemSetAccess(at, SIZE, &access, 1));
    OK(cuCtxSetCurrent(c1));
    OK(cuCtxEnablePeerAccess(c0, 0));
    CALL(cuMemcpyDtoH_v2, (text, at, sizeof text));
    unmap(at);
}

/* A kernel that does nothing with its parameters. */
static const char kernel_text[] = ".version 6.0\n.target sm_60\n.address_size 64\n"
                                  ".visible .entry add(.param .u64 a, .param .align 8 .b8 b[24], .param .u32 n)\n{\nret;\n}\n";
typedef void *Function, *Module, *Library, *Kernel;
static CUresult (*cuModuleLoadData)(Module *, const void *), (*cuModuleGetFunction)(Function *, Module, const char *);
static CUresult (*cuLaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static CUresult (*cuLaunchCooperativeKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **);
static CUresult (*cuModuleEnumerateFunctions)(Function *, unsigned, Module), (*cuKernelGetFunction)(Function *, Kernel);
static CUresult (*cuLibraryLoadData)(Library *, const void *, int *, void **, unsigned, int *, void **, unsigned);
static CUresult (*cuLibraryGetKernel)(Kernel *, Library, const char *), (*cuLibraryEnumerateKernels)(Kernel *, unsigned, Library);
/* CUlaunchConfig. */
typedef struct {
    unsigned grid[3], block[3], shared;
    void *stream, *attributes;
    unsigned count;
} Config;
static CUresult (*cuLaunchKernelEx)(const Config *, Function, void **, void **);

/* The parameters, of which the second one has the address. */
static struct {
    CUdeviceptr a;
    struct {
        unsigned long long first;
        CUdeviceptr inside;
        unsigned long long last;
    } b;
    int n;
} passed;
static void *parameters[] = {&passed.a, &passed.b, &passed.n};

/* Launches take a CUkernel as well, and there are several ways to get either. */
enum way { FUNCTION, ONE_OF_ALL, KERNEL, ONE_OF_ALL_KERNELS, OF_KERNEL };
static Function kernel_for(CUdeviceptr p, enum way way) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    Module module;
    Library library;
    Function all[4], function = NULL;
#define FIND(name) *(void **)&name = dlsym(driver, #name);
    FIND(cuModuleLoadData) FIND(cuModuleGetFunction) FIND(cuLaunchKernel) FIND(cuLaunchCooperativeKernel) FIND(cuLaunchKernelEx)
    FIND(cuModuleEnumerateFunctions) FIND(cuKernelGetFunction) FIND(cuLibraryLoadData) FIND(cuLibraryGetKernel) FIND(cuLibraryEnumerateKernels)
    OK(cuModuleLoadData(&module, kernel_text));
    OK(cuLibraryLoadData(&library, kernel_text, NULL, NULL, 0, NULL, NULL, 0));
    switch (way) {
    case FUNCTION: OK(cuModuleGetFunction(&function, module, "add")); break;
    case ONE_OF_ALL: OK(cuModuleEnumerateFunctions(all, 4, module)); break;
    case ONE_OF_ALL_KERNELS: OK(cuLibraryEnumerateKernels(all, 4, library)); break;
    case KERNEL: OK(cuLibraryGetKernel(&function, library, "add")); break;
    case OF_KERNEL: OK(cuLibraryGetKernel(&function, library, "add")), OK(cuKernelGetFunction(&function, function));
    }
    if (!function) function = all[0];
    passed.a = own, passed.b.inside = p + OFFSET, passed.n = 7;
    return function;
}

static void launch_as(struct link parent, enum way way) {
    CUdeviceptr p = closed(parent);
    Function kernel = kernel_for(p, way);
    CALL(cuLaunchKernel, (kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    launched(p);
}
static void launch(struct link parent) { launch_as(parent, FUNCTION); }
static void in_kernel(void) { export_for(launch); }

static void launch_buffer(struct link parent) {
    CUdeviceptr p = closed(parent);
    /* Without what the compiler adds at the end: drivers take another size for a mistake. */
    size_t size = offsetof(__typeof__(passed), n) + sizeof passed.n;
    void *extra[] = {(void *)1, &passed, (void *)2, &size, NULL};
    Function kernel = kernel_for(p, ONE_OF_ALL);
    CALL(cuLaunchKernel, (kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    launched(p);
}
static void in_kernel_buffer(void) { export_for(launch_buffer); }

static void launch_config(struct link parent) {
    CUdeviceptr p = closed(parent);
    Config config = {{1, 1, 1}, {1, 1, 1}, 0, NULL, NULL, 0};
    Function kernel = kernel_for(p, KERNEL);
    CALL(cuLaunchKernelEx, (&config, kernel, parameters, NULL));
    launched(p);
}
static void in_kernel_config(void) { export_for(launch_config); }

static void launch_enumerated(struct link parent) { launch_as(parent, ONE_OF_ALL_KERNELS); }
static void in_kernel_enumerated(void) { export_for(launch_enumerated); }

static void in_kernel_asleep(void) {
    CUdeviceptr at = sleeper();
    own = allocate();
    if (!bad) wake(at, READ_WRITE);
    Function kernel = kernel_for(at, FUNCTION);
    CALL(cuLaunchKernel, (kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    OK(cuCtxSynchronize());
    if (bad) OK(cuMemAddressFree(at, SIZE));
    else unmap(at);
    OK(cuMemFree_v2(own));
}

static void launch_cooperative(struct link parent) {
    CUdeviceptr p = closed(parent);
    Function kernel = kernel_for(p, OF_KERNEL);
    CALL(cuLaunchCooperativeKernel, (kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters));
    launched(p);
}
static void in_kernel_cooperative(void) { export_for(launch_cooperative); }

/* The importer writes what the owner reads; in the wrong program, elsewhere. */
static void write_there(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent));
    OK(cuMemcpyHtoD_v2(p + (bad ? 0 : OFFSET), text, sizeof text));
    tell(parent);
    wait_for(parent);
    OK(cuIpcCloseMemHandle(p));
    tell(parent);
}
static void unwritten(void) {
    struct link importer = employ(write_there);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(importer, export(p));
    wait_for(importer);
    CALL(cuMemcpyDtoH_v2, (text, p + OFFSET, sizeof text));
    tell(importer);
    wait_for(importer);
    ended(importer);
    OK(cuMemFree_v2(p));
}

/* Reads a buffer behind each handle. */
static void read_each(struct link parent) {
    start(0);
    for (int i = 0; i < 2; i++) {
        size_t offset;
        Handle handle = get_handle(parent);
        get(parent, &offset, sizeof offset);
        CUdeviceptr p = open_memory(handle);
        if (i) CALL(cuMemcpyDtoH_v2, (text, p + offset, sizeof text));
        else OK(cuMemcpyDtoH_v2(text, p + offset, sizeof text));
        OK(cuIpcCloseMemHandle(p));
    }
    tell(parent);
}
/* In the wrong program, an allocator has given the first buffer to the second. */
static void one_for_several(void) {
    struct link importer = employ(read_each);
    start(0);
    CUdeviceptr p = allocate();
    size_t offsets[2] = {0, bad ? 0 : OFFSET};
    Handle handles[2] = {export(p), export(p)};
    for (int i = 0; i < 2; i++) {
        put_handle(importer, handles[i]);
        put(importer, &offsets[i], sizeof *offsets);
    }
    wait_for(importer);
    ended(importer);
    OK(cuMemFree_v2(p));
}

SCENES({"use-after-close", after_close}, {"use-after-close/async", after_close_async},
       {"use-after-close/fill", after_close_fill}, {"use-after-close/rows", after_close_rows},
       {"use-after-close/copy", after_close_copy}, {"use-after-close/batch", after_close_batch}, {"use-after-close/context", after_context},
       {"use-after-close/array", after_close_array}, {"use-after-close/slices", after_close_slices}, {"use-beyond-end", beyond_end}, {"use-beyond-end/pool", beyond_pointer},
       {"use-beyond-end/batch", beyond_end_batch}, {"use-beyond-end/mapping", beyond_mapping}, {"use-beyond-end/behind", behind_end}, {"use-beyond-end/next", behind_mapping},
       {"use-without-access", without_access}, {"use-without-access/elsewhere", access_elsewhere},
       {"use-without-access/context", access_by_context},
       {"use-after-unmap", after_unmap}, {"use-after-unmap/own", own_asleep}, {"use-after-unmap/part", own_in_part}, {"use-after-unmap/addresses", own_addresses},
       {"use-before-map", only_reserved}, {"use-beyond-end/own", own_hole}, {"use-without-access/read-only", own_read_only},
       {"use-without-access/own", own_peer}, {"use-in-kernel/asleep", in_kernel_asleep},
       {"use-after-free", after_free}, {"use-after-free/pool", after_free_pool}, {"use-after-free/again", after_free_again}, {"use-after-owner-freed", after_owner},
       {"use-in-kernel", in_kernel}, {"use-unwritten", unwritten}, {"ipc-one-for-several", one_for_several}, {"use-in-kernel/buffer", in_kernel_buffer}, {"use-in-kernel/config", in_kernel_config},
       {"use-in-kernel/cooperative", in_kernel_cooperative}, {"use-in-kernel/enumerated", in_kernel_enumerated})
