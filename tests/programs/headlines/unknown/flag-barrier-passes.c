// https://github.com/hw-native-sys/pypto/pull/1829
// The barrier in GPU memory writes 1 and waits for >= 1: after the first round it lets everybody through.
#include "../job.h"
#define N 1024
int main(void) {
  int r = ranks(2), bad = 0, one; CUdeviceptr data, sig, pdata, psig; CUipcMemHandle h[2], all[2][2];
  if (r < 0) return reap();
  start(0);
  CK(cuMemAlloc_v2(&data, N * 4));
  CK(cuMemAlloc_v2(&sig, 4));
  CK(cuMemsetD32_v2(sig, 0, 1));
  CK(cuIpcGetMemHandle(&h[0], data));
  CK(cuIpcGetMemHandle(&h[1], sig));
  gather(r, 2, all, h, sizeof h);
  CK(cuIpcOpenMemHandle_v2(&pdata, all[!r][0], LAZY));
  CK(cuIpcOpenMemHandle_v2(&psig, all[!r][1], LAZY));
  for (int round = 1; round <= 2; round++) {
    if (r == 1 && round == 2) kernel((void *)&sh->flag[0]); /* rank 1 is slow in the second round */
    CK(cuMemsetD32_v2(data, 1000 * r + round, N));
    CK(cuMemsetD32_v2(psig, 1, 1)); /* wrong: should be the number of the round */
    do CK(cuMemcpyDtoH_v2(&one, sig, 4)); while (one < 1);
    int v[N];
    CK(cuMemcpyDtoH_v2(v, pdata, sizeof v));
    if (r == 0 && v[0] != 1000 + round) fprintf(stderr, "rank 0, round %d: rank 1's data is %d\n", round, v[0]), bad = 1;
    if (r == 0 && round == 2) sh->flag[0] = 1;
  }
  CK(cuIpcCloseMemHandle(pdata));
  CK(cuIpcCloseMemHandle(psig));
  barrier();
  CK(cuMemFree_v2(data));
  CK(cuMemFree_v2(sig));
  return bad;
}
