// Contexts: the stack, creation and destruction, primary contexts, limits.
#include "driver.h"
#include <pthread.h>
#include <stdio.h>

static void the_stack(void) {
    start();
    CUcontext context = (CUcontext)7, a, b;
    CUdevice device = -7;
    unsigned flags;
    CASE("stack.getcurrent.none", cuCtxGetCurrent(&context), "\"null\":%d", !context);
    CASE("stack.getcurrent.null", cuCtxGetCurrent(NULL), 0);
    CASE("stack.getdevice.none", cuCtxGetDevice(&device), 0);
    CASE("stack.sync.none", cuCtxSynchronize(), 0);
    CASE("stack.pop.empty", cuCtxPopCurrent_v2(&context), 0);
    CASE("stack.push.null", cuCtxPushCurrent_v2(NULL), 0);
    CASE("stack.flags.none", cuCtxGetFlags(&flags), 0);
    CASE("stack.set.null", cuCtxSetCurrent(NULL), 0);
    CASE("stack.create", cuCtxCreate_v4(&a, NULL, 0, 0), 0);
    cuCtxGetCurrent(&context);
    CASE("stack.create.current", 0, "\"v\":%d", context == a);
    CASE("stack.push", cuCtxPushCurrent_v2(c0), 0);
    CASE("stack.pop", cuCtxPopCurrent_v2(&context), "\"v\":%d", context == c0);
    CASE("stack.pop.nullout", cuCtxPopCurrent_v2(NULL), 0);
    cuCtxGetCurrent(&context);
    CASE("stack.pop.empties", 0, "\"null\":%d", !context);
    cuCtxSetCurrent(a);
    cuCtxPushCurrent_v2(c0);
    CASE("destroy.notcurrent", cuCtxDestroy_v2(a), 0);
    cuCtxGetCurrent(&context);
    CASE("destroy.notcurrent.current", 0, "\"is_c0\":%d", context == c0);
    CASE("stack.pop.destroyedbelow", cuCtxPopCurrent_v2(&context), 0);
    CASE("stack.getcurrent.destroyed", cuCtxGetCurrent(&context), "\"is_a\":%d", context == a);
    CASE("stack.getdevice.destroyed", cuCtxGetDevice(&device), 0);
    CASE("stack.sync.destroyed", cuCtxSynchronize(), 0);
    CASE("stack.pop.destroyed", cuCtxPopCurrent_v2(&context), "\"is_a\":%d", context == a);
    cuCtxSetCurrent(NULL);
    cuCtxCreate_v4(&b, NULL, 0, 0);
    CASE("destroy.current", cuCtxDestroy_v2(b), 0);
    CASE("destroy.current.current", cuCtxGetCurrent(&context), "\"null\":%d", !context);
    CASE("destroy.null", cuCtxDestroy_v2(NULL), 0);
    CASE("destroy.primary", cuCtxDestroy_v2(c0), 0);
    CASE("destroy.primary.alive", cuCtxSetCurrent(c0), 0);
}

static void destroyed_current(void) {
    start();
    CUcontext a = new_context(0);
    cuCtxPushCurrent_v2(c0);
    cuCtxDestroy_v2(a);
    CASE("stack.set.destroyed", cuCtxSetCurrent(a), 0);
}

static void destroyed_pushed(void) {
    start();
    CUcontext a = new_context(0);
    cuCtxPushCurrent_v2(c0);
    cuCtxDestroy_v2(a);
    CASE("stack.push.destroyed", cuCtxPushCurrent_v2(a), 0);
}

static void twice(void) {
    start();
    CUcontext a = new_context(0);
    cuCtxDestroy_v2(a);
    CASE("destroy.twice", cuCtxDestroy_v2(a), 0);
}

static void *in_thread(void *context) {
    CUcontext current;
    CUdevice device;
    CASE("thread.getcurrent", cuCtxGetCurrent(&current), "\"null\":%d", !current);
    CASE("thread.alloc.none", cuMemAlloc_v2(&(CUdeviceptr){0}, 16), 0);
    cuCtxSetCurrent(context);
    CASE("thread.getdevice", cuCtxGetDevice(&device), "\"v\":%d", device);
    CASE("thread.destroy", cuCtxDestroy_v2(context), 0);
    return NULL;
}

static void threads(void) {
    start();
    CUcontext a = new_context(0);
    CUdevice device;
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, a);
    pthread_join(thread, NULL);
    CASE("thread.afterwards.getdevice", cuCtxGetDevice(&device), 0);
    CASE("thread.afterwards.alloc", cuMemAlloc_v2(&(CUdeviceptr){0}, 16), 0);
}

static void creation(void) {
    start();
    CUcontext a = NULL;
    unsigned flags = 77, version = 0;
    unsigned long long id = 0, other = 0;
    static const unsigned some[] = {0, 1, 2, 3, 4, 5, 8, 0x10, 0x80, 0xff, 0x100};
    char name[64];
    for (unsigned i = 0; i < sizeof some / sizeof *some; i++) {
        snprintf(name, sizeof name, "create.flags.%u", some[i]);
        CUresult result = cuCtxCreate_v4(&a, NULL, some[i], 0);
        flags = 77;
        if (!result) cuCtxGetFlags(&flags);
        report(name, result, "\"flags\":%u", flags);
        if (!result) cuCtxDestroy_v2(a);
    }
    CASE("create.null", cuCtxCreate_v4(NULL, NULL, 0, 0), 0);
    CASE("create.99", cuCtxCreate_v4(&a, NULL, 0, 99), 0);
    CASE("create.v2", cuCtxCreate_v2(&a, 0, 0), 0);
    CASE("apiversion", cuCtxGetApiVersion(a, &version), "\"v\":%u", version);
    CASE("apiversion.primary", cuCtxGetApiVersion(c0, &version), "\"v\":%u", version);
    CASE("apiversion.null", cuCtxGetApiVersion(NULL, &version), "\"v\":%u", version);
    CASE("id", cuCtxGetId(a, &id), 0);
    CASE("id.current", cuCtxGetId(NULL, &other), "\"same\":%d", id == other);
    CASE("id.null", cuCtxGetId(a, NULL), 0);
    CASE("attach", cuCtxAttach(&a, 0), 0);
    CASE("attach.flags", cuCtxAttach(&a, 1), 0);
    CASE("detach.1", cuCtxDetach(a), 0);
    CASE("detach.2", cuCtxDetach(a), 0);
    CASE("setflags", cuCtxSetFlags(4), 0);
    int least = 9, greatest = 9;
    cuCtxSetCurrent(c0);
    CASE("priorities", cuCtxGetStreamPriorityRange(&least, &greatest), "\"v\":[%d,%d]", least, greatest);
    CASE("priorities.null", cuCtxGetStreamPriorityRange(NULL, NULL), 0);
    CASE("setflags.primary", cuCtxSetFlags(4), 0);
    CASE("getflags.primary", cuCtxGetFlags(&flags), "\"v\":%u", flags);
    CASE("setflags.bad", cuCtxSetFlags(3), 0);
    int config = 9;
    CASE("cacheconfig", cuCtxGetCacheConfig(&config), "\"v\":%d", config);
    CASE("cacheconfig.set", cuCtxSetCacheConfig(1), 0);
    CASE("cacheconfig.get", cuCtxGetCacheConfig(&config), "\"v\":%d", config);
    CASE("cacheconfig.bad", cuCtxSetCacheConfig(9), 0);
    CASE("sharedconfig", cuCtxGetSharedMemConfig(&config), "\"v\":%d", config);
}

static void limits(void) {
    start();
    cuCtxSetCurrent(c0);
    char id[64];
    for (int limit = -1; limit < 12; limit++) {
        size_t value = 77;
        CUresult result = cuCtxGetLimit(&value, limit);
        snprintf(id, sizeof id, "limit.get.%d", limit);
        report(id, result, "\"v\":%zu", value);
    }
    CASE("limit.get.null", cuCtxGetLimit(NULL, 0), 0);
    CASE("limit.set.stack", cuCtxSetLimit(0, 2048), 0);
    size_t value = 0;
    CASE("limit.get.stack", cuCtxGetLimit(&value, 0), "\"v\":%zu", value);
    CASE("limit.set.heap", cuCtxSetLimit(2, 16 << 20), 0);
    CASE("limit.set.bad", cuCtxSetLimit(99, 1), 0);
    cuCtxSetCurrent(NULL);
    CASE("limit.get.none", cuCtxGetLimit(&value, 0), 0);
}

static void primary(void) {
    cuInit(0);
    unsigned flags = 77;
    int active = 77;
    CUcontext a = NULL, b = NULL;
    CASE("primary.state.first", cuDevicePrimaryCtxGetState(0, &flags, &active), "\"v\":[%u,%d]", flags, active);
    CASE("primary.state.null", cuDevicePrimaryCtxGetState(0, NULL, &active), 0);
    CASE("primary.release.unretained", cuDevicePrimaryCtxRelease_v2(0), 0);
    CASE("primary.reset.unretained", cuDevicePrimaryCtxReset_v2(0), 0);
    CASE("primary.setflags", cuDevicePrimaryCtxSetFlags_v2(0, 4), 0);
    CASE("primary.setflags.bad", cuDevicePrimaryCtxSetFlags_v2(0, 3), 0);
    CASE("primary.retain.null", cuDevicePrimaryCtxRetain(NULL, 0), 0);
    CASE("primary.retain.99", cuDevicePrimaryCtxRetain(&a, 99), 0);
    CASE("primary.retain", cuDevicePrimaryCtxRetain(&a, 0), 0);
    CASE("primary.retain.again", cuDevicePrimaryCtxRetain(&b, 0), "\"same\":%d", a == b);
    CASE("primary.state", cuDevicePrimaryCtxGetState(0, &flags, &active), "\"v\":[%u,%d]", flags, active);
    CASE("primary.setflags.active", cuDevicePrimaryCtxSetFlags_v2(0, 1), 0);
    cuCtxSetCurrent(a);
    CASE("primary.getflags.active", cuCtxGetFlags(&flags), "\"v\":%u", flags);
    CASE("primary.release", cuDevicePrimaryCtxRelease_v2(0), 0);
    cuDevicePrimaryCtxGetState(0, &flags, &active);
    CASE("primary.state.released1", 0, "\"active\":%d", active);
    CASE("primary.release.last", cuDevicePrimaryCtxRelease_v2(0), 0);
    CASE("primary.state.released", cuDevicePrimaryCtxGetState(0, &flags, &active), "\"v\":[%u,%d]", flags, active);
    CASE("primary.release.toomuch", cuDevicePrimaryCtxRelease_v2(0), 0);
    CUdevice device;
    CASE("primary.getdevice.released", cuCtxGetDevice(&device), 0);
    CASE("primary.set.released", cuCtxSetCurrent(a), 0);
    CASE("primary.push.released", cuCtxPushCurrent_v2(a), 0);
    CASE("primary.retain.anew", cuDevicePrimaryCtxRetain(&b, 0), "\"same\":%d", a == b);
    CASE("primary.getdevice.anew", cuCtxGetDevice(&device), 0);
    cuCtxSetCurrent(b);
    CUdeviceptr p = 0;
    cuMemAlloc_v2(&p, 4096);
    CASE("primary.reset.inuse", cuDevicePrimaryCtxReset_v2(0), 0);
    cuDevicePrimaryCtxGetState(0, &flags, &active);
    CASE("primary.state.reset", 0, "\"active\":%d", active);
    CASE("primary.free.reset", cuMemFree_v2(p), 0);
    CASE("primary.retain.reset", cuDevicePrimaryCtxRetain(&a, 0), "\"same\":%d", a == b);
    CASE("primary.free.retained", cuMemFree_v2(p), 0);
    CASE("primary.alloc.retained", cuMemAlloc_v2(&p, 4096), 0);
}

void context_groups(void) {
    in_child("stack", the_stack);
    in_child("destroyedcurrent", destroyed_current);
    in_child("destroyedpushed", destroyed_pushed);
    in_child("destroytwice", twice);
    in_child("threads", threads);
    in_child("creation", creation);
    in_child("limits", limits);
    in_child("primary", primary);
}
