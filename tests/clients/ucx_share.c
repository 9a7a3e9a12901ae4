// Two processes send device memory to each other with UCX, which does so by CUDA IPC: the receiver of a message
// opens the sender's memory and copies from it. UCX itself is the client here; this program only calls it, on
// device memory of the driver that libcuda.so.1 is. Prints what arrived, and fails where it is wrong.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

typedef unsigned long long CUdeviceptr;
static void *driver;
static const char *who;
#define CU(name, types, ...)                                                                                           \
    do {                                                                                                               \
        int(*function) types = (int(*) types)dlsym(driver, #name);                                                     \
        int result = function ? function(__VA_ARGS__) : 500;                                                           \
        if (result) fprintf(stderr, "%s: %s: %d\n", who, #name, result), _exit(1);                                     \
    } while (0)
#define UCX(call)                                                                                                      \
    do {                                                                                                               \
        ucs_status_t status_ = (call);                                                                                 \
        if (status_ != UCS_OK) fprintf(stderr, "%s: %s: %s\n", who, #call, ucs_status_string(status_)), _exit(1);      \
    } while (0)
enum { SIZE = 8 << 20, TAG = 42, ROUNDS = 3 };

static ucp_worker_h worker;

static void wait_for(ucs_status_ptr_t request) {
    if (request == NULL) return;
    if (UCS_PTR_IS_ERR(request)) UCX(UCS_PTR_STATUS(request));
    while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker);
    UCX(ucp_request_check_status(request));
    ucp_request_free(request);
}

static void transfer(int file, void *bytes, size_t size, int out) {
    for (size_t done = 0; done < size;) {
        ssize_t n = out ? write(file, (char *)bytes + done, size - done) : read(file, (char *)bytes + done, size - done);
        if (n <= 0) fprintf(stderr, "%s: the other process has gone\n", who), _exit(1);
        done += n;
    }
}

static int run(int device, int in, int out) {
    who = device ? "receiver" : "sender";
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) fprintf(stderr, "%s: %s\n", who, dlerror()), _exit(1);
    void *context;
    CUdeviceptr memory;
    CU(cuInit, (unsigned), 0);
    CU(cuDevicePrimaryCtxRetain, (void **, int), &context, device);
    CU(cuCtxSetCurrent, (void *), context);
    CU(cuMemAlloc_v2, (CUdeviceptr *, size_t), &memory, SIZE);

    ucp_params_t parameters = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker_parameters = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                             .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_context_h ucx;
    ucp_address_t *own, *other;
    size_t own_size, other_size;
    UCX(ucp_init(&parameters, NULL, &ucx));
    UCX(ucp_worker_create(ucx, &worker_parameters, &worker));
    UCX(ucp_worker_get_address(worker, &own, &own_size));
    transfer(out, &own_size, sizeof own_size, 1);
    transfer(out, own, own_size, 1);
    transfer(in, &other_size, sizeof other_size, 0);
    other = malloc(other_size);
    transfer(in, other, other_size, 0);
    ucp_ep_params_t endpoint_parameters = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = other};
    ucp_ep_h endpoint;
    UCX(ucp_ep_create(worker, &endpoint_parameters, &endpoint));

    ucp_request_param_t options = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE, .memory_type = UCS_MEMORY_TYPE_CUDA};
    unsigned char *host = malloc(SIZE);
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (device == 0) {
            for (int i = 0; i < SIZE; i++) host[i] = (unsigned char)(i * 7 + round);
            CU(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t), memory, host, SIZE);
            wait_for(ucp_tag_send_nbx(endpoint, (void *)memory, SIZE, TAG, &options));
        } else {
            wait_for(ucp_tag_recv_nbx(worker, (void *)memory, SIZE, TAG, (ucp_tag_t)-1, &options));
            CU(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), host, memory, SIZE);
            for (int i = 0; i < SIZE; i++) wrong += host[i] != (unsigned char)(i * 7 + round);
            printf("received %d bytes, %d wrong\n", SIZE, wrong);
            fflush(stdout);
        }
    }
    // Both stay until both are done: the sender's memory is open elsewhere.
    ucp_request_param_t flush = {0};
    wait_for(ucp_ep_flush_nbx(endpoint, &flush));
    char done = 'd';
    transfer(out, &done, 1, 1);
    while (read(in, &done, 1) != 1) ucp_worker_progress(worker);
    wait_for(ucp_ep_close_nbx(endpoint, &flush));
    ucp_worker_release_address(worker, own);
    ucp_worker_destroy(worker);
    ucp_cleanup(ucx);
    CU(cuMemFree_v2, (CUdeviceptr), memory);
    return wrong != 0;
}

int main(void) {
    int a[2], b[2], failed = 0;
    if (pipe(a) || pipe(b)) return 1;
    alarm(120);
    for (int device = 0; device < 2; device++)
        if (fork() == 0) exit(device ? run(1, a[0], b[1]) : run(0, b[0], a[1]));
    for (int i = 0; i < 2; i++) {
        int status;
        wait(&status);
        failed |= status != 0;
    }
    return failed;
}
