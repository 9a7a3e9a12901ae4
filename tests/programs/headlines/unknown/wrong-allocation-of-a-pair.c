// https://github.com/flashinfer-ai/flashinfer/pull/1894 (the wrong buffer registered)
// Double buffer: the producer computes into `back` and exports `front`. Nobody ever reads `back`.
#include "../job.h"
#define N 1024
int main(void) {
  int to[2], back_[2]; char c;
  if (pipe(to) || pipe(back_)) return 9;
  if (fork() == 0) {
    CUipcMemHandle h; CUdeviceptr t; int v[N];
    start(0);
    get(to[0], &h, sizeof h);
    CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
    CK(cuMemcpyDtoH_v2(v, t, sizeof v));
    CK(cuIpcCloseMemHandle(t));
    put(back_[1], "k", 1);
    if (v[5] != 77) { fprintf(stderr, "frame holds %d, not 77\n", v[5]); return 1; }
    return 0;
  }
  CUdeviceptr front, back; CUipcMemHandle h;
  start(0);
  CK(cuMemAlloc_v2(&front, N * 4));
  CK(cuMemAlloc_v2(&back, N * 4));
  CK(cuMemsetD32_v2(front, 0, N));
  CK(cuMemsetD32_v2(back, 77, N));
  CK(cuCtxSynchronize());
  CK(cuIpcGetMemHandle(&h, front)); /* wrong: back */
  put(to[1], &h, sizeof h);
  get(back_[0], &c, 1);
  CK(cuMemFree_v2(front));
  CK(cuMemFree_v2(back));
  return reap();
}
