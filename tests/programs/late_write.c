/* A library to preload: a write into a file named `begun` comes 100 ms late, as on a slow file system. If a run sets the file
   aside or removes it in this time, to reduce the recording, the library creates the file that LATE_HIT names. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns 1 if a descriptor is that of a file named `begun`. */
static int is_begun(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    const char *name = strrchr(path, '/');
    return name && !strcmp(name, "/begun");
}

ssize_t write(int file, const void *bytes, size_t count) {
    if (is_begun(file)) {
        usleep(100000);
        const char *hit = getenv("LATE_HIT");
        if (hit && !is_begun(file)) close(open(hit, O_CREAT | O_WRONLY, 0600));
    }
    return syscall(SYS_write, file, bytes, count);
}
