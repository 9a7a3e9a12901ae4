// The clocks of the programs that measure.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>
static inline uint64_t ticks(void) { return __rdtsc(); }
// Nanoseconds.
static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
// Whether the record reads the time stamp counter here, else the kernel's clock.
static inline int by_counter(void) {
    char source[32] = "";
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");
    if (file && !fgets(source, sizeof source, file)) source[0] = 0;
    if (file) fclose(file);
    return !strcmp(source, "tsc\n");
}
