/* Calls at odd times of a process and of a thread: before all constructors, in a constructor, in an exit
 * handler and a destructor of the program; in destructors of thread-specific values, in all of the rounds
 * that the C library allows, and in those that C++ registers, which run at other times; the main thread's
 * among them. Expects each call to reach the driver once. */
#include "calls.h"

extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
extern void *__dso_handle;
static pthread_key_t key;

static void at_thread_exit(void *value) {
    uintptr_t mark = (uintptr_t)value;
    if (CALL_MARKED(cuIpcOpenMemHandle_v2, (unsigned)mark) != 0) abort();
    if (mark % 10 < 5) pthread_setspecific(key, (void *)(mark + 1));
}

static void at_cxx_thread_exit(void *value) {
    if (CALL_MARKED(cuCtxDisablePeerAccess, (unsigned)(uintptr_t)value) != 0) abort();
}

static void *thread(void *base) {
    uintptr_t mark = (uintptr_t)base;
    /* The first call of the second thread is in its destructor. */
    if (mark == 1000 && CALL_MARKED(cuIpcOpenMemHandle_v2, (unsigned)mark) != 0) abort();
    pthread_setspecific(key, (void *)(mark + 10));
    __cxa_thread_atexit_impl(at_cxx_thread_exit, (void *)(mark + 20), &__dso_handle);
    return NULL;
}

static void at_exit(void) { CALL_MARKED(cuIpcOpenMemHandle_v2, 4000); }
__attribute__((destructor)) static void destructor(void) { CALL_MARKED(cuIpcCloseMemHandle, 4001); }
__attribute__((constructor)) static void constructor(void) { CALL_MARKED(cuIpcCloseMemHandle, 4002); }
#ifdef LINKED
static void before_all(void) { CALL_MARKED(cuIpcCloseMemHandle, 4003); }
__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = before_all;
#endif

int main(void) {
    atexit(at_exit);
    pthread_key_create(&key, at_thread_exit);
    for (uintptr_t i = 1; i <= 2; i++) {
        pthread_t t;
        pthread_create(&t, NULL, thread, (void *)(i * 1000));
        pthread_join(t, NULL);
    }
    __cxa_thread_atexit_impl(at_cxx_thread_exit, (void *)3020, &__dso_handle);
    puts("main is done");
    return 0;
}
