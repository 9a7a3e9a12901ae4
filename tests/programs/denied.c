/* denied WHAT ...: asks all that libraries ask before they use peers, tries what they try, and prints what came back.
 *   cuda                 every pair of the devices that it sees: questions, and enabling in both ways; wrong calls
 *   nvml                 every pair of devices and every link
 *   ipc DEVICE EXPORTER  opens what another process has exported on its first device. EXPORTER is that one's
 *                        CUDA_VISIBLE_DEVICES; with a third argument it runs without what is preloaded
 *   peers                gives the first device's context access to the others, takes some back, resets
 *   threads              asks in several threads at once, and in a child
 * Nothing that it prints differs from run to run. */
#include "rules/rules.h"
#include "nvml_table.h"
#include <pthread.h>

enum { MOST = 8, LINKS = 18 };
static CUresult (*cuDeviceGetAttribute)(int *, int, CUdevice);
static CUresult (*cuPointerGetAttributes)(unsigned, const int *, void **, CUdeviceptr);
static int count;
static CUcontext contexts[MOST];

static void begin(void) {
    load();
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&cuDeviceGetAttribute = dlsym(driver, "cuDeviceGetAttribute");
    *(void **)&cuPointerGetAttributes = dlsym(driver, "cuPointerGetAttributes");
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    CHECK(count <= MOST);
    for (int i = 0; i < count; i++) {
        CUuuid uuid;
        OK(cuDeviceGetUuid_v2(&uuid, i));
        printf("device %d: %d\n", i, uuid.bytes[15]);
        contexts[i] = retain(i);
    }
}

/* What is asked about a pair, in one line. */
static void ask(int i, int j, char *line) {
    int can = 9, values[5];
    unsigned atomics[2] = {9, 9};
    const int operations[2] = {0, 9};
    OK(cuDeviceCanAccessPeer(&can, i, j));
    for (int k = 0; k < 5; k++) OK(cuDeviceGetP2PAttribute(&values[k], k + 1, i, j));
    OK(cuDeviceGetP2PAtomicCapabilities(atomics, operations, 2, i, j));
    sprintf(line, "can=%d attributes=%d,%d,%d,%d,%d atomics=%u,%u", can, values[0], values[1], values[2], values[3],
            values[4], atomics[0], atomics[1]);
}

static void cuda(void) {
    begin();
    for (int i = 0; i < count; i++) {
        int multicast = 9, warp = 9;
        OK(cuDeviceGetAttribute(&multicast, 132, i));
        OK(cuDeviceGetAttribute(&warp, 10, i));
        printf("%d: multicast=%d warp=%d\n", i, multicast, warp);
        OK(cuCtxSetCurrent(contexts[i]));
        for (int j = 0; j < count; j++) {
            char line[128];
            if (i == j) continue;
            ask(i, j, line);
            CUresult enable = cuCtxEnablePeerAccess(contexts[j], 0);
            CUresult disable = cuCtxDisablePeerAccess(contexts[j]);
            printf("%d %d: %s enable=%d disable=%d\n", i, j, line, enable, disable);
        }
    }
    /* What is wrong is wrong as always. */
    OK(cuCtxSetCurrent(contexts[0]));
    int can;
    printf("null=%d self=%d", cuCtxEnablePeerAccess(NULL, 0), cuCtxEnablePeerAccess(contexts[0], 0));
    if (count > 1) {
        printf(" flags=%d no-output=%d", cuCtxEnablePeerAccess(contexts[1], 1), cuDeviceCanAccessPeer(NULL, 0, 1));
        printf(" attribute=%d", cuDeviceGetP2PAttribute(&can, 99, 0, 1));
    }
    printf(" device=%d\n", cuDeviceCanAccessPeer(&can, 0, 99));
}

#define NVML_OTHERS(X)                                                                                        \
    X(nvmlInit_v2, (void))                                                                                    \
    X(nvmlDeviceGetCount_v2, (unsigned *))                                                                    \
    X(nvmlDeviceGetHandleByIndex_v2, (unsigned, nvmlDevice_t *))
#define DECLARE(name, parameters, ...) static int(*name) parameters;
NVML_TABLE(DECLARE)
NVML_OTHERS(DECLARE)
static nvmlDevice_t devices[MOST];

static int field(nvmlDevice_t device, unsigned id, unsigned scope) {
    nvmlFieldValue_t value = {.fieldId = id, .scopeId = scope};
    OK(nvmlDeviceGetFieldValues(device, 1, &value));
    return value.nvmlReturn ? -value.nvmlReturn : (int)value.value.ui;
}

static void begin_nvml(void) {
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    CHECK(nvml != NULL);
#define FIND(name, ...) *(void **)&name = dlsym(nvml, #name);
    NVML_TABLE(FIND)
    NVML_OTHERS(FIND)
    unsigned number;
    OK(nvmlInit_v2());
    OK(nvmlDeviceGetCount_v2(&number));
    count = (int)number;
    CHECK(count <= MOST);
    for (int i = 0; i < count; i++) OK(nvmlDeviceGetHandleByIndex_v2(i, &devices[i]));
}

static void status(int i, int j, char *line) {
    line += sprintf(line, "p2p=");
    for (int k = 0; k < 6; k++) {
        int value = 9;
        OK(nvmlDeviceGetP2PStatus(devices[i], devices[j], k, &value));
        line += sprintf(line, "%s%d", k ? "," : "", value);
    }
    int ancestor = 9;
    OK(nvmlDeviceGetTopologyCommonAncestor(devices[i], devices[j], &ancestor));
    sprintf(line, " ancestor=%d", ancestor);
}

static void nvml(void) {
    begin_nvml();
    for (int i = 0; i < count; i++) {
        nvmlDevice_t d = devices[i];
        char line[128];
        for (int j = 0; j < count; j++) {
            status(i, j, line);
            printf("%d %d: %s\n", i, j, line);
        }
        /* A letter a link for each question: whether it is there. */
        char seen[7][LINKS + 1] = {{0}};
        for (unsigned link = 0; link < LINKS; link++) {
            int state = 9, type = 9;
            unsigned capability = 9;
            nvmlPciInfo_t pci = {.bus = 0x77};
            nvmlPciInfo_v2_t pci_v2 = {.bus = 0x77};
            OK(nvmlDeviceGetNvLinkState(d, link, &state));
            OK(nvmlDeviceGetNvLinkCapability(d, link, 0, &capability));
            int remote = nvmlDeviceGetNvLinkRemotePciInfo_v2(d, link, &pci);
            int older = nvmlDeviceGetNvLinkRemotePciInfo(d, link, &pci_v2);
            int kind = nvmlDeviceGetNvLinkRemoteDeviceType(d, link, &type);
            CHECK((remote == 0) == (pci.bus != 0x77) && (older == 0) == (pci_v2.bus != 0x77) && (kind == 0) == (type != 9));
            seen[0][link] = (char)('0' + state);
            seen[1][link] = (char)('0' + (int)capability);
            seen[2][link] = (char)('0' + remote);
            seen[3][link] = (char)('0' + older);
            seen[4][link] = (char)('0' + kind);
            seen[5][link] = (char)('0' + field(d, 165, link));
            seen[6][link] = field(d, 164, link) ? '1' : '0';
        }
        printf("%d: state=%s capability=%s remote=%s older=%s type=%s field=%s speed=%s\n", i, seen[0], seen[1], seen[2],
               seen[3], seen[4], seen[5], seen[6]);
        nvmlGpuFabricInfo_t fabric;
        nvmlGpuFabricInfoV_t v2, v3;
        memset(&v2, 0x77, sizeof v2);
        memset(&v3, 0x77, sizeof v3);
        v2.version = 0x02000024;
        v3.version = 0x03000028;
        OK(nvmlDeviceGetGpuFabricInfo(d, &fabric));
        OK(nvmlDeviceGetGpuFabricInfoV(d, &v2));
        OK(nvmlDeviceGetGpuFabricInfoV(d, &v3));
        CHECK(v2.healthSummary == 0x77);
        printf("%d: links=%d common-speed=%d c2c=%d fabric=%d,%u,%d fabric-v=%d,%u,%d,%#x,%d %d,%u,%d,%#x\n", i,
               field(d, 91, 0), field(d, 90, 0), field(d, 170, 0), fabric.state, fabric.cliqueId, fabric.clusterUuid[0],
               v3.state, v3.cliqueId, v3.clusterUuid[0], v3.healthMask, v3.healthSummary, v2.state, v2.cliqueId,
               v2.clusterUuid[0], v2.healthMask);
    }
    /* What is wrong is wrong as always. */
    int value;
    nvmlPciInfo_t pci;
    printf("no-output=%d,%d link=%d,%d,%d field=%d version=%d\n", nvmlDeviceGetP2PStatus(devices[0], devices[1], 0, NULL),
           nvmlDeviceGetNvLinkRemotePciInfo_v2(devices[0], 0, NULL), nvmlDeviceGetNvLinkState(devices[0], LINKS, &value),
           nvmlDeviceGetNvLinkRemotePciInfo_v2(devices[0], LINKS, &pci),
           nvmlDeviceGetNvLinkCapability(devices[0], LINKS, 0, (unsigned *)&value), field(devices[0], 165, LINKS),
           nvmlDeviceGetGpuFabricInfoV(devices[0], &(nvmlGpuFabricInfoV_t){0}));
}

/* The other process of `ipc`. */
static void export_to(int in, int out) {
    struct link link = {0, in, out};
    CUevent event;
    start(0);
    CUdeviceptr p = allocate();
    OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
    Handle handle;
    OK(cuIpcGetEventHandle(&handle, event));
    put_handle(link, export(p));
    put_handle(link, handle);
    wait_for(link);
}

static void ipc(int device, const char *visible, int alone, const char *program) {
    int to[2], from[2], result;
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        char in[8], out[8];
        sprintf(in, "%d", to[0]);
        sprintf(out, "%d", from[1]);
        close(to[1]);
        close(from[0]);
        if (alone) unsetenv("LD_PRELOAD");
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
        execl(program, program, "export", in, out, NULL);
        _exit(6);
    }
    close(to[0]);
    close(from[1]);
    struct link link = {pid, from[0], to[1]};
    begin();
    OK(cuCtxSetCurrent(contexts[device]));
    Handle memory = get_handle(link), handle = get_handle(link);
    CUdeviceptr p = 0x77, first;
    CUevent event = (CUevent)0x77;
    result = cuIpcOpenMemHandle_v2(&p, memory, LAZY);
    printf("memory=%d output=%s", result, p == 0x77 ? "untouched" : "mapped");
    first = p;
    if (result == 0) {
        printf(" again=%d", cuIpcOpenMemHandle_v2(&p, memory, LAZY));
        printf(" close=%d,%d", cuIpcCloseMemHandle(first), cuIpcCloseMemHandle(first));
    }
    result = cuIpcOpenEventHandle(&event, handle);
    printf(" event=%d output=%s", result, event == (CUevent)0x77 ? "untouched" : "opened");
    p = 0x77;
    printf(" flags=%d no-output=%d\n", cuIpcOpenMemHandle_v2(&p, memory, 0), cuIpcOpenMemHandle_v2(NULL, memory, LAZY));
    tell(link);
    ended(link);
}

static void peers(void) {
    begin();
    OK(cuCtxSetCurrent(contexts[0]));
    for (int j = 1; j < count; j++) printf("%s%d", j > 1 ? "," : "enable=", cuCtxEnablePeerAccess(contexts[j], 0));
    printf(" again=%d", cuCtxEnablePeerAccess(contexts[1], 0));
    printf(" disable=%d", cuCtxDisablePeerAccess(contexts[1]));
    printf(" last=%d", cuCtxEnablePeerAccess(contexts[count - 1], 0));
    printf(" first=%d\n", cuCtxEnablePeerAccess(contexts[1], 0));
    OK(cuCtxSetCurrent(contexts[1]));
    printf("another context: %d\n", cuCtxEnablePeerAccess(contexts[0], 0));
    OK(cuDevicePrimaryCtxReset_v2(0));
    contexts[0] = retain(0);
    OK(cuCtxSetCurrent(contexts[0]));
    for (int j = 1; j < count; j++) printf("%s%d", j > 1 ? "," : "after reset=", cuCtxEnablePeerAccess(contexts[j], 0));
    printf("\n");
}

static void *ask_all(void *into) {
    char *text = into;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            char line[128];
            if (i == j) continue;
            status(i, j, line);
            text += sprintf(text, "%d %d: %s ", i, j, line);
            ask(i, j, line);
            text += sprintf(text, "%s\n", line);
        }
    return NULL;
}

static void threads(void) {
    static char texts[4][4096];
    pthread_t ids[4];
    begin_nvml();
    begin();
    for (int t = 0; t < 4; t++) CHECK(pthread_create(&ids[t], NULL, ask_all, texts[t]) == 0);
    for (int t = 0; t < 4; t++) CHECK(pthread_join(ids[t], NULL) == 0);
    for (int t = 1; t < 4; t++) CHECK(strcmp(texts[0], texts[t]) == 0);
    printf("%s", texts[0]);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char line[128];
        status(0, 1, line);
        printf("child: %s\n", line);
        exit(0);
    }
    ended((struct link){pid, -1, -1});
}

int main(int argc, char **argv) {
    alarm(60);
    CHECK(argc >= 2);
    if (strcmp(argv[1], "cuda") == 0) cuda();
    else if (strcmp(argv[1], "nvml") == 0) nvml();
    else if (strcmp(argv[1], "peers") == 0) peers();
    else if (strcmp(argv[1], "threads") == 0) threads();
    else if (strcmp(argv[1], "ipc") == 0 && argc >= 4) ipc(atoi(argv[2]), argv[3], argc > 4, argv[0]);
    else if (strcmp(argv[1], "export") == 0 && argc == 4) export_to(atoi(argv[2]), atoi(argv[3]));
    else CHECK(!"such a thing to do");
    return 0;
}
