// Double buffer with 6 frames: slot k&1 is written only after the reader has acknowledged frame k-2.
#include "../job.h"
#define N 1024
int main(void) {
  int to[2], back[2]; CUipcMemHandle h; CUdeviceptr b; CUstream s; char c;
  if (pipe(to) || pipe(back)) return 9;
  pid_t w = fork();
  start(0);
  CK(cuStreamCreate(&s, 1));
  if (w == 0) {
    unsigned char v[N]; int bad = 0;
    get(to[0], &h, sizeof h);
    CK(cuIpcOpenMemHandle_v2(&b, h, LAZY));
    for (int k = 0; k < 6; k++) {
      get(to[0], &c, 1);
      CK(cuMemcpyDtoHAsync_v2(v, b + (k & 1) * N, N, s));
      CK(cuStreamSynchronize(s));
      bad |= v[0] != 30 + k || v[N - 1] != 30 + k;
      put(back[1], &c, 1);
    }
    CK(cuIpcCloseMemHandle(b));
    return bad;
  }
  CK(cuMemAlloc_v2(&b, 2 * N));
  CK(cuIpcGetMemHandle(&h, b));
  put(to[1], &h, sizeof h);
  for (int k = 0; k < 6; k++) {
    if (k >= 2) get(back[0], &c, 1);
    CK(cuMemsetD8Async(b + (k & 1) * N, 30 + k, N, s));
    CK(cuStreamSynchronize(s));
    put(to[1], "f", 1);
  }
  int bad = reap();
  CK(cuMemFree_v2(b));
  return bad;
}
