// What a stream captures is not done until the graph that comes of it is launched, and then at each launch, in order.
#include "common.h"

int cuStreamBeginCapture_v2(void *, int), cuStreamEndCapture(void *, void **), cuStreamIsCapturing(void *, int *);
int cuGraphInstantiateWithFlags(void **, void *, unsigned long long), cuGraphLaunch(void *, void *), cuGraphDestroy(void *);
int cuGraphExecDestroy(void *), cuStreamSynchronize(void *), cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, void *);
int cuLaunchHostFunc(void *, void (*)(void *), void *), cuStreamWaitEvent(void *, void *, unsigned);
int cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, void *);
enum { ILLEGAL_STATE = 401, UNSUPPORTED = 900, INVALIDATED = 901, UNMATCHED = 903, CAPTURED_EVENT = 907, ILLEGAL_ADDRESS = 700 };

static void counts(void *data) { ++*(int *)data; }

int main(void) {
    void *context, *stream, *other, *graph, *launched, *event;
    CUdeviceptr a, b;
    int count = 0, status;
    unsigned char byte;
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&context, 0), 0);
    IS(cuCtxSetCurrent(context), 0);
    IS(cuStreamCreate(&stream, 1), 0);
    IS(cuStreamCreate(&other, 1), 0);
    IS(cuEventCreate(&event, 0), 0);
    IS(cuMemAlloc_v2(&a, 16), 0);
    IS(cuMemAlloc_v2(&b, 16), 0);
    IS(cuMemsetD8_v2(b, 9, 16), 0);
    IS(cuStreamBeginCapture_v2(NULL, 0), UNSUPPORTED);
    IS(cuStreamEndCapture(stream, &graph), ILLEGAL_STATE);
    IS(cuStreamBeginCapture_v2(stream, 0), 0);
    IS(cuStreamBeginCapture_v2(stream, 0), ILLEGAL_STATE);
    IS(cuStreamIsCapturing(stream, &status), 0);
    IS(status, 1);
    IS(cuMemsetD8Async(a, 4, 16, stream), 0);
    IS(cuLaunchHostFunc(stream, counts, &count), 0);
    // Another stream takes part where it waits for what was captured.
    IS(cuEventRecord(event, stream), 0);
    IS(cuStreamWaitEvent(other, event, 0), 0);
    IS(cuMemcpyDtoDAsync_v2(b, a, 16, other), 0);
    IS(cuStreamEndCapture(other, &graph), UNMATCHED);
    IS(cuStreamEndCapture(stream, &graph), 0);
    IS(cuStreamIsCapturing(other, &status), 0);
    IS(status, 0);
    IS(cuMemcpyDtoH_v2(&byte, b, 1), 0);
    IS(byte == 9 && count == 0, 1);
    IS(cuGraphInstantiateWithFlags(&launched, graph, 16), 1);
    IS(cuGraphInstantiateWithFlags(&launched, graph, 5), 1);
    IS(cuGraphInstantiateWithFlags(&launched, graph, 0), 0);
    IS(cuGraphDestroy(graph), 0);
    for (int i = 1; i <= 3; i++) {
        IS(cuMemsetD8_v2(b, 9, 16), 0);
        IS(cuStreamSynchronize(NULL), 0);
        IS(cuGraphLaunch(launched, stream), 0);
        IS(cuStreamSynchronize(stream), 0);
        IS(cuMemcpyDtoH_v2(&byte, b, 1), 0);
        IS(byte == 4 && count == i, 1);
    }
    IS(cuGraphExecDestroy(launched), 0);
    IS(cuGraphLaunch(launched, stream), 1);
    // Who asks whether what is captured is done ends the capture.
    IS(cuStreamBeginCapture_v2(stream, 1), 0);
    IS(cuEventRecord(event, stream), 0);
    IS(cuEventQuery(event), CAPTURED_EVENT);
    IS(cuMemsetD8Async(b, 4, 16, stream), INVALIDATED);
    IS(cuStreamEndCapture(stream, &graph), INVALIDATED);
    IS(cuStreamBeginCapture_v2(stream, 2), 0);
    IS(cuStreamSynchronize(stream), UNSUPPORTED);
    IS(cuStreamEndCapture(stream, &graph), INVALIDATED);
    IS(cuStreamSynchronize(stream), 0);
    // Of memory that is gone, the device finds nothing: no call of this context succeeds any more.
    IS(cuStreamBeginCapture_v2(stream, 0), 0);
    IS(cuMemsetD8Async(a, 4, 16, stream), 0);
    IS(cuStreamEndCapture(stream, &graph), 0);
    IS(cuGraphInstantiateWithFlags(&launched, graph, 0), 0);
    IS(cuMemFree_v2(a), 0);
    IS(cuGraphLaunch(launched, stream), 0);
    IS(cuStreamSynchronize(stream), ILLEGAL_ADDRESS);
    IS(cuMemcpyDtoH_v2(&byte, b, 1), ILLEGAL_ADDRESS);
    return 0;
}
