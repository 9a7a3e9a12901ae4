/* troubled HOW CALLS [ARGUMENT]: calls that often (opens and closes in turn, marks 1 to 20000) in each of two threads, with trouble after
 * the first half:
 *   none      no trouble
 *   close     all descriptors are closed, and ARGUMENT is opened under as many numbers; what stands there afterwards
 *             is what the program wrote itself
 *   remove    the directory ARGUMENT is removed with all that is in it
 *   fork      as `remove`, and a child calls afterwards
 *   limit     files may become ARGUMENT bytes long; SIGXFSZ would end the program
 *   numbers   no more descriptors can be opened
 *   handler   as `limit`, with a handler for SIGXFSZ that must not run
 * Prints what it would without cupeer. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <ftw.h>
#include <sys/resource.h>

static int number_of_calls;
static pthread_barrier_t barrier;

static void calls(int from, int to) {
    CUdeviceptr pointer;
    errno = 77;
    for (int i = from; i < to; i++) {
        unsigned m = 1 + (unsigned)(i / 2) % 20000;
        CHECK((i % 2 ? cuIpcCloseMemHandle(m) : cuIpcOpenMemHandle_v2(&pointer, marked_handle(m), m)) == 0);
        CHECK(errno == 77);
    }
}

/* Tells slow.c, if it is preloaded, that this thread has made its first half of calls. */
static void first_half(void) {
    calls(0, number_of_calls / 2);
    void (*half_is_done)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "half_is_done");
    if (half_is_done) half_is_done();
}

static void *work(void *unused) {
    first_half();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    calls(number_of_calls / 2, number_of_calls);
    return unused;
}

static int remove_one(const char *path, const struct stat *about, int flag, struct FTW *place) {
    (void)about, (void)flag, (void)place;
    return remove(path);
}

static void handled(int signal) { _exit(100 + signal); }

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    const char *how = argv[1];
    number_of_calls = atoi(argv[2]);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
    first_half();
    pthread_barrier_wait(&barrier);
    if (strcmp(how, "close") == 0) {
        for (int fd = 3; fd < 1024; fd++) close(fd);
        int last = 0;
        while (last < 1000) CHECK((last = open(argv[3], O_RDWR | O_CREAT | O_APPEND, 0600)) >= 3);
    } else if (strcmp(how, "remove") == 0 || strcmp(how, "fork") == 0) {
        CHECK(nftw(argv[3], remove_one, 10, FTW_DEPTH | FTW_PHYS) == 0);
    } else if (strcmp(how, "limit") == 0 || strcmp(how, "handler") == 0) {
        if (strcmp(how, "handler") == 0) signal(SIGXFSZ, handled);
        rlim_t size = (rlim_t)atoll(argv[3]);
        struct rlimit limit = {size, size};
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    } else if (strcmp(how, "numbers") == 0) {
        struct rlimit limit = {20, 20};
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        while (open("/dev/null", O_RDONLY) >= 0) {}
    }
    pthread_barrier_wait(&barrier);
    calls(number_of_calls / 2, number_of_calls);
    pthread_join(thread, NULL);
    if (strcmp(how, "close") == 0) CHECK(write(1000, "data\n", 5) == 5);
    if (strcmp(how, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            calls(0, number_of_calls);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    puts("done");
    return 9;
}
