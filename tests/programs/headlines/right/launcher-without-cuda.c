// A launcher that never uses CUDA forks four ranks before CUDA; each reads all others (nvlink:2, ranks share devices).
#include "../job.h"
#define W 4
#define N 300
int main(void) {
  int r = ranks(W), sum = 0, v[N]; CUdeviceptr mine, peer[W]; CUipcMemHandle h, all[W];
  if (r < 0) return reap();
  start(r % 2);
  CK(cuMemAlloc_v2(&mine, 4 * N));
  CK(cuMemsetD32_v2(mine, 1 + r, N));
  CK(cuCtxSynchronize());
  CK(cuIpcGetMemHandle(&h, mine));
  gather(r, W, all, &h, sizeof h);
  for (int i = 0; i < W; i++) {
    peer[i] = mine;
    if (i != r) CK(cuIpcOpenMemHandle_v2(&peer[i], all[i], LAZY));
    CK(cuMemcpyDtoH_v2(v, peer[i], sizeof v));
    sum += v[N - 1];
  }
  for (int i = W; i-- > 0;) if (i != r) CK(cuIpcCloseMemHandle(peer[i]));
  barrier();
  CK(cuMemFree_v2(mine));
  return sum != 10;
}
