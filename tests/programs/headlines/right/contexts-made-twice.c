// Contexts created and destroyed by the program itself; the peer has closed before the owner destroys its context,.
// which frees the memory without cuMemFree; then a second context for a second round
#include "../job.h"
int main(void) {
  int r = ranks(2), bad = 0; CUdeviceptr t; CUipcMemHandle h; CUcontext c; CUdevice d; unsigned char v;
  if (r < 0) return reap();
  CK(cuInit(0));
  CK(cuDeviceGet(&d, 0));
  for (int round = 0; round < 2; round++) {
    CK(cuCtxCreate_v2(&c, 0, d));
    if (r == 0) {
      CK(cuMemAlloc_v2(&t, 300));
      CK(cuMemsetD8_v2(t, 70 + round, 300));
      CK(cuCtxSynchronize());
      CK(cuIpcGetMemHandle(&h, t));
      memcpy(sh->box[0], &h, sizeof h);
      barrier(); barrier();
    } else {
      barrier();
      memcpy(&h, sh->box[0], sizeof h);
      CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
      CK(cuMemcpyDtoH_v2(&v, t, 1));
      CK(cuIpcCloseMemHandle(t));
      bad |= v != 70 + round;
      barrier();
    }
    CK(cuCtxDestroy_v2(c));
  }
  return bad;
}
