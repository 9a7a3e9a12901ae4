// A worker catches SIGTERM, closes what it has open, and exits with 0; the parent frees then.
#include "../job.h"
static volatile sig_atomic_t stop;
static void term(int sig) { (void)sig; stop = 1; }
int main(void) {
  int p[2], up[2], s; CUipcMemHandle h; CUdeviceptr t; char c;
  if (pipe(p) || pipe(up)) return 9;
  pid_t w = fork();
  if (w == 0) {
    sigset_t none, block; sigemptyset(&none); sigemptyset(&block); sigaddset(&block, SIGTERM);
    sigprocmask(SIG_BLOCK, &block, 0);
    signal(SIGTERM, term);
    get(p[0], &h, sizeof h);
    start(0);
    CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
    CK(cuMemcpyDtoH_v2(&c, t, 1));
    put(up[1], &c, 1);
    while (!stop) sigsuspend(&none);
    CK(cuIpcCloseMemHandle(t));
    exit(0);
  }
  start(0);
  CK(cuMemAlloc_v2(&t, 32));
  CK(cuMemsetD8_v2(t, 12, 32));
  CK(cuIpcGetMemHandle(&h, t));
  put(p[1], &h, sizeof h);
  get(up[0], &c, 1);
  kill(w, SIGTERM);
  waitpid(w, &s, 0);
  CK(cuMemFree_v2(t));
  return c != 12 || s != 0;
}
