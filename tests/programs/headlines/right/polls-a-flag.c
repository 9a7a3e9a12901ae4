// Polls a flag in GPU memory of the peer with usleep; number of the round, never reset.
#include "../job.h"
#define N 512
int main(void) {
  int r = ranks(2), bad = 0; CUdeviceptr buf, peer; CUipcMemHandle h, all[2];
  if (r < 0) return reap();
  start(0);
  CK(cuMemAlloc_v2(&buf, 4 * N));
  CK(cuMemsetD32_v2(buf, 0, N)); /* word 0: flag of data, word 1: flag of consumption */
  CK(cuIpcGetMemHandle(&h, buf));
  gather(r, 2, all, &h, sizeof h);
  CK(cuIpcOpenMemHandle_v2(&peer, all[!r], LAZY));
  for (int round = 1; round <= 5; round++) {
    int v[N];
    if (r == 0) {
      usleep(3000); /* compute */
      CK(cuMemsetD32_v2(buf + 8, 10 * round, N - 2));
      CK(cuCtxSynchronize());
      CK(cuMemsetD32_v2(buf, round, 1));
      do { usleep(200); CK(cuMemcpyDtoH_v2(v, buf, 8)); } while (v[1] < round);
    } else {
      do { usleep(200); CK(cuMemcpyDtoH_v2(v, peer, 4)); } while (v[0] < round);
      CK(cuMemcpyDtoH_v2(v, peer, sizeof v));
      if (v[N - 1] != 10 * round) bad = 1;
      CK(cuMemsetD32_v2(peer + 4, round, 1));
    }
  }
  CK(cuIpcCloseMemHandle(peer));
  barrier();
  CK(cuMemFree_v2(buf));
  return bad;
}
