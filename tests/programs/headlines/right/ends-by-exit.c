// Workers end with _exit(0) without closing anything, and the owner, last, without freeing (as Python's.
// multiprocessing ends its workers)
#include "../job.h"
int main(void) {
  int p[2], s; CUdeviceptr t; CUipcMemHandle h; char c;
  if (pipe(p)) return 9;
  for (int i = 0; i < 3; i++)
    if (fork() == 0) {
      get(p[0], &h, sizeof h);
      start(0);
      CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
      CK(cuMemcpyDtoH_v2(&c, t, 1));
      _exit(c != 4);
    }
  start(0);
  CK(cuMemAlloc_v2(&t, 4096));
  CK(cuMemsetD8_v2(t, 4, 4096));
  CK(cuCtxSynchronize());
  CK(cuIpcGetMemHandle(&h, t));
  for (int i = 0; i < 3; i++) put(p[1], &h, sizeof h);
  while (wait(&s) > 0) if (s) _exit(1);
  _exit(0);
}
