// https://github.com/NVIDIA/nvshmem/pull/98
// PE 1 resets its flag after PE 0 has already set it: the signal is erased and PE 1 waits for nothing.
#include "../job.h"
int main(void) {
  int pe = ranks(2); CUdeviceptr flag, peer; CUipcMemHandle h, all[2];
  if (pe < 0) return reap();
  start(0);
  CK(cuMemAlloc_v2(&flag, 4));
  CK(cuMemsetD32_v2(flag, 0, 1));
  CK(cuIpcGetMemHandle(&h, flag));
  gather(pe, 2, all, &h, sizeof h);
  CK(cuIpcOpenMemHandle_v2(&peer, all[!pe], LAZY));
  int got = 0;
  if (pe == 0) {
    CK(cuMemsetD32_v2(peer, 1, 1)); /* signal */
    barrier();
  } else {
    barrier();                      /* a slow start */
    CK(cuMemsetD32_v2(flag, 0, 1)); /* wrong: reset for this round */
    for (int i = 0; i < 20 && !got; i++) { CK(cuMemcpyDtoH_v2(&got, flag, 4)); usleep(1000); }
    if (!got) fprintf(stderr, "PE 1: no signal of PE 0 after 20 polls\n");
  }
  CK(cuIpcCloseMemHandle(peer));
  barrier();
  CK(cuMemFree_v2(flag));
  return pe == 1 && !got;
}
