/* Arms plans of faults by the functions of cupeer.h and prints what its calls return then. armed PART; see main. */
#include <cupeer.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int (*can_access)(int *, int, int);
static int (*arm)(const char *, char *, size_t);
static int (*disarm)(int, uint64_t *, uint64_t *);
static int (*counts)(int, uint64_t *, uint64_t *);
static int (*release)(const char *);
static char message[256];

#ifdef LINKED
int cuDeviceCanAccessPeer(int *, int, int);
int cuInit(unsigned);
#endif

static int call(void) {
    int can = -1;
    return can_access(&can, 0, 1);
}

/* What so many calls return, one after the other. */
static const char *calls(int count) {
    static char text[64];
    int length = 0;
    while (count-- > 0) length += snprintf(text + length, sizeof text - length, " %d", call());
    return text;
}

static void show(int plan) {
    uint64_t matched = 99, fired = 99;
    int known = counts(plan, &matched, &fired);
    printf("plan %d: known %d matched %d fired %d\n", plan, known, (int)matched, (int)fired);
}

static void block(void) {
    int plan, other;
    uint64_t matched = 0, fired = 0;
    printf("before: %d\n", call());
    plan = arm("cuDeviceCanAccessPeer:when=2:error=INVALID_DEVICE", message, sizeof message);
    printf("armed %d:%s\n", plan, calls(3));
    other = arm("cuDeviceCanAccessPeer:error=NOT_INITIALIZED\n# no comments here", message, sizeof message);
    printf("not armed: %d %s\n", other, message);
    other = arm("cuDeviceCanAccessPeer:error=NOT_INITIALIZED", NULL, 0);
    printf("two: %d%s\n", other, calls(1));
    show(plan);
    plan = disarm(plan, &matched, &fired);
    printf("disarmed: %d matched %d fired %d, then %d\n", plan, (int)matched, (int)fired, call());
    int disarmed = disarm(other, NULL, NULL);
    printf("disarmed: %d, then%s\n", disarmed, calls(1));
    printf("again: %d, of nobody: %d %d\n", disarm(other, NULL, NULL), disarm(0, NULL, NULL), disarm(-1, NULL, NULL));
    show(other);
    for (const char **bad = (const char *[]){"", "x:error=any", "cuIpcGetMemHandle", "cuIpcGetMemHandle:per=job:error=any", NULL};
         *bad; bad++)
        printf("%d %s\n", arm(*bad, message, sizeof message), message);
    printf("%d %s\n", arm(NULL, message, sizeof message), message);
    printf("%d %s\n", arm("x:error=any", message, 7), message);
    printf("%d %d\n", release("nobody"), release(NULL));
}

static void *calls_once(void *result) {
    *(int *)result = call();
    return NULL;
}

static void hang(void) {
    for (int by_release = 0; by_release < 2; by_release++) {
        pthread_t thread;
        int result = -1, hanging = 0, plan = arm("cuDeviceCanAccessPeer:hang=here:error=INVALID_DEVICE", message, sizeof message);
        pthread_create(&thread, NULL, calls_once, &result);
        if (by_release) {
            /* A release before it hangs would let it pass as well; here it is seen to hang. */
            uint64_t fired = 0;
            while (!fired) counts(plan, NULL, &fired), usleep(1000);
            for (int tries = 0; tries < 10000 && !hanging; tries++) usleep(1000), hanging = release(tries > 100 ? "here" : "there");
            printf("hung %d, released\n", hanging);
        } else {
            uint64_t fired = 0;
            while (!fired) counts(plan, NULL, &fired), usleep(1000);
            printf("disarmed %d\n", disarm(plan, NULL, NULL));
        }
        pthread_join(thread, NULL);
        printf("then %d\n", result);
        if (by_release) disarm(plan, NULL, NULL);
    }
}

static volatile int is_over;
static void *calls_always(void *bad) {
    while (!is_over) {
        int result = call();
        if (result && result != 101) *(int *)bad = result;
    }
    return NULL;
}

static void crowd(void) {
    enum { THREADS = 4, TIMES = 300 };
    pthread_t threads[THREADS];
    int bad[THREADS] = {0}, wrong = 0, mine = 0;
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, calls_always, &bad[i]);
    for (int i = 0; i < TIMES; i++) {
        uint64_t matched = 0, fired = 0;
        int plan = arm("cuDeviceCanAccessPeer:when=1+3:error=INVALID_DEVICE;@ipc,^@release:thread=main:error=any", message, sizeof message);
        for (int j = 0; j < 10; j++) mine += call() == 101;
        /* A call of another thread may be under way, matched and not fired. */
        if (!disarm(plan, &matched, &fired) || matched < 10 || fired + THREADS < matched / 3 || call()) wrong++;
    }
    is_over = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL), wrong += bad[i] != 0;
    printf("wrong %d, some were mine %d\n", wrong, mine > 0);
}

static void forks(void) {
    int plan = arm("cuDeviceCanAccessPeer:when=2..3:error=INVALID_DEVICE", message, sizeof message), status = 0;
    printf("parent:%s\n", calls(2));
    fflush(stdout);
    if (!fork()) {
        /* The simulated driver does not know the child, and says so where the call is made. */
        printf("child:%s\n", calls(3));
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    printf("parent:%s\n", calls(2));
    show(plan);
}

/* Threads find the way to a function at the same time; then a plan is armed, which has to reach it. */
static pthread_barrier_t begin;
static void *calls_first(void *result) {
    pthread_barrier_wait(&begin);
    return calls_once(result);
}

static void first(void) {
    enum { TIMES = 150, THREADS = 8 };
    int missed = 0;
    for (int i = 0; i < TIMES; i++) {
        int status = 0;
        if (!fork()) {
            pthread_t threads[THREADS];
            int results[THREADS];
            pthread_barrier_init(&begin, NULL, THREADS);
            for (int j = 0; j < THREADS; j++) pthread_create(&threads[j], NULL, calls_first, &results[j]);
            for (int j = 0; j < THREADS; j++) pthread_join(threads[j], NULL);
            arm("cuDeviceCanAccessPeer:error=INVALID_DEVICE", message, sizeof message);
            _exit(call() != 101);
        }
        wait(&status);
        missed += status != 0;
    }
    printf("missed %d\n", missed);
}

/* Leaves a call by a jump out of the handler of its signal: the thread can be cancelled as before. */
static sigjmp_buf back;
static void jump(int number) { siglongjmp(back, number); }

static void jumps(void) {
    int state = -1;
    signal(SIGUSR1, jump);
    int plan = arm("cuDeviceCanAccessPeer:signal=USR1", message, sizeof message);
    if (!sigsetjmp(back, 1)) printf("no jump: %d\n", call());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    printf("enabled %d\n", state == PTHREAD_CANCEL_ENABLE);
    plan = disarm(plan, NULL, NULL);
    printf("disarmed %d, then %d\n", plan, call());
}

int main(int count, char **arguments) {
    int (*init)(unsigned);
#ifdef LINKED
    can_access = cuDeviceCanAccessPeer, init = cuInit;
#else
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return fprintf(stderr, "armed: %s\n", dlerror()), 2;
    *(void **)&can_access = dlsym(driver, "cuDeviceCanAccessPeer");
    *(void **)&init = dlsym(driver, "cuInit");
#endif
    *(void **)&arm = dlsym(RTLD_DEFAULT, "cupeer_arm");
    *(void **)&disarm = dlsym(RTLD_DEFAULT, "cupeer_disarm");
    *(void **)&counts = dlsym(RTLD_DEFAULT, "cupeer_counts");
    *(void **)&release = dlsym(RTLD_DEFAULT, "cupeer_release");
    if (!arm) return printf("not under cupeer\n"), 0;
    if (count != 2) return 2;
    init(0);
    if (!strcmp(arguments[1], "block")) block();
    if (!strcmp(arguments[1], "hang")) hang();
    if (!strcmp(arguments[1], "crowd")) crowd();
    if (!strcmp(arguments[1], "forks")) forks();
    if (!strcmp(arguments[1], "first")) first();
    if (!strcmp(arguments[1], "jumps")) jumps();
    return 0;
}
