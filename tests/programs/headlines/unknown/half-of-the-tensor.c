// https://github.com/InternLM/xtuner/pull/1789
// The sender switched to 4-byte elements; the receiver still computes bytes for 2-byte ones and takes half of the tensor.
#include "../job.h"
#define COUNT 1000
int main(void) {
  int r = ranks(2);
  if (r < 0) return reap();
  start(r);
  struct { CUipcMemHandle h; int count, elem; } m;
  if (r == 0) {
    CUdeviceptr w; float v[COUNT];
    for (int i = 0; i < COUNT; i++) v[i] = i * .5f;
    CK(cuMemAlloc_v2(&w, sizeof v));
    CK(cuMemcpyHtoD_v2(w, v, sizeof v));
    CK(cuIpcGetMemHandle(&m.h, w));
    m.count = COUNT; m.elem = 4;
    memcpy(sh->box[0], &m, sizeof m);
    barrier(); barrier();
    CK(cuMemFree_v2(w));
    return 0;
  }
  CUdeviceptr w, own; float v[COUNT]; int bad = 0;
  CK(cuMemAlloc_v2(&own, COUNT * 4));
  CK(cuMemsetD8_v2(own, 0, COUNT * 4));
  barrier();
  memcpy(&m, sh->box[0], sizeof m);
  CK(cuIpcOpenMemHandle_v2(&w, m.h, LAZY));
  CK(cuMemcpyDtoD_v2(own, w, m.count * 2)); /* wrong: m.count * m.elem */
  CK(cuCtxSynchronize());
  CK(cuIpcCloseMemHandle(w));
  CK(cuMemcpyDtoH_v2(v, own, sizeof v));
  for (int i = 0; i < COUNT && !bad; i++)
    if (v[i] != i * .5f) fprintf(stderr, "weight %d is %g, not %g\n", i, v[i], i * .5f), bad = 1;
  CK(cuMemFree_v2(own));
  barrier();
  return bad;
}
