// Prints what a call of cuDeviceCanAccessPeer, looked up in LIBRARY, takes in nanoseconds: the first one, then of
// CALLS more the mean, the median, the 99.9th percentile and the longest. recorded LIBRARY CALLS [clocks]
//
// By turns, 25,000 calls are made in a bare loop, and 25,000 with the time stamp counter read before and after each.
// The mean is that of the bare loops, whatever happens in them. The others are of the calls that were timed, less
// the median of what is read where there is no call in between; all of them are counted, none is left out. The
// counter is not serialised: work of a call that is still in flight when it is read shows in the mean alone, so
// a median is to be compared with medians, and a mean with means.
// With `clocks` each call stands between two reads of the clock that the record would use.
#include "clock.h"
#include <dlfcn.h>
#include <string.h>
enum { BLOCK = 25000, FINE = 1 << 13, COARSE = 64 * 64 };
typedef int function(int *, int, int);
// Ticks below FINE one by one, above by the six bits behind the first.
struct counts { uint64_t fine[FINE], coarse[COARSE], most, all; };
static struct counts calls, nothing;
static inline void count(struct counts *c, uint64_t ticks) {
    if (__builtin_expect(ticks < FINE, 1)) {
        c->fine[ticks]++;
        return;
    }
    int high = 63 - __builtin_clzll(ticks);
    c->coarse[high * 64 + (ticks >> (high - 6) & 63)]++;
    if (ticks > c->most) c->most = ticks;
}
static double quantile(struct counts *c, double share) {
    uint64_t all = 0, seen = 0;
    for (int i = 0; i < FINE; i++) all += c->fine[i];
    for (int i = 0; i < COARSE; i++) all += c->coarse[i];
    uint64_t wanted = (uint64_t)(share * (all - 1)) + 1;
    for (int i = 0; i < FINE; i++) {
        if ((seen += c->fine[i]) >= wanted) return i;
    }
    for (int i = 0; i < COARSE; i++)
        if ((seen += c->coarse[i]) >= wanted) return (double)((64ull + i % 64) << (i / 64 - 6));
    return 0;
}
static uint64_t most(struct counts *c) {
    if (c->most) return c->most;
    for (int i = FINE - 1; i > 0; i--)
        if (c->fine[i]) return i;
    return 0;
}
static function *call;
static int can;
static uint64_t clocks_read;
static double bare;
// One text for each form, so that both loops are the same but for the clock.
#define LOOPS(NAME, BEFORE, AFTER)                                                                                     \
    static void NAME(long count_of) {                                                                                  \
        for (long done = 0; done < count_of; done += 2 * BLOCK) {                                                      \
            double start = now();                                                                                      \
            for (int i = 0; i < BLOCK; i++) {                                                                          \
                BEFORE;                                                                                                \
                call(&can, i, -1);                                                                                     \
                AFTER;                                                                                                 \
            }                                                                                                          \
            bare += now() - start;                                                                                     \
            for (int i = 0; i < BLOCK; i++) {                                                                          \
                uint64_t from = ticks();                                                                               \
                BEFORE;                                                                                                \
                call(&can, i, -1);                                                                                     \
                AFTER;                                                                                                 \
                count(&calls, ticks() - from);                                                                         \
            }                                                                                                          \
        }                                                                                                              \
    }
LOOPS(plain, , )
LOOPS(with_counter, clocks_read += ticks(), clocks_read += ticks())
LOOPS(with_kernels_clock, clocks_read += (uint64_t)now(), clocks_read += (uint64_t)now())
int main(int argc, char **argv) {
    if (argc < 3) return 2;
    void *library = dlopen(argv[1], RTLD_NOW);
    call = library ? (function *)dlsym(library, "cuDeviceCanAccessPeer") : 0;
    if (!call) return fprintf(stderr, "%s\n", dlerror()), 2;
    long count_of = atol(argv[2]) / (2 * BLOCK) * 2 * BLOCK;
    for (int i = 0; i < 100000; i++) {
        uint64_t from = ticks();
        count(&nothing, ticks() - from);
    }
    double floor = quantile(&nothing, 0.5), start = now();
    uint64_t from = ticks();
    if (call(&can, 0, -1)) return 1;
    double first = (double)(ticks() - from) - floor;
    if (argc < 4) plain(count_of);
    else if (by_counter()) with_counter(count_of);
    else with_kernels_clock(count_of);
    double tick = (now() - start) / (double)(ticks() - from);
    printf("%.0f %.2f %.2f %.2f %.0f\n", first * tick, bare / (count_of / 2), (quantile(&calls, 0.5) - floor) * tick,
           (quantile(&calls, 0.999) - floor) * tick, ((double)most(&calls) - floor) * tick);
    return clocks_read == 1;
}
