// https://github.com/ROCm/hip/issues/3778 (event taken for done while the stream is busy)
// The producer asks its event whether the data is ready, ignores the answer (NOT_READY), and tells the consumer to read.
#include "../job.h"
#define N 1024
static int done(CUevent e) {
  cuEventQuery(e); /* wrong: the result is ignored, it is CUDA_ERROR_NOT_READY */
  return 1;
}
int main(void) {
  int r = ranks(2), bad = 0; CUipcMemHandle h; CUdeviceptr t; CUevent e; CUstream s;
  if (r < 0) return reap();
  start(0);
  if (r == 0) {
    CK(cuStreamCreate(&s, 1));
    CK(cuMemAlloc_v2(&t, N));
    CK(cuMemsetD8_v2(t, 0, N));
    CK(cuEventCreate(&e, 2));
    CK(cuIpcGetMemHandle(&h, t));
    CK(cuLaunchHostFunc(s, kernel, (void *)&sh->flag[0])); /* slow */
    CK(cuMemsetD8Async(t, 9, N, s));
    CK(cuEventRecord(e, s));
    while (!done(e)) usleep(100);
    memcpy(sh->box[0], &h, sizeof h);
    barrier(); barrier();
    CK(cuStreamSynchronize(s));
    CK(cuEventDestroy_v2(e));
    CK(cuMemFree_v2(t));
    return 0;
  }
  unsigned char v[N];
  barrier();
  memcpy(&h, sh->box[0], sizeof h);
  CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
  CK(cuMemcpyDtoH_v2(v, t, N));
  if (v[0] != 9) fprintf(stderr, "logits are %d, not 9\n", v[0]), bad = 1;
  sh->flag[0] = 1;
  CK(cuIpcCloseMemHandle(t));
  barrier();
  return bad;
}
