// UCX between two processes: device memory of one goes to the other's device over UCX's cuda_ipc transport,
// which exports, opens and closes it by itself. Says how many bytes were wrong.
//
// Needs libucp and its headers (PyPI: libucx-cu12), UCX_TLS=sm,cuda_copy,cuda_ipc, and some libnvidia-ml.so.1 that
// has nvmlErrorString: UCX does without the rest. It takes only devices whose primary context is active.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

typedef unsigned long long CUdeviceptr;
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuMemAlloc_v2(CUdeviceptr *, size_t), cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
int cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);

#define SIZE (8 << 20)
#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        int result_ = (int)(call);                                                                           \
        if (result_) {                                                                                       \
            printf("%s is %d\n", #call, result_);                                                            \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static ucp_worker_h worker;

static void finish(void *request) {
    if (UCS_PTR_IS_ERR(request)) CHECK(UCS_PTR_STATUS(request));
    if (!request) return;
    ucs_status_t status;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    ucp_request_free(request);
    CHECK(status);
}

int main(void) {
    int pipes[2][2];
    CHECK(pipe(pipes[0]) || pipe(pipes[1]));
    pid_t child = fork();
    int receiver = !child;
    alarm(60);

    void *context;
    CUdeviceptr memory;
    char *bytes = malloc(SIZE);
    for (int i = 0; i < SIZE; i++)
        bytes[i] = receiver ? 0 : (char)(i * 7 + 3);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, receiver));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc_v2(&memory, SIZE));
    CHECK(cuMemcpyHtoD_v2(memory, bytes, SIZE));

    ucp_context_h ucp;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker_params = {0};
    ucp_address_t *address;
    size_t length, other_length;
    CHECK(ucp_init(&params, NULL, &ucp));
    CHECK(ucp_worker_create(ucp, &worker_params, &worker));
    CHECK(ucp_worker_get_address(worker, &address, &length));
    CHECK(write(pipes[receiver][1], &length, sizeof length) != sizeof length);
    CHECK(write(pipes[receiver][1], address, length) != (ssize_t)length);
    CHECK(read(pipes[!receiver][0], &other_length, sizeof other_length) != sizeof other_length);
    void *other = malloc(other_length);
    CHECK(read(pipes[!receiver][0], other, other_length) != (ssize_t)other_length);
    ucp_ep_params_t ep_params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = other};
    ucp_ep_h ep;
    CHECK(ucp_ep_create(worker, &ep_params, &ep));

    ucp_request_param_t on_device = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                     .memory_type = UCS_MEMORY_TYPE_CUDA};
    if (!receiver) {
        finish(ucp_tag_send_nbx(ep, (void *)(uintptr_t)memory, SIZE, 1, &on_device));
        finish(ucp_tag_recv_nbx(worker, (void *)(uintptr_t)memory, 64, 2, -1, &on_device));
        for (int i = 0; i < 1000; i++)
            ucp_worker_progress(worker);
        int status = 0;
        waitpid(child, &status, 0);
        return status != 0;
    }
    finish(ucp_tag_recv_nbx(worker, (void *)(uintptr_t)memory, SIZE, 1, -1, &on_device));
    memset(bytes, 0, SIZE);
    CHECK(cuMemcpyDtoH_v2(bytes, memory, SIZE));
    int wrong = 0;
    for (int i = 0; i < SIZE; i++)
        wrong += bytes[i] != (char)(i * 7 + 3);
    printf("received %d bytes, %d wrong\n", SIZE, wrong);
    finish(ucp_tag_send_nbx(ep, (void *)(uintptr_t)memory, 64, 2, &on_device));
    fflush(stdout);
    _exit(wrong != 0);
}
