/* For tests that first prove which libraries a program has. */
#ifndef MAPS_H
#define MAPS_H
#include <stdio.h>
#include <stdlib.h>

/* Leaves what is loaded where a test asks for it. */
static void show_maps(void) {
    char bytes[4096];
    const char *path = getenv("SHOW_MAPS");
    FILE *maps = path ? fopen("/proc/self/maps", "re") : NULL, *out = maps ? fopen(path, "we") : NULL;
    if (!out) return;
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, maps)) > 0;)
        if (fwrite(bytes, 1, n, out) != n) abort();
    if (fclose(out) != 0 || fclose(maps) != 0) abort();
}
#endif
