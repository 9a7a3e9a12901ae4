// A launcher ends its workers with SIGTERM when the work is done; they sit in pause(). It returns 0 then.
#include "../job.h"
#define N 128
int main(void) {
  pid_t pid[2]; int done[2], to1[2], s; CUdeviceptr t; CUipcMemHandle h; char c;
  if (pipe(done) || pipe(to1)) return 9;
  if ((pid[0] = fork()) == 0) {
    start(0);
    CK(cuMemAlloc_v2(&t, N));
    CK(cuMemsetD8_v2(t, 1, N));
    CK(cuIpcGetMemHandle(&h, t));
    put(to1[1], &h, sizeof h);
    for (;;) pause();
  }
  if ((pid[1] = fork()) == 0) {
    start(0);
    get(to1[0], &h, sizeof h);
    CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
    CK(cuMemcpyDtoH_v2(&c, t, 1));
    put(done[1], &c, 1);
    for (;;) pause();
  }
  get(done[0], &c, 1);
  for (int i = 1; i >= 0; i--) { kill(pid[i], SIGTERM); waitpid(pid[i], &s, 0); }
  return c != 1;
}
