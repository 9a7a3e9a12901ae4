// Opens memory of another process through the CUDA runtime, twice, and says what came of it and how long it took.
// Prints: "can N", "enable NAME", "open NAME MILLISECONDS", "again NAME MILLISECONDS", "close NAME".
#include <chrono>
#include <cstdio>
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

static double now() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main() {
    int to[2], from[2];
    if (pipe(to) || pipe(from)) return 2;
    if (!fork()) {
        cudaIpcMemHandle_t handle;
        void *pointer;
        char turn;
        bool bad = cudaSetDevice(0) || cudaMalloc(&pointer, 1 << 20) || cudaIpcGetMemHandle(&handle, pointer);
        if (bad || write(from[1], &handle, sizeof handle) != sizeof handle || read(to[0], &turn, 1) != 1) _exit(1);
        _exit(0);
    }
    cudaIpcMemHandle_t handle;
    if (read(from[0], &handle, sizeof handle) != sizeof handle) return 2;
    int can = -1;
    void *pointer = nullptr;
    cudaSetDevice(1);
    cudaFree(0);
    cudaDeviceCanAccessPeer(&can, 1, 0);
    printf("can %d\n", can);
    printf("enable %s\n", cudaGetErrorName(cudaDeviceEnablePeerAccess(0, 0)));
    for (const char *name : {"open", "again"}) {
        double begun = now();
        cudaError_t result = cudaIpcOpenMemHandle(&pointer, handle, cudaIpcMemLazyEnablePeerAccess);
        printf("%s %s %.0f\n", name, cudaGetErrorName(result), now() - begun);
    }
    printf("close %s\n", cudaGetErrorName(cudaIpcCloseMemHandle(pointer)));
    fflush(stdout);
    int status = 1;
    if (write(to[1], "", 1) != 1) return 2;
    wait(&status);
    return status;
}
