// https://github.com/ROCm/rocSHMEM/pull/88 , https://github.com/sgl-project/sglang/pull/33848
// Rank 2 opens the buffer of rank 0 twice and the one of rank 1 never: the table is read with the wrong index.
#include "../job.h"
#define W 3
#define N 512
int main(void) {
  int r = ranks(W), bad = 0; CUdeviceptr mine, peer[W]; CUipcMemHandle h, all[W];
  static const int local_of[W][W] = {{0, 1, 2}, {0, 1, 2}, {0, 0, 2}}; /* wrong in the last row */
  if (r < 0) return reap();
  start(0);
  CK(cuMemAlloc_v2(&mine, N * 4));
  CK(cuMemsetD32_v2(mine, 1 << r, N));
  CK(cuIpcGetMemHandle(&h, mine));
  gather(r, W, all, &h, sizeof h);
  for (int i = 0; i < W; i++) {
    if (i == r) peer[i] = mine;
    else CK(cuIpcOpenMemHandle_v2(&peer[i], all[local_of[r][i]], LAZY));
  }
  int sum = 0, v[N];
  for (int i = 0; i < W; i++) { CK(cuMemcpyDtoH_v2(v, peer[i], sizeof v)); sum += v[N - 1]; }
  if (sum != 7) fprintf(stderr, "rank %d: all-reduce gives %d, not 7\n", r, sum), bad = 1;
  for (int i = 0; i < W; i++) if (i != r) CK(cuIpcCloseMemHandle(peer[i]));
  barrier();
  CK(cuMemFree_v2(mine));
  return bad;
}
