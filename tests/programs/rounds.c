/* rounds COUNT: two processes share memory and an event that often, in the right order: the exporter frees when the importer says
 * that it has closed. Runs on a driver that shares. */
#include "common.h"
#include <sys/socket.h>

CUresult cuInit(unsigned), cuDevicePrimaryCtxRetain(CUcontext *, CUdevice), cuCtxSetCurrent(CUcontext),
    cuMemAlloc_v2(CUdeviceptr *, size_t), cuEventCreate(CUevent *, unsigned);

struct message {
    CUipcMemHandle memory;
    CUipcEventHandle event;
};

static int begin(void) {
    CUcontext context;
    return cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0;
}

int main(int argc, char **argv) {
    int sockets[2];
    CHECK(argc == 2 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0);
    int count = atoi(argv[1]);
    pid_t importer = fork();
    CHECK(importer >= 0 && begin());
    for (int i = 0; i < count; i++) {
        struct message message;
        CUdeviceptr pointer;
        CUevent event;
        char closed = 1;
        if (importer) {
            CHECK(cuMemAlloc_v2(&pointer, 1 << 20) == 0 && cuIpcGetMemHandle(&message.memory, pointer) == 0);
            CHECK(cuEventCreate(&event, 6) == 0 && cuIpcGetEventHandle(&message.event, event) == 0);
            CHECK(write(sockets[0], &message, sizeof message) == sizeof message);
            CHECK(read(sockets[0], &closed, 1) == 1);
            CHECK(cuMemFree_v2(pointer) == 0 && cuEventDestroy_v2(event) == 0);
        } else {
            CHECK(read(sockets[1], &message, sizeof message) == sizeof message);
            CHECK(cuIpcOpenMemHandle_v2(&pointer, message.memory, 1) == 0 && cuIpcOpenEventHandle(&event, message.event) == 0);
            CHECK(cuIpcCloseMemHandle(pointer) == 0 && cuEventDestroy_v2(event) == 0);
            CHECK(write(sockets[1], &closed, 1) == 1);
        }
    }
    if (!importer) return 0;
    int status = -1;
    CHECK(waitpid(importer, &status, 0) == importer && status == 0);
    printf("done\n");
    return 0;
}
