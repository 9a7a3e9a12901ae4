// Registers all buffers at start (handles of 12 published); this time the peer needs only three of them.
#include "../job.h"
#define K 12
int main(void) {
  int r = ranks(2), bad = 0; CUdeviceptr t[K]; CUipcMemHandle h[K];
  if (r < 0) return reap();
  start(0);
  if (r == 0) {
    for (int i = 0; i < K; i++) {
      CK(cuMemAlloc_v2(&t[i], 512));
      CK(cuMemsetD8_v2(t[i], i, 512));
      CK(cuIpcGetMemHandle(&h[i], t[i]));
    }
    memcpy(sh->box[0], h, sizeof h);
    barrier(); barrier();
    for (int i = 0; i < K; i++) CK(cuMemFree_v2(t[i]));
    return 0;
  }
  barrier();
  memcpy(h, sh->box[0], sizeof h);
  for (int i = 1; i < K; i += 4) {
    char c;
    CK(cuIpcOpenMemHandle_v2(&t[i], h[i], LAZY));
    CK(cuMemcpyDtoH_v2(&c, t[i], 1));
    bad |= c != i;
    CK(cuIpcCloseMemHandle(t[i]));
  }
  barrier();
  return bad;
}
