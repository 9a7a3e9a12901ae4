// https://github.com/kvcache-ai/Mooncake/pull/3303 , https://github.com/pytorch/pytorch/issues/16926
// The producer shares its memory and an event; the consumer opens both and never waits for the event.
#include "../job.h"
#define N 4096
struct msg { CUipcMemHandle mem; CUipcEventHandle ready; };
int main(void) {
  int r = ranks(2); struct msg m; CUdeviceptr t; CUevent ready; CUstream s;
  if (r < 0) return reap();
  start(0);
  CK(cuStreamCreate(&s, 1));
  if (r == 0) {
    CK(cuMemAlloc_v2(&t, N));
    CK(cuMemsetD8_v2(t, 0, N));
    CK(cuEventCreate(&ready, EV_IPC));
    CK(cuIpcGetMemHandle(&m.mem, t));
    CK(cuIpcGetEventHandle(&m.ready, ready));
    CK(cuLaunchHostFunc(s, kernel, (void *)&sh->flag[0])); /* the kernels of the layer before */
    CK(cuMemsetD8Async(t, 7, N, s));
    CK(cuEventRecord(ready, s));
    memcpy(sh->box[0], &m, sizeof m);
    barrier();
    barrier();
    CK(cuStreamSynchronize(s));
    CK(cuEventDestroy_v2(ready));
    CK(cuMemFree_v2(t));
    return 0;
  }
  unsigned char v[N]; CUdeviceptr own;
  CK(cuMemAlloc_v2(&own, N));
  barrier();
  memcpy(&m, sh->box[0], sizeof m);
  CK(cuIpcOpenMemHandle_v2(&t, m.mem, LAZY));
  CK(cuIpcOpenEventHandle(&ready, m.ready));
  /* missing: cuStreamWaitEvent(s, ready, 0) */
  CK(cuMemcpyDtoDAsync_v2(own, t, N, s));
  CK(cuStreamSynchronize(s));
  sh->flag[0] = 1;
  CK(cuMemcpyDtoH_v2(v, own, N));
  CK(cuEventDestroy_v2(ready));
  CK(cuIpcCloseMemHandle(t));
  barrier();
  if (v[0] != 7 || v[N - 1] != 7) { fprintf(stderr, "got %d, wanted 7\n", v[0]); return 1; }
  return 0;
}
