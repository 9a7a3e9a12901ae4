// A parent kills a helper (a ticker without CUDA, forked before) with SIGKILL on purpose at the end.
#include "../job.h"
#define N 256
int main(void) {
  int tick[2], s; char c;
  if (pipe(tick)) return 9;
  pid_t helper = fork();
  if (helper == 0) for (;;) { put(tick[1], ".", 1); usleep(2000); }
  int r = ranks(2);
  if (r < 0) {
    for (int i = 0; i < 5; i++) get(tick[0], &c, 1);
    int bad = 0;
    for (int i = 0; i < 2; i++) { pid_t p = wait(&s); bad |= p == helper || s; }
    kill(helper, SIGKILL);
    waitpid(helper, &s, 0);
    return bad || !WIFSIGNALED(s);
  }
  CUdeviceptr mine, peer; CUipcMemHandle h, all[2]; unsigned char v;
  start(0);
  CK(cuMemAlloc_v2(&mine, N));
  CK(cuMemsetD8_v2(mine, 60 + r, N));
  CK(cuCtxSynchronize());
  CK(cuIpcGetMemHandle(&h, mine));
  gather(r, 2, all, &h, sizeof h);
  CK(cuIpcOpenMemHandle_v2(&peer, all[!r], LAZY));
  CK(cuMemcpyDtoH_v2(&v, peer, 1));
  CK(cuIpcCloseMemHandle(peer));
  barrier();
  CK(cuMemFree_v2(mine));
  return v != 60 + !r;
}
