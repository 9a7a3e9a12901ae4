// https://github.com/radixark/miles/pull/2871 , https://github.com/pytorch/TensorRT/pull/4380
// The handles come in order of arrival (1, 2, 0), and are used as if in order of ranks.
#include "../job.h"
#define W 3
#define N 256
int main(void) {
  int r = ranks(W), bad = 0; CUdeviceptr mine, peer; CUipcMemHandle h, all[W];
  static const int arrival[W] = {2, 0, 1}; /* position at which each rank arrives */
  if (r < 0) return reap();
  start(0);
  CK(cuMemAlloc_v2(&mine, N * 4));
  CK(cuMemsetD32_v2(mine, 500 + r, N));
  CK(cuIpcGetMemHandle(&h, mine));
  gather(arrival[r], W, all, &h, sizeof h); /* wrong: not by rank */
  int next = (r + 1) % W, v[N];
  /* ring: read the shard of the next rank */
  CK(cuIpcOpenMemHandle_v2(&peer, all[next], LAZY));
  CK(cuMemcpyDtoH_v2(v, peer, sizeof v));
  if (v[0] != 500 + next) fprintf(stderr, "rank %d: shard of rank %d is the one of rank %d\n", r, next, v[0] - 500), bad = 1;
  CK(cuIpcCloseMemHandle(peer));
  barrier();
  CK(cuMemFree_v2(mine));
  return bad;
}
