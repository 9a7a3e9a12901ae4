// Preloaded: a file system that takes 12 s to make the first file of a record, which is longer than other threads wait for it.
#define _GNU_SOURCE
#include "opens.h"
#include <string.h>
#include <unistd.h>

static int opens(const char *path, int flags, int mode) {
    static int is_over;
    if (flags & O_CREAT && strstr(path, ".cupeer") && !__atomic_exchange_n(&is_over, 1, __ATOMIC_SEQ_CST)) sleep(12);
    return really_opens(path, flags, mode);
}
