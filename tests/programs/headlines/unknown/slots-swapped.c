// https://github.com/vllm-project/vllm/pull/44748 , https://github.com/vllm-project/vllm/pull/8558
// Two slots chosen by the parity of an epoch counter. Rank 1's counter begins with 1, rank 0's with 0.
#include "../job.h"
#define N 256
int main(void) {
  int r = ranks(2), bad = 0; CUdeviceptr slots, peer; CUipcMemHandle h, all[2];
  if (r < 0) return reap();
  start(0);
  CK(cuMemAlloc_v2(&slots, 2 * N));
  CK(cuMemsetD8_v2(slots, 0, 2 * N));
  CK(cuIpcGetMemHandle(&h, slots));
  gather(r, 2, all, &h, sizeof h);
  CK(cuIpcOpenMemHandle_v2(&peer, all[!r], LAZY));
  int epoch = r; /* wrong: a warm-up call was counted on rank 1 only */
  for (int step = 0; step < 4; step++, epoch++) {
    int slot = epoch & 1; unsigned char v[N];
    CK(cuMemsetD8_v2(peer + slot * N, 10 * step + 1, N)); /* push */
    barrier();
    CK(cuMemcpyDtoH_v2(v, slots + slot * N, N));
    if (v[0] != 10 * step + 1 && !bad) fprintf(stderr, "rank %d, step %d: slot %d holds %d\n", r, step, slot, v[0]), bad = 1;
    barrier();
  }
  CK(cuIpcCloseMemHandle(peer));
  barrier();
  CK(cuMemFree_v2(slots));
  return bad;
}
