/* asleep WAY: an allocator with a sleep mode, of memory that cannot be exported: five ranges of two tags. */
#include "rules/rules.h"

enum { MIB = 1 << 20, WEIGHTS = 0, CACHE = 1, RANGES = 5 };
typedef struct {
    int tag;
    size_t size;
    CUdeviceptr at;
    Allocation allocation;
} Range;
static Range ranges[RANGES] = {{WEIGHTS, 2 * MIB}, {WEIGHTS, 4 * MIB}, {WEIGHTS, 6 * MIB}, {CACHE, 8 * MIB}, {CACHE, 10 * MIB}};

static Allocation map_at(CUdeviceptr at, size_t size) {
    Allocation allocation;
    Properties wanted = {.type = 1, .location = {1, 0}};
    Access access = {{1, 0}, 3};
    OK(cuMemCreate(&allocation, size, &wanted, 0));
    OK(cuMemMap(at, size, 0, allocation, 0));
    OK(cuMemSetAccess(at, size, &access, 1));
    return allocation;
}

static void sleep_all(void) {
    for (int i = 0; i < RANGES; i++) {
        OK(cuMemUnmap(ranges[i].at, ranges[i].size));
        OK(cuMemRelease(ranges[i].allocation));
    }
}

static void wake_up(int tag) {
    for (int i = 0; i < RANGES; i++)
        if (ranges[i].tag == tag) ranges[i].allocation = map_at(ranges[i].at, ranges[i].size);
}

static CUresult use_all(void) {
    for (int i = 0; i < RANGES; i++) {
        CUresult result = cuMemsetD32_v2(ranges[i].at, 7, ranges[i].size / 4);
        if (result) return result;
    }
    return 0;
}

/* A segment that grows and shrinks by chunks. */
static void segments(int times) {
    enum { MOST = 16 };
    CUdeviceptr at;
    Allocation all[MOST];
    OK(cuMemAddressReserve(&at, MOST * 2 * MIB, 0, 0, 0));
    for (int i = 0; i < times; i++) {
        int count = i % MOST + 1;
        for (int k = 0; k < count; k++) all[k] = map_at(at + k * 2 * MIB, 2 * MIB);
        OK(cuMemsetD32_v2(at, 7, count * 2 * MIB / 4));
        while (count-- > 0) {
            OK(cuMemUnmap(at + count * 2 * MIB, 2 * MIB));
            OK(cuMemRelease(all[count]));
        }
    }
    OK(cuMemAddressFree(at, MOST * 2 * MIB));
}

int main(int count, char **args) {
    const char *way = count > 1 ? args[1] : "";
    start(0);
    if (!strcmp(way, "segments")) {
        segments(atoi(args[2]));
        return 0;
    }
    for (int i = 0; i < RANGES; i++) {
        OK(cuMemAddressReserve(&ranges[i].at, ranges[i].size, 0, 0, 0));
        ranges[i].allocation = map_at(ranges[i].at, ranges[i].size);
    }
    OK(use_all());
    sleep_all();
    if (!strcmp(way, "asleep")) return use_all();
    wake_up(WEIGHTS);
    if (!strcmp(way, "partly")) return use_all();
    wake_up(CACHE);
    OK(use_all());
    sleep_all();
    wake_up(CACHE);
    if (!strcmp(way, "again")) return use_all();
    wake_up(WEIGHTS);
    return use_all();
}
