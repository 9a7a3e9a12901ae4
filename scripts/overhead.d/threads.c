// Prints how many million calls a second of cuDeviceCanAccessPeer, looked up in LIBRARY, THREADS threads make, each
// CALLS of them at the same time as the others: the sum of what each thread reaches in its own time.
// threads LIBRARY THREADS CALLS [clocks]; with `clocks` each call stands between two reads of the record's clock.
#include "clock.h"
#include <dlfcn.h>
#include <pthread.h>
typedef int function(int *, int, int);
static function *call;
static long calls;
static int form;
static pthread_barrier_t ready;
static void *work(void *rate) {
    int can;
    uint64_t read = 0;
    // The thread's first call makes its window.
    call(&can, 0, -1);
    pthread_barrier_wait(&ready);
    double start = now();
    if (form == 0)
        for (long i = 0; i < calls; i++) call(&can, (int)i, -1);
    else if (form == 1)
        for (long i = 0; i < calls; i++) {
            read += ticks();
            call(&can, (int)i, -1);
            read += ticks();
        }
    else
        for (long i = 0; i < calls; i++) {
            read += (uint64_t)now();
            call(&can, (int)i, -1);
            read += (uint64_t)now();
        }
    *(double *)rate = (double)calls / (now() - start) * 1e3 + (double)(read == 1);
    return 0;
}
enum { MOST = 1024 };
int main(int argc, char **argv) {
    if (argc < 4) return 2;
    void *library = dlopen(argv[1], RTLD_NOW);
    call = library ? (function *)dlsym(library, "cuDeviceCanAccessPeer") : 0;
    int threads = atoi(argv[2]);
    calls = atol(argv[3]);
    form = argc < 5 ? 0 : by_counter() ? 1 : 2;
    if (!call || threads < 1 || threads > MOST) return 2;
    pthread_t thread[MOST];
    double rate[MOST], sum = 0;
    pthread_barrier_init(&ready, 0, threads);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], 0, work, &rate[i])) return 3;
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], 0);
        sum += rate[i];
    }
    printf("%.3f\n", sum);
    return 0;
}
