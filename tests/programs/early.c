/* early MARKS: makes that many marks, numbered from 0, before its first call of the driver, half of them in a second thread; a child
 * makes one and ends without a call. Prints how many marks were taken. Then calls, and marks once more. */
#include "common.h"

CUresult cuInit(unsigned);

static int (*mark)(const char *);
static int count, taken;

static void *make(void *from) {
    for (int i = from ? count / 2 : 0; i < (from ? count : count / 2); i++) {
        char text[32];
        snprintf(text, sizeof text, "early %d", i);
        taken += mark(text);
    }
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    *(void **)&mark = dlsym(RTLD_DEFAULT, "cupeer_mark");
    CHECK(mark);
    count = atoi(argv[1]);
    pthread_t second;
    make(NULL);
    CHECK(pthread_create(&second, NULL, make, &count) == 0 && pthread_join(second, NULL) == 0);
    pid_t child = fork();
    if (child == 0) _exit(mark("a child's") == 1 ? 0 : 1);
    int status = -1, can;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("%d\n", taken);
    CHECK(cuInit(0) == 0 && cuDeviceCanAccessPeer(&can, 1, 2) == 0);
    CHECK(mark("late") == 1);
    return 0;
}
