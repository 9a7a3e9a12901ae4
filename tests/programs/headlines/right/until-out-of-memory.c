// Looks for the largest buffer by allocating until the driver says out of memory, then shares what it got.
#include "../job.h"
int main(void) {
  int r = ranks(2); CUdeviceptr t; CUipcMemHandle h; unsigned char v = 0; size_t n = (size_t)1 << 46;
  if (r < 0) return reap();
  start(0);
  if (r == 0) {
    while (cuMemAlloc_v2(&t, n) != 0) n /= 8; /* OUT_OF_MEMORY is part of the plan */
    CK(cuMemsetD8_v2(t, 3, 100));
    CK(cuIpcGetMemHandle(&h, t));
    memcpy(sh->box[0], &h, sizeof h);
    barrier(); barrier();
    CK(cuMemFree_v2(t));
    return 0;
  }
  barrier();
  memcpy(&h, sh->box[0], sizeof h);
  CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
  CK(cuMemcpyDtoH_v2(&v, t + 99, 1));
  CK(cuIpcCloseMemHandle(t));
  barrier();
  return v != 3;
}
