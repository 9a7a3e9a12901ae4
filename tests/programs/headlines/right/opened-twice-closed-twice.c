// Two modules of one process open the same handle and each closes its own.
#include "../job.h"
int main(void) {
  int r = ranks(2); CUdeviceptr t, a, b; CUipcMemHandle h; char c, d;
  if (r < 0) return reap();
  start(0);
  if (r == 0) {
    CK(cuMemAlloc_v2(&t, 100));
    CK(cuMemsetD8_v2(t, 17, 100));
    CK(cuIpcGetMemHandle(&h, t));
    memcpy(sh->box[0], &h, sizeof h);
    barrier(); barrier();
    CK(cuMemFree_v2(t));
    return 0;
  }
  barrier();
  memcpy(&h, sh->box[0], sizeof h);
  CK(cuIpcOpenMemHandle_v2(&a, h, LAZY));
  CK(cuIpcOpenMemHandle_v2(&b, h, LAZY));
  CK(cuMemcpyDtoH_v2(&c, a, 1));
  CK(cuIpcCloseMemHandle(a));
  CK(cuMemcpyDtoH_v2(&d, b, 1));
  CK(cuIpcCloseMemHandle(b));
  barrier();
  return c != 17 || d != 17;
}
