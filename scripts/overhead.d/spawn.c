// Prints the median and least microseconds that a program takes from start to end, by turns with each of two
// preloaded libraries: spawn COUNT LIBRARY_A LIBRARY_B PROGRAM [ARGS]
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}
static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
extern char **environ;
int main(int argc, char **argv) {
    if (argc < 5) return 2;
    int count = atoi(argv[1]);
    double *times[2] = {calloc(count, sizeof(double)), calloc(count, sizeof(double))};
    for (int i = 0; i < count; i++)
        for (int which = 0; which < 2; which++) {
            setenv("LD_PRELOAD", argv[2 + which], 1);
            double start = now();
            pid_t child;
            if (posix_spawnp(&child, argv[4], 0, 0, argv + 4, environ)) return 3;
            int status;
            if (waitpid(child, &status, 0) != child || status) return 4;
            times[which][i] = now() - start;
        }
    for (int which = 0; which < 2; which++) {
        qsort(times[which], count, sizeof(double), ascending);
        printf("%.1f %.1f ", times[which][count / 2], times[which][0]);
    }
    putchar('\n');
    return 0;
}
