// Peer access: what devices say of each other, and switching access on and off.
#include "driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void before_initialisation(void) {
    int v = -7;
    CUdeviceptr p = 0;
    CUevent event = NULL;
    Handle handle;
    memset(&handle, 0, sizeof handle);
    unsigned capability = 0;
    int operation = 0;
    CASE("noinit.canaccess", cuDeviceCanAccessPeer(&v, 0, 1), "\"v\":%d", v);
    CASE("noinit.canaccess.null", cuDeviceCanAccessPeer(NULL, 0, 1), 0);
    CASE("noinit.p2pattr", cuDeviceGetP2PAttribute(&v, 2, 0, 1), 0);
    CASE("noinit.p2pattr.null", cuDeviceGetP2PAttribute(NULL, 2, 0, 1), 0);
    CASE("noinit.p2patomic", cuDeviceGetP2PAtomicCapabilities(&capability, &operation, 1, 0, 1), 0);
    CASE("noinit.enable", cuCtxEnablePeerAccess(NULL, 0), 0);
    CASE("noinit.disable", cuCtxDisablePeerAccess(NULL), 0);
    CASE("noinit.ipcget", cuIpcGetMemHandle(&handle, p), 0);
    CASE("noinit.ipcget.pointer", cuIpcGetMemHandle(&handle, 0x1000), 0);
    CASE("noinit.ipcopen", cuIpcOpenMemHandle_v2(&p, handle, 1), 0);
    CASE("noinit.ipcopen.null", cuIpcOpenMemHandle_v2(NULL, handle, 0), 0);
    CASE("noinit.ipcclose", cuIpcCloseMemHandle(p), 0);
    CASE("noinit.ipcgetevent", cuIpcGetEventHandle(&handle, event), 0);
    CASE("noinit.ipcopenevent", cuIpcOpenEventHandle(&event, handle), 0);
    CASE("noinit.ipcget.null", cuIpcGetMemHandle(NULL, p), 0);
    CUcontext context;
    CASE("noinit.getcurrent", cuCtxGetCurrent(&context), 0);
    CASE("noinit.count", cuDeviceGetCount(&v), 0);
    CASE("noinit.alloc", cuMemAlloc_v2(&p, 16), 0);
    CASE("noinit.version", cuDriverGetVersion(&v), 0);
    CASE("init.flags", cuInit(1), 0);
}

static void questions(void) {
    start();
    static const int some[] = {0, 1, -1, 99};
    char id[64];
    int v;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            snprintf(id, sizeof id, "canaccess.%d.%d", some[i], some[j]);
            v = -7;
            CUresult result = cuDeviceCanAccessPeer(&v, some[i], some[j]);
            report(id, result, "\"v\":%d", v);
        }
    CASE("canaccess.null.0.1", cuDeviceCanAccessPeer(NULL, 0, 1), 0);
    CASE("canaccess.null.0.99", cuDeviceCanAccessPeer(NULL, 0, 99), 0);
    CASE("canaccess.null.0.0", cuDeviceCanAccessPeer(NULL, 0, 0), 0);
    for (int attribute = 0; attribute < 8; attribute++)
        for (int to = 1; to >= 0; to--) {
            snprintf(id, sizeof id, "p2pattr.%d.0.%d", attribute, to);
            v = -7;
            CUresult result = cuDeviceGetP2PAttribute(&v, attribute, 0, to);
            report(id, result, "\"v\":%d", v);
        }
    CASE("p2pattr.2.0.99", cuDeviceGetP2PAttribute(&v, 2, 0, 99), 0);
    CASE("p2pattr.2.-1.0", cuDeviceGetP2PAttribute(&v, 2, -1, 0), 0);
    CASE("p2pattr.null.0.1", cuDeviceGetP2PAttribute(NULL, 2, 0, 1), 0);
    CASE("p2pattr.null.0.0", cuDeviceGetP2PAttribute(NULL, 2, 0, 0), 0);
    CASE("p2pattr.null.0.99", cuDeviceGetP2PAttribute(NULL, 2, 0, 99), 0);
    CASE("p2pattr.100.0.0", cuDeviceGetP2PAttribute(&v, 100, 0, 0), 0);
    CASE("p2pattr.100.0.99", cuDeviceGetP2PAttribute(&v, 100, 0, 99), 0);
    CASE("p2pattr.-1.0.1", cuDeviceGetP2PAttribute(&v, -1, 0, 1), 0);
    CASE("p2pattr.2.99.-1", cuDeviceGetP2PAttribute(&v, 2, 99, -1), 0);
    CASE("p2pattr.2.1.0", cuDeviceGetP2PAttribute(&v, 2, 1, 0), "\"v\":%d", v);
}

static void atomics(void) {
    start();
    unsigned got[32];
    int ask[32];
    char id[64];
    for (int i = 0; i < 32; i++)
        ask[i] = i;
    for (int i = 0; i < 14; i++) {
        got[0] = 0xdead;
        snprintf(id, sizeof id, "p2patomic.op%d", i);
        CUresult result = cuDeviceGetP2PAtomicCapabilities(got, ask + i, 1, 0, 1);
        report(id, result, "\"v\":%u", got[0]);
    }
    got[0] = got[1] = 7;
    CASE("p2patomic.all12", cuDeviceGetP2PAtomicCapabilities(got, ask, 12, 0, 1), "\"v\":[%u,%u,%u]", got[0], got[1],
         got[11]);
    got[0] = 7;
    CASE("p2patomic.13withbad", cuDeviceGetP2PAtomicCapabilities(got, ask, 13, 0, 1), "\"v0\":%u", got[0]);
    got[0] = got[13] = 7;
    CASE("p2patomic.14", cuDeviceGetP2PAtomicCapabilities(got, ask, 14, 0, 1), "\"v\":[%u,%u]", got[0], got[13]);
    CASE("p2patomic.count0", cuDeviceGetP2PAtomicCapabilities(got, ask, 0, 0, 1), 0);
    CASE("p2patomic.nullcap", cuDeviceGetP2PAtomicCapabilities(NULL, ask, 1, 0, 1), 0);
    CASE("p2patomic.nullops", cuDeviceGetP2PAtomicCapabilities(got, NULL, 1, 0, 1), 0);
    CASE("p2patomic.same", cuDeviceGetP2PAtomicCapabilities(got, ask, 1, 0, 0), 0);
    CASE("p2patomic.dev99", cuDeviceGetP2PAtomicCapabilities(got, ask, 1, 0, 99), 0);
    CASE("p2patomic.same.count0", cuDeviceGetP2PAtomicCapabilities(got, ask, 0, 0, 0), 0);
    CASE("p2patomic.nulls.same", cuDeviceGetP2PAtomicCapabilities(NULL, NULL, 1, 0, 0), 0);
    ask[0] = 99;
    CASE("p2patomic.bad.same", cuDeviceGetP2PAtomicCapabilities(got, ask, 1, 0, 0), 0);
    ask[0] = ask[1] = 0;
    CASE("p2patomic.dup", cuDeviceGetP2PAtomicCapabilities(got, ask, 2, 0, 1), "\"v\":[%u,%u]", got[0], got[1]);
}

static void switching(void) {
    start();
    if (devices < 2) return;
    cuCtxSetCurrent(NULL);
    CASE("enable.nocurrent.null", cuCtxEnablePeerAccess(NULL, 0), 0);
    CASE("enable.nocurrent.peer", cuCtxEnablePeerAccess(c1, 0), 0);
    CASE("enable.nocurrent.flags1", cuCtxEnablePeerAccess(c1, 1), 0);
    CASE("disable.nocurrent", cuCtxDisablePeerAccess(c1), 0);
    cuCtxSetCurrent(c0);
    CASE("enable.null", cuCtxEnablePeerAccess(NULL, 0), 0);
    CASE("enable.null.flags1", cuCtxEnablePeerAccess(NULL, 1), 0);
    CASE("enable.self", cuCtxEnablePeerAccess(c0, 0), 0);
    CASE("enable.self.flags1", cuCtxEnablePeerAccess(c0, 1), 0);
    CASE("enable.flags1", cuCtxEnablePeerAccess(c1, 1), 0);
    CASE("enable.flagsmax", cuCtxEnablePeerAccess(c1, 0xffffffffu), 0);
    CASE("disable.before", cuCtxDisablePeerAccess(c1), 0);
    CASE("disable.null", cuCtxDisablePeerAccess(NULL), 0);
    CASE("disable.self", cuCtxDisablePeerAccess(c0), 0);
    CASE("enable.first", cuCtxEnablePeerAccess(c1, 0), 0);
    CASE("enable.twice", cuCtxEnablePeerAccess(c1, 0), 0);
    CASE("enable.twice.flags1", cuCtxEnablePeerAccess(c1, 1), 0);
    cuCtxSetCurrent(c1);
    CASE("disable.reverse.notenabled", cuCtxDisablePeerAccess(c0), 0);
    CASE("enable.reverse", cuCtxEnablePeerAccess(c0, 0), 0);
    CASE("disable.reverse", cuCtxDisablePeerAccess(c0), 0);
    cuCtxSetCurrent(c0);
    CASE("disable.first", cuCtxDisablePeerAccess(c1), 0);
    CASE("disable.twice", cuCtxDisablePeerAccess(c1), 0);
    CASE("enable.again", cuCtxEnablePeerAccess(c1, 0), 0);
    CUcontext second = NULL, other = NULL, again = NULL;
    CASE("ctxcreate.second0", cuCtxCreate_v4(&second, NULL, 0, 0), 0);
    cuCtxSetCurrent(c0);
    CASE("enable.samedevice.otherctx", cuCtxEnablePeerAccess(second, 0), 0);
    CASE("disable.samedevice.otherctx", cuCtxDisablePeerAccess(second), 0);
    cuCtxSetCurrent(second);
    CASE("enable.fromsecond", cuCtxEnablePeerAccess(c1, 0), 0);
    CASE("disable.fromsecond", cuCtxDisablePeerAccess(c1), 0);
    cuCtxSetCurrent(c0);
    cuCtxCreate_v4(&other, NULL, 0, 1);
    cuCtxSetCurrent(c0);
    CASE("enable.created1", cuCtxEnablePeerAccess(other, 0), 0);
    CASE("destroy.peer", cuCtxDestroy_v2(other), 0);
    CASE("disable.destroyedpeer", cuCtxDisablePeerAccess(other), 0);
    CASE("enable.destroyedpeer", cuCtxEnablePeerAccess(other, 0), 0);
    CASE("enable.destroyedpeer.flags1", cuCtxEnablePeerAccess(other, 1), 0);
    cuDevicePrimaryCtxRelease_v2(1);
    CASE("enable.afterprimaryrelease", cuCtxEnablePeerAccess(c1, 0), 0);
    CASE("disable.afterprimaryrelease", cuCtxDisablePeerAccess(c1), 0);
    cuDevicePrimaryCtxRetain(&again, 1);
    CASE("primary.sameaddr", 0, "\"v\":%d", again == c1);
    CASE("enable.afterreretain", cuCtxEnablePeerAccess(again, 0), 0);
    CASE("primary.reset", cuDevicePrimaryCtxReset_v2(1), 0);
    CASE("enable.afterreset", cuCtxEnablePeerAccess(again, 0), 0);
    CASE("disable.afterreset", cuCtxDisablePeerAccess(again), 0);
    CASE("primary.release.afterreset", cuDevicePrimaryCtxRelease_v2(1), 0);
    CASE("primary.release.again", cuDevicePrimaryCtxRelease_v2(1), 0);
}

static void wild_enable(void) {
    start();
    cuCtxSetCurrent(c0);
    CASE("enable.bogus", cuCtxEnablePeerAccess((CUcontext)0x1234, 0), 0);
}
static void wild_disable(void) {
    start();
    cuCtxSetCurrent(c0);
    CASE("disable.bogus", cuCtxDisablePeerAccess((CUcontext)0x1234), 0);
}
static void readable_context(void) {
    start();
    cuCtxSetCurrent(c0);
    void *memory = calloc(1, 65536);
    CASE("enable.bogusreadable", cuCtxEnablePeerAccess(memory, 0), 0);
    CASE("disable.bogusreadable", cuCtxDisablePeerAccess(memory), 0);
}

static void forked_child(void) {
    int v;
    CUdeviceptr p;
    Handle handle;
    memset(&handle, 0, sizeof handle);
    CASE("forkedafterinit.canaccess", cuDeviceCanAccessPeer(&v, 0, 1), 0);
    CASE("forkedafterinit.ipcopen", cuIpcOpenMemHandle_v2(&p, handle, 1), 0);
    CASE("forkedafterinit.ctxsetcurrent", cuCtxSetCurrent(c0), 0);
    CASE("forkedafterinit.init", cuInit(0), 0);
    CASE("forkedafterinit.count", cuDeviceGetCount(&v), 0);
    CASE("forkedafterinit.version", cuDriverGetVersion(&v), 0);
}
static void after_fork(void) {
    start();
    cuCtxSetCurrent(c0);
    in_child("afterfork.child", forked_child);
}

static void many_contexts(void) {
    start();
    cuCtxSetCurrent(c0);
    CUcontext context;
    CUresult result = 0;
    int n = 0;
    for (; n < 40; n++) {
        if ((result = cuCtxCreate_v4(&context, NULL, 0, 1))) break;
        cuCtxSetCurrent(c0);
        if ((result = cuCtxEnablePeerAccess(context, 0))) break;
    }
    report("enable.manycontexts", result, "\"n\":%d", n);
}

void peer_groups(void) {
    in_child("noinit", before_initialisation);
    in_child("queries", questions);
    in_child("atomics", atomics);
    in_child("enable", switching);
    in_child("bogusctx", wild_enable);
    in_child("bogusctx2", readable_context);
    in_child("bogusctx3", wild_disable);
    in_child("afterfork", after_fork);
    in_child("toomany", many_contexts);
}
