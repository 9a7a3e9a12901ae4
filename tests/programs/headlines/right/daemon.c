// A daemon (double fork and setsid, all before CUDA) serves memory; the parent of it all waits for the pipe to end.
#include "../job.h"
int main(void) {
  int sv[2]; CUdeviceptr t; CUipcMemHandle h; char c;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv)) return 9;
  pid_t p = fork();
  if (p == 0) {
    close(sv[0]);
    setsid();
    if (fork()) _exit(0);
    if (chdir("/")) _exit(1);
    start(0);
    CK(cuMemAlloc_v2(&t, 512));
    CK(cuMemsetD8_v2(t, 61, 512));
    CK(cuIpcGetMemHandle(&h, t));
    put(sv[1], &h, sizeof h);
    get(sv[1], &c, 1);
    CK(cuMemFree_v2(t));
    return 0;
  }
  close(sv[1]);
  waitpid(p, 0, 0);
  start(0);
  get(sv[0], &h, sizeof h);
  CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
  CK(cuMemcpyDtoH_v2(&c, t, 1));
  CK(cuIpcCloseMemHandle(t));
  put(sv[0], "q", 1);
  char e; while (read(sv[0], &e, 1) > 0) { } /* the daemon has ended */
  return c != 61;
}
