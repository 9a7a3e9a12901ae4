// Elastic job: a scheduler takes one of three readers away with SIGKILL after its work; the rest goes on and ends with 0.
#include "../job.h"
#define N 1024
int main(void) {
  int up[2], n = 0, s, bad = 0; pid_t pid[4]; char c;
  if (pipe(up)) return 9;
  sh = mmap(0, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int r = 0; r < 4; r++) {
    if ((pid[r] = fork())) continue;
    CUdeviceptr t; CUipcMemHandle h;
    start(0);
    if (r == 0) { /* owner */
      CK(cuMemAlloc_v2(&t, N));
      CK(cuMemsetD8_v2(t, 99, N));
      CK(cuCtxSynchronize());
      CK(cuIpcGetMemHandle(&h, t));
      memcpy(sh->box[0], &h, sizeof h);
      sh->flag[0] = 1;
      while (!sh->flag[1]) usleep(500);
      CK(cuMemFree_v2(t));
      return 0;
    }
    while (!sh->flag[0]) usleep(500);
    memcpy(&h, sh->box[0], sizeof h);
    CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
    CK(cuMemcpyDtoH_v2(&c, t, 1));
    put(up[1], &c, 1);
    if (r == 2) for (;;) pause(); /* idle: will be taken away */
    CK(cuIpcCloseMemHandle(t));
    return 0;
  }
  for (; n < 3; n++) { get(up[0], &c, 1); bad |= c != 99; }
  kill(pid[2], SIGKILL);
  for (int r = 1; r < 4; r++) waitpid(pid[r], &s, 0);
  sh->flag[1] = 1;
  waitpid(pid[0], &s, 0);
  return bad | s;
}
