/* Is told of findings by the library itself, and breaks rules: callback listens, anew listens twice, often breaks one rule
 * 25 times, remote makes the record's directory look like one of NFS. */
#include "../../include/cupeer.h"
#include "rules/rules.h"
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

SCENES({"anew", anew}, {"behind", behind}, {"listens", listens}, {"often", often}, {"remote", remote})
