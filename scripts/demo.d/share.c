// Two processes share memory and an event through CUDA IPC, across two devices with peer access: what NCCL,
// PyTorch and UCX do at their start, in 100 lines. Uses the driver alone, so that it runs on the simulated one.
// Exits with 0 if the importer read what the exporter wrote, and the exporter what the importer answered.
// With the argument `early` it has a bug: the importer says that it is done before it closes the memory.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// The parts of cuda.h that are used here.
typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx *CUcontext;
typedef struct CUev *CUevent;
typedef struct { char bytes[64]; } CUipcHandle;
enum { CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_INTERPROCESS = 4, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1 };

static void *driver;
static CUresult (*get_name)(CUresult, const char **);
static const char *who;

// Calls a driver function by name, and ends the process where it fails.
#define CALL(name, types, ...)                                                                                         \
    do {                                                                                                               \
        CUresult(*function) types = (CUresult(*) types)dlsym(driver, #name);                                           \
        CUresult result = function ? function(__VA_ARGS__) : 500;                                                      \
        const char *text = "?";                                                                                        \
        if (result == 0) break;                                                                                        \
        get_name(result, &text);                                                                                       \
        fprintf(stderr, "%s: %s: %s\n", who, #name, text);                                                             \
        _exit(1);                                                                                                      \
    } while (0)

struct message {
    CUipcHandle memory, event;
};
static int to_importer[2], to_exporter[2], is_early;

static void begin(const char *name, CUdevice device) {
    who = name;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "%s: %s\n", who, dlerror());
        _exit(1);
    }
    get_name = (CUresult(*)(CUresult, const char **))dlsym(driver, "cuGetErrorName");
    CUcontext context;
    CALL(cuInit, (unsigned), 0);
    CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), &context, device);
    CALL(cuCtxSetCurrent, (CUcontext), context);
}

static int exporter(void) {
    begin("exporter", 0);
    struct message message;
    CUdeviceptr memory;
    CUevent event;
    char answer[32] = "";
    CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &memory, 1 << 20);
    CALL(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t), memory, "hello from device 0", 20);
    CALL(cuEventCreate, (CUevent *, unsigned), &event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    CALL(cuIpcGetMemHandle, (CUipcHandle *, CUdeviceptr), &message.memory, memory);
    CALL(cuIpcGetEventHandle, (CUipcHandle *, CUevent), &message.event, event);
    CALL(cuEventRecord, (CUevent, void *), event, NULL);
    char done;
    if (write(to_importer[1], &message, sizeof message) != sizeof message || read(to_exporter[0], &done, 1) != 1)
        return 1;
    CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), answer, memory, sizeof answer - 1);
    printf("exporter read \"%s\"\n", answer);
    fflush(stdout);
    CALL(cuEventDestroy_v2, (CUevent), event);
    CALL(cuMemFree_v2, (CUdeviceptr), memory);
    if (is_early && (write(to_importer[1], "f", 1) != 1 || read(to_exporter[0], &done, 1) != 1)) return 1;
    return strcmp(answer, "hello from device 1") != 0;
}

static int importer(void) {
    begin("importer", 1);
    struct message message;
    if (read(to_importer[0], &message, sizeof message) != sizeof message) return 1;
    CUdeviceptr memory;
    CUevent event;
    CUcontext peer;
    int can;
    char text[32] = "";
    CALL(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice), &can, 1, 0);
    CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), &peer, 0);
    if (can) CALL(cuCtxEnablePeerAccess, (CUcontext, unsigned), peer, 0);
    CALL(cuIpcOpenMemHandle_v2, (CUdeviceptr *, CUipcHandle, unsigned), &memory, message.memory,
         CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    CALL(cuIpcOpenEventHandle, (CUevent *, CUipcHandle), &event, message.event);
    CALL(cuStreamWaitEvent, (void *, CUevent, unsigned), NULL, event, 0);
    CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), text, memory, sizeof text - 1);
    printf("importer read \"%s\"\n", text);
    fflush(stdout);
    CALL(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t), memory, "hello from device 1", 20);
    CALL(cuEventDestroy_v2, (CUevent), event);
    // The exporter frees the memory when it hears that the importer is done. Wait until it has.
    if (is_early && (write(to_exporter[1], "d", 1) != 1 || read(to_importer[0], text, 1) != 1)) return 1;
    CALL(cuIpcCloseMemHandle, (CUdeviceptr), memory);
    if (can) CALL(cuCtxDisablePeerAccess, (CUcontext), peer);
    return write(to_exporter[1], "d", 1) != 1 || strcmp(text + is_early, "hello from device 0" + is_early) != 0;
}

int main(int count, char **arguments) {
    is_early = count > 1 && strcmp(arguments[1], "early") == 0;
    if (pipe(to_importer) || pipe(to_exporter)) return 1;
    int (*roles[2])(void) = {exporter, importer}, failed = 0;
    for (int i = 0; i < 2; i++)
        // The driver must not be used before a fork.
        if (fork() == 0) {
            close(to_importer[i == 0 ? 0 : 1]);
            close(to_exporter[i == 0 ? 1 : 0]);
            exit(roles[i]());
        }
    for (int i = 0; i < 2; i++) close(to_importer[i]), close(to_exporter[i]);
    for (int i = 0; i < 2; i++) {
        int status;
        wait(&status);
        failed |= status != 0;
    }
    return failed;
}
