// Two processes: the exporter shares memory and an event of GPU 0, the importer reads them on the last GPU, where that is
// another one through peer access, doubles the numbers in a kernel, and the exporter checks. Built with the static and
// with the shared CUDA runtime.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess) {                                                                                   \
            printf("%s: %s\n", #call, cudaGetErrorName(error_));                                                       \
            fflush(stdout);                                                                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
enum { NUMBERS = 1 << 20 };
struct message {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
};
static int to_importer[2], to_exporter[2];
__global__ void twice(int *numbers) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < NUMBERS) numbers[i] *= 2;
}
static void exporter() {
    int *numbers;
    cudaEvent_t event;
    message m;
    memset(&m, 0, sizeof m);
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc(&numbers, NUMBERS * sizeof(int)));
    int *host = (int *)malloc(NUMBERS * sizeof(int));
    for (int i = 0; i < NUMBERS; i++) host[i] = i;
    CHECK(cudaMemcpy(numbers, host, NUMBERS * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
    CHECK(cudaIpcGetMemHandle(&m.memory, numbers));
    CHECK(cudaIpcGetEventHandle(&m.event, event));
    CHECK(cudaEventRecord(event));
    if (write(to_importer[1], &m, sizeof m) != sizeof m) _exit(2);
    char done;
    if (read(to_exporter[0], &done, 1) != 1) _exit(3);
    CHECK(cudaMemcpy(host, numbers, NUMBERS * sizeof(int), cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < NUMBERS; i++) wrong += host[i] != 2 * i;
    printf("exporter: %d wrong of %d\n", wrong, NUMBERS);
    fflush(stdout);
    CHECK(cudaEventDestroy(event));
    CHECK(cudaFree(numbers));
    exit(wrong != 0);
}
static void importer() {
    message m;
    if (read(to_importer[0], &m, sizeof m) != sizeof m) _exit(2);
    int can = 0, *numbers;
    cudaEvent_t event;
    int own;
    CHECK(cudaGetDeviceCount(&own));
    CHECK(cudaSetDevice(--own));
    if (own) {
        CHECK(cudaDeviceCanAccessPeer(&can, own, 0));
        printf("importer: can access %d\n", can);
        CHECK(cudaDeviceEnablePeerAccess(0, 0));
        cudaError_t again = cudaDeviceEnablePeerAccess(0, 0);
        printf("importer: enabled again: %s\n", cudaGetErrorName(again));
        cudaGetLastError();
    }
    CHECK(cudaIpcOpenMemHandle((void **)&numbers, m.memory, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaIpcOpenEventHandle(&event, m.event));
    CHECK(cudaStreamWaitEvent(0, event, 0));
    twice<<<(NUMBERS + 255) / 256, 256>>>(numbers);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaIpcCloseMemHandle(numbers));
    CHECK(cudaEventDestroy(event));
    if (own) CHECK(cudaDeviceDisablePeerAccess(0));
    printf("importer: done\n");
    fflush(stdout);
    if (write(to_exporter[1], "d", 1) != 1) _exit(3);
    exit(0);
}
int main() {
    if (pipe(to_importer) || pipe(to_exporter)) return 1;
    pid_t children[2];
    // The driver must not be used before a fork.
    if (!(children[0] = fork())) exporter();
    if (!(children[1] = fork())) importer();
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        int status;
        waitpid(children[i], &status, 0);
        if (status) kill(children[1 - i], SIGTERM);
        failed |= status != 0;
    }
    return failed;
}
