// https://github.com/NVIDIA/nccl/pull/2407 (both ranks receive before they send)
// Each rank waits for its flag in GPU memory before it sets the peer's: a hang, ended by a watchdog after 0.3 s.
#include "../job.h"
static void watchdog(int sig) {
  static const char t[] = "watchdog: no progress in recv\n";
  (void)sig; if (write(2, t, sizeof t - 1) < 0) _exit(2);
  _exit(1);
}
int main(void) {
  int r = ranks(2), v = 0; CUdeviceptr flag, peer; CUipcMemHandle h, all[2];
  if (r < 0) return reap();
  signal(SIGALRM, watchdog);
  start(0);
  CK(cuMemAlloc_v2(&flag, 4));
  CK(cuMemsetD32_v2(flag, 0, 1));
  CK(cuIpcGetMemHandle(&h, flag));
  gather(r, 2, all, &h, sizeof h);
  CK(cuIpcOpenMemHandle_v2(&peer, all[!r], LAZY));
  ualarm(300000, 0);
  while (v != 1) { CK(cuMemcpyDtoH_v2(&v, flag, 4)); usleep(10000); } /* recv */
  CK(cuMemsetD32_v2(peer, 1, 1));                                      /* send: never reached */
  alarm(0);
  CK(cuIpcCloseMemHandle(peer));
  barrier();
  CK(cuMemFree_v2(flag));
  return 0;
}
