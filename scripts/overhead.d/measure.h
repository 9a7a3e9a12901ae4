// Prints nanoseconds a call, the least of many loops.
#include "clock.h"
enum { CALLS = 200000, LOOPS = 60 };
#define MEASURE(name, call)                                                                                            \
    do {                                                                                                               \
        double least = 1e9;                                                                                            \
        for (int loop = 0; loop < LOOPS; loop++) {                                                                     \
            double start = now();                                                                                      \
            for (int i = 0; i < CALLS; i++)                                                                            \
                call;                                                                                                  \
            double each = (now() - start) / CALLS;                                                                     \
            if (each < least) least = each;                                                                            \
        }                                                                                                              \
        printf("%s %.3f\n", name, least);                                                                              \
    } while (0)
