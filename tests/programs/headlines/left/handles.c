// A server opens 40 handles of its clients in a loop, and closes none.
#include "../job.h"
#define N 40
int main(void) {
  int to[2], from[2]; CUdeviceptr t; CUipcMemHandle h; char c = 0;
  if (pipe(to) || pipe(from)) return 9;
  if (fork() == 0) {
    start(0);
    for (int i = 0; i < N; i++) {
      get(to[0], &h, sizeof h);
      CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
      put(from[1], &c, 1);
    }
    return 0;
  }
  start(0);
  for (int i = 0; i < N; i++) {
    CK(cuMemAlloc_v2(&t, 2 << 20));
    CK(cuIpcGetMemHandle(&h, t));
    put(to[1], &h, sizeof h);
    get(from[0], &c, 1);
  }
  return reap();
}
