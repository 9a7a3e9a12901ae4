// https://github.com/numba/numba/pull/3310 , https://github.com/kvcache-ai/Mooncake/pull/1622
// Tensors are parts of one segment. The exporter looks up the segment's base (as it should), but the offset gets lost.
#include "../job.h"
#define SEG (64 << 10)
#define T (16 << 10)
int main(void) {
  int to[2], back[2]; char c;
  if (pipe(to) || pipe(back)) return 9;
  if (fork() == 0) {
    CUipcMemHandle h; CUdeviceptr t; unsigned char v[T]; int bad = 0;
    start(0);
    for (int i = 0; i < 3; i++) {
      get(to[0], &h, sizeof h);
      CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
      CK(cuMemcpyDtoH_v2(v, t, T));
      CK(cuIpcCloseMemHandle(t));
      if (v[0] != 10 * (i + 1)) fprintf(stderr, "tensor %d begins with %d, not %d\n", i, v[0], 10 * (i + 1)), bad = 1;
      put(back[1], "k", 1);
    }
    return bad;
  }
  CUdeviceptr seg; size_t used = 0;
  start(0);
  CK(cuMemAlloc_v2(&seg, SEG));
  for (int i = 0; i < 3; i++) {
    CUdeviceptr t = seg + used, base; size_t size; CUipcMemHandle h;
    used += T;
    CK(cuMemsetD8_v2(t, 10 * (i + 1), T));
    CK(cuMemGetAddressRange_v2(&base, &size, t));
    CK(cuIpcGetMemHandle(&h, base));
    put(to[1], &h, sizeof h); /* wrong: without t - base */
    get(back[0], &c, 1);
  }
  int bad = reap();
  CK(cuMemFree_v2(seg));
  return bad;
}
