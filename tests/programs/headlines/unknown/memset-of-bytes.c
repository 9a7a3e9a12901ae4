// https://github.com/pytorch/pytorch/issues/84994 (a tensor of ones that isn't)
// The producer fills bytes instead of 32-bit words.
#include "../job.h"
#define N 1024
int main(void) {
  int p[2];
  if (pipe(p)) return 9;
  if (fork() == 0) {
    CUipcMemHandle h; CUdeviceptr t; int v[N];
    start(0);
    get(p[0], &h, sizeof h);
    CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
    CK(cuMemcpyDtoH_v2(v, t, sizeof v));
    CK(cuIpcCloseMemHandle(t));
    for (int i = 0; i < N; i++)
      if (v[i] != 1) { fprintf(stderr, "mask[%d] is 0x%x, not 1\n", i, v[i]); return 1; }
    return 0;
  }
  CUdeviceptr t; CUipcMemHandle h;
  start(0);
  CK(cuMemAlloc_v2(&t, N * 4));
  CK(cuMemsetD8_v2(t, 1, N * 4)); /* wrong: cuMemsetD32(t, 1, N) */
  CK(cuCtxSynchronize());
  CK(cuIpcGetMemHandle(&h, t));
  put(p[1], &h, sizeof h);
  int bad = reap();
  CK(cuMemFree_v2(t));
  return bad;
}
