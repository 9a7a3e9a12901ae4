// Gets a handle that may be its own, and uses the local pointer then.
#include "../job.h"
static CUdeviceptr resolve(CUipcMemHandle h, CUipcMemHandle own, CUdeviceptr p, int *opened) {
  CUdeviceptr q;
  *opened = memcmp(&h, &own, sizeof h) != 0;
  if (!*opened) return p;
  return cuIpcOpenMemHandle_v2(&q, h, LAZY) ? 0 : q;
}
int main(void) {
  int r = ranks(2), sum = 0, opened; CUdeviceptr t, p; CUipcMemHandle h, all[2]; unsigned char v;
  if (r < 0) return reap();
  start(0);
  CK(cuMemAlloc_v2(&t, 256));
  CK(cuMemsetD8_v2(t, r ? 20 : 3, 256));
  CK(cuCtxSynchronize());
  CK(cuIpcGetMemHandle(&h, t));
  gather(r, 2, all, &h, sizeof h);
  for (int i = 0; i < 2; i++) {
    p = resolve(all[i], h, t, &opened);
    if (!p) return 1;
    CK(cuMemcpyDtoH_v2(&v, p, 1));
    sum += v;
    if (opened) CK(cuIpcCloseMemHandle(p));
  }
  barrier();
  CK(cuMemFree_v2(t));
  return sum != 23;
}
