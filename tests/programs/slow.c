// Preloaded: a file system that makes the first file of a record only after the other thread of troubled.c has given up waiting
// for it, and has made its calls without a record.
#define _GNU_SOURCE
#include "opens.h"
#include <string.h>
#include <unistd.h>

static int halves;

void half_is_done(void) { __atomic_add_fetch(&halves, 1, __ATOMIC_SEQ_CST); }

static int opens(const char *path, int flags, int mode) {
    static int is_over;
    if (flags & O_CREAT && strstr(path, ".cupeer") && !__atomic_exchange_n(&is_over, 1, __ATOMIC_SEQ_CST))
        while (!__atomic_load_n(&halves, __ATOMIC_SEQ_CST)) usleep(10000);
    return really_opens(path, flags, mode);
}
