// 8 generations of a buffer, most of them at the same address; each closed before it is freed, each with a new handle.
#include "../job.h"
#define N 4096
int main(void) {
  int to[2], back[2]; CUipcMemHandle h; CUdeviceptr t, last = 0; char c; int same = 0;
  if (pipe(to) || pipe(back)) return 9;
  if (fork() == 0) {
    start(0);
    for (int i = 0; i < 8; i++) {
      get(to[0], &h, sizeof h);
      CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
      CK(cuMemcpyDtoH_v2(&c, t, 1));
      CK(cuIpcCloseMemHandle(t));
      if (c != 'A' + i) return 1;
      put(back[1], &c, 1);
    }
    return 0;
  }
  start(0);
  for (int i = 0; i < 8; i++) {
    CK(cuMemAlloc_v2(&t, N));
    same += t == last;
    last = t;
    CK(cuMemsetD8_v2(t, 'A' + i, N));
    CK(cuIpcGetMemHandle(&h, t));
    put(to[1], &h, sizeof h);
    get(back[0], &c, 1);
    CK(cuMemFree_v2(t));
  }
  if (!same) fprintf(stderr, "(no address was reused)\n");
  return reap();
}
