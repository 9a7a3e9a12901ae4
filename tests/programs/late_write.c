/* A library to preload: a write into a file named `begun` comes 100 ms late, as on a slow file system. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t write(int file, const void *bytes, size_t count) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    if (strstr(path, "/begun")) usleep(100000);
    return syscall(SYS_write, file, bytes, count);
}
