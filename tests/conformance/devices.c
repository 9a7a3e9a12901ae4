// Devices: what they say of themselves. What differs from machine to machine is a note.
#include "driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void basics(void) {
    start();
    int v = -7;
    CUdevice device = -7;
    char name[256] = "";
    size_t bytes = 0;
    CASE("driver.version", cuDriverGetVersion(&v), "\"v\":%d", v);
    CASE("driver.version.null", cuDriverGetVersion(NULL), 0);
    CASE("device.count.null", cuDeviceGetCount(NULL), 0);
    CASE("device.get.-1", cuDeviceGet(&device, -1), "\"v\":%d", device);
    CASE("device.get.99", cuDeviceGet(&device, 99), "\"v\":%d", device);
    CASE("device.get.0", cuDeviceGet(&device, 0), "\"v\":%d", device);
    CASE("device.get.null", cuDeviceGet(NULL, 0), 0);
    CASE("device.name", cuDeviceGetName(name, sizeof name, 0), "\"v\":\"%s\"", name);
    CASE("device.name.short", cuDeviceGetName(name, 4, 0), "\"v\":\"%s\"", name);
    CASE("device.name.99", cuDeviceGetName(name, 10, 99), 0);
    CASE("device.memory", cuDeviceTotalMem_v2(&bytes, 0), 0);
    note("{\"memory\":%zu}", bytes);
    CASE("device.memory.null", cuDeviceTotalMem_v2(NULL, 0), 0);
    CASE("device.uuid.null", cuDeviceGetUuid_v2(NULL, 0), 0);
    unsigned mask;
    CASE("device.luid", cuDeviceGetLuid(name, &mask, 0), 0);
    CASE("device.affinity.0", cuDeviceGetExecAffinitySupport(&v, 0, 0), "\"v\":%d", v);
    CASE("device.affinity.9", cuDeviceGetExecAffinitySupport(&v, 9, 0), 0);
    CASE("device.pci.short", cuDeviceGetPCIBusId(name, 5, 0), 0);
    CASE("device.pci.12", cuDeviceGetPCIBusId(name, 12, 0), 0);
    CASE("device.pci.13", cuDeviceGetPCIBusId(name, 13, 0), "\"length\":%zu", strlen(name));
    note("{\"pci\":\"%s\"}", name);
    CASE("device.bypci", cuDeviceGetByPCIBusId(&device, name), "\"v\":%d", device);
    CASE("device.bypci.nodomain", cuDeviceGetByPCIBusId(&device, name + 5), "\"v\":%d", device);
    CASE("device.bypci.garbage", cuDeviceGetByPCIBusId(&device, "garbage"), 0);
    CASE("device.bypci.unknown", cuDeviceGetByPCIBusId(&device, "0fff:0e:1d.0"), 0);
    CUmemoryPool a, b;
    CASE("device.pool.default", cuDeviceGetDefaultMemPool(&a, 0), 0);
    CASE("device.pool", cuDeviceGetMemPool(&b, 0), "\"same\":%d", a == b);
    for (int attribute = 1; attribute <= 9; attribute++) {
        char id[64];
        snprintf(id, sizeof id, "pool.attribute.%d", attribute);
        unsigned long long wide = 0;
        CUresult result = cuMemPoolGetAttribute(a, attribute, &wide);
        report(id, result, "\"v\":%llu", wide);
    }
}

// A driver may take these lengths as unsigned, and write the whole name: "NVIDIA H100 80GB HBM3" has 22 bytes.
static void name_empty(void) {
    start();
    char name[256];
    CASE("device.name.len0", cuDeviceGetName(name, 0, 0), 0);
}
static void name_negative(void) {
    start();
    char name[256];
    CASE("device.name.len-1", cuDeviceGetName(name, -1, 0), 0);
}
static void name_null(void) {
    start();
    CASE("device.name.null", cuDeviceGetName(NULL, 10, 0), 0);
}
static void pci_null(void) {
    start();
    CUdevice device;
    CASE("device.bypci.null", cuDeviceGetByPCIBusId(&device, NULL), 0);
}
static void code_null(void) {
    CASE("errorname.null", cuGetErrorName(0, NULL), 0);
}
static void export_table(void) {
    const void *table = (void *)5;
    CUuuid unknown = {{1, 2, 3}};
    CASE("exporttable.unknown", cuGetExportTable(&table, &unknown), "\"null\":%d", !table);
}

static void attributes(void) {
    start();
    int v = -7;
    CASE("attribute.null", cuDeviceGetAttribute(NULL, 1, 0), 0);
    CASE("attribute.99", cuDeviceGetAttribute(&v, 1, 99), 0);
    CASE("attribute.null.99", cuDeviceGetAttribute(NULL, 1, 99), 0);
    CASE("attribute.bad.99", cuDeviceGetAttribute(&v, 0, 99), 0);
    for (int attribute = 0; attribute < 165; attribute++) {
        char id[64];
        v = -7;
        CUresult result = cuDeviceGetAttribute(&v, attribute, 0);
        snprintf(id, sizeof id, "attribute.%d.result", attribute);
        report(id, result, 0);
        note("{\"attribute\":%d,\"v\":%d}", attribute, v);
    }
}

static void codes(void) {
    char id[64];
    const char *s = "x";
    for (int code = -1; code < 1003; code++) {
        CUresult result = cuGetErrorName(code, &s);
        if (result && code % 100 != 99) continue; // some of the numbers that are no code
        snprintf(id, sizeof id, "errorname.%d", code);
        report(id, result, "\"v\":\"%s\"", s ? s : "null");
        result = cuGetErrorString(code, &s);
        snprintf(id, sizeof id, "errorstring.%d", code);
        report(id, result, "\"v\":\"%s\"", s ? s : "null");
    }
}

static void visible(const char *list, const char *id) {
    setenv("CUDA_VISIBLE_DEVICES", list, 1);
    CUresult result = cuInit(0);
    int count = -1;
    cuDeviceGetCount(&count);
    report(id, result, "\"count\":%d", count);
}
static void visible_empty(void) { visible("", "visible.empty"); }
static void visible_minus(void) { visible("-1", "visible.minus"); }
static void visible_one(void) { visible("1", "visible.one"); }
static void visible_stop(void) { visible("0,77,1", "visible.stop"); }
static void visible_text(void) { visible("0,abc,1", "visible.text"); }
static void visible_twice(void) { visible("0,0", "visible.twice"); }
static void visible_spaces(void) { visible(" 0 , 1 ", "visible.spaces"); }
static void visible_tail(void) { visible("0x,1", "visible.tail"); }
static void visible_gpu(void) { visible("GPU-", "visible.gpu"); }
static void visible_commas(void) { visible(",0", "visible.comma"); }

void device_groups(void) {
    in_child("devices", basics);
    in_child("attributes", attributes);
    in_child("codes", codes);
    in_child("name.empty", name_empty);
    in_child("name.negative", name_negative);
    in_child("name.null", name_null);
    in_child("pci.null", pci_null);
    in_child("code.null", code_null);
    in_child("exporttable", export_table);
    in_child("visible1", visible_empty);
    in_child("visible2", visible_minus);
    in_child("visible3", visible_one);
    in_child("visible4", visible_stop);
    in_child("visible5", visible_text);
    in_child("visible6", visible_twice);
    in_child("visible7", visible_spaces);
    in_child("visible8", visible_tail);
    in_child("visible9", visible_gpu);
    in_child("visible10", visible_commas);
}
