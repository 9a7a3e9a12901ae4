/* Is told of findings by the library itself, and breaks rules: callback listens, anew listens twice, often breaks one rule
 * 25 times, leaves does in a callback as LEAVING says, remote makes the record's directory look like one of NFS. */
#include "../../include/cupeer.h"
#include "rules/rules.h"
#include <pthread.h>
#include <sys/vfs.h>

static int heard, is_remote;

static void hear(const cupeer_finding *finding, void *data) {
    CHECK(finding->size == sizeof *finding && data == &heard);
    /* It may call the driver, also so that a rule is broken again. */
    int count;
    OK(cuDeviceGetCount(&count));
    heard++;
    dprintf(1, "heard %s %s %s %s %d: %s\nhint: %s\njson: %s\n", finding->severity, finding->rule, finding->confidence,
            finding->function, finding->result, finding->message, finding->hint, finding->json);
}

static void listens(void) {
    int (*on)(cupeer_finding_callback, void *) = dlsym(RTLD_DEFAULT, "cupeer_on_finding");
    if (!on) {
        dprintf(1, "no cupeer\n");
        return;
    }
    dprintf(1, "checks %d\n", on(hear, &heard));
    start(0);
    CUdeviceptr p;
    Handle handle;
    OK(cuMemAlloc_v2(&p, SIZE));
    OK(cuIpcGetMemHandle(&handle, p));
    cuIpcOpenMemHandle_v2(&p, handle, 0);
    on(NULL, NULL);
    cuIpcOpenMemHandle_v2(&p, handle, 2);
    dprintf(1, "heard %d\n", heard);
}

static void anew(void) {
    int (*on)(cupeer_finding_callback, void *) = dlsym(RTLD_DEFAULT, "cupeer_on_finding");
    CHECK(on);
    start(0);
    for (int round = 0; round < 2; round++) {
        CHECK(on(hear, &heard) == 1);
        for (int i = 0; i < 25; i++) cuIpcCloseMemHandle(0x1000);
        dprintf(1, "so far %d\n", heard);
    }
}

static void often(void) {
    start(0);
    for (int i = 0; i < 25; i++) cuIpcCloseMemHandle(0x1000);
}

/* In place of the C library's: what the directory of the record lies on is NFS. */
int statfs(const char *path, struct statfs *about) {
    (void)path;
    memset(about, 0, sizeof *about);
    about->f_type = is_remote ? 0x6969 : 0xef53;
    return 0;
}

static void remote(void) {
    is_remote = bad;
    start(0);
    Handle handle;
    CUdeviceptr p;
    memset(&handle, 0x5a, sizeof handle);
    OK(cuMemAlloc_v2(&p, SIZE));
    OK(cuIpcGetMemHandle(&handle, p));
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, 0));
}

/* Two libraries that call the driver through one that has the runtime's name. */
static void behind(void) {
    start(0);
    for (int i = 1; i <= 2; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/libuser%d.so", getenv("LIBRARIES"), i);
        void *library = dlopen(path, RTLD_NOW);
        CHECK(library);
        void (*closes)(CUresult (*)(CUdeviceptr)) = dlsym(library, "closes");
        closes(cuIpcCloseMemHandle);
    }
}

/* A function that does what it may, or leaves as it must not. */
static const char *leaving;
static int returned = -1;

static void again(const cupeer_finding *finding, void *data) {
    dprintf(1, "again %s %d\n", finding->rule, data == &leaving);
}

static void leave(const cupeer_finding *finding, void *data) {
    int (*on)(cupeer_finding_callback, void *) = dlsym(RTLD_DEFAULT, "cupeer_on_finding");
    int (*mark)(const char *) = dlsym(RTLD_DEFAULT, "cupeer_mark");
    CHECK(data == &leaving);
    dprintf(1, "leaves %s\n", finding->rule);
    static int forked;
    if (strcmp(leaving, "fork") == 0 && !forked++) {
        pid_t pid = fork();
        if (pid == 0) return;
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    if (strcmp(leaving, "set") == 0) CHECK(on(again, &leaving) == 1 && mark("in a callback") == 1);
    if (strcmp(leaving, "exit") == 0) exit(9);
    if (strcmp(leaving, "cancel") == 0) pthread_cancel(pthread_self()), pthread_testcancel();
    if (strcmp(leaving, "end") == 0) pthread_exit(NULL);
}

static void *breaks(void *unused) {
    int (*on)(cupeer_finding_callback, void *) = dlsym(RTLD_DEFAULT, "cupeer_on_finding");
    CHECK(on(leave, &leaving) == 1);
    start(0);
    CUresult r = cuIpcCloseMemHandle(0x1000);
    returned = r;
    pthread_testcancel();
    dprintf(1, "returned %d\n", r);
    cuIpcCloseMemHandle(0x2000);
    dprintf(1, "and again\n");
    return unused;
}

static void leaves(void) {
    leaving = getenv("LEAVING");
    pid_t own = getpid();
    pthread_t thread;
    void *end;
    if (strcmp(leaving, "fork") == 0) {
        breaks(NULL);
        if (getpid() != own) exit(7);
        return;
    }
    CHECK(pthread_create(&thread, NULL, breaks, NULL) == 0 && pthread_join(thread, &end) == 0);
    dprintf(1, "canceled %d, after %d\n", end == PTHREAD_CANCELED, returned);
}

SCENES({"anew", anew}, {"behind", behind}, {"leaves", leaves}, {"listens", listens}, {"often", often}, {"remote", remote})
