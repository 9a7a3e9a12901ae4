/* counted FILE THREADS: threads that call until the process is killed. Each bumps a counter in a page of its own of
 * FILE after each return: tid, then how many calls have returned. Call n of a thread has the mark n % 20000. Even
 * threads ask something; odd ones open and close, which takes several slots and stands in the live table. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <sys/mman.h>
#include <sys/syscall.h>

struct page {
    _Atomic uint64_t tid, returned;
};
static char *pages;

static void *work(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    struct page *page = (struct page *)(pages + 4096 * number);
    page->tid = (uint64_t)syscall(SYS_gettid);
    struct outputs o;
    for (unsigned n = 0;; n++) {
        CUresult r;
        unsigned m = n % 20000;
        if (number % 2 == 0) {
            r = cuDeviceCanAccessPeer(&o.number, (int)m, 1);
        } else if (n % 2 == 0) {
            r = cuIpcOpenMemHandle_v2(&o.pointer, marked_handle(m), m);
        } else {
            r = cuIpcCloseMemHandle(m);
        }
        if (r != 0) abort();
        page->returned = n + 1;
    }
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int threads = atoi(argv[2]);
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0 && ftruncate(file, 4096 * threads) == 0);
    pages = mmap(NULL, 4096 * (size_t)threads, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(pages != MAP_FAILED);
    pthread_t thread;
    /* Nobody may be there to kill it. */
    alarm(60);
    for (uintptr_t i = 0; i < (uintptr_t)threads; i++) CHECK(pthread_create(&thread, NULL, work, (void *)i) == 0);
    pthread_join(thread, NULL);
    return 0;
}
