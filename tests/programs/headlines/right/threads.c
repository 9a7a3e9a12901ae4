// The importer opens, reads and closes in threads of its own; the exporter has a SIGCHLD handler.
#include "../job.h"
static volatile sig_atomic_t children;
static void chld(int sig) { (void)sig; children++; }
static CUcontext ctx;
static void *reader(void *arg) {
  CUdeviceptr t; char c;
  CK(cuCtxSetCurrent(ctx));
  CK(cuIpcOpenMemHandle_v2(&t, *(CUipcMemHandle *)arg, LAZY));
  CK(cuMemcpyDtoH_v2(&c, t, 1));
  CK(cuIpcCloseMemHandle(t));
  return (void *)(long)c;
}
int main(void) {
  int p[2], s; CUipcMemHandle h[3]; CUdeviceptr t[3];
  if (pipe(p)) return 9;
  struct sigaction sa = {.sa_handler = chld, .sa_flags = SA_RESTART};
  sigaction(SIGCHLD, &sa, 0);
  if (fork() == 0) {
    pthread_t th[3]; long sum = 0; void *v;
    get(p[0], h, sizeof h);
    ctx = start(0);
    for (int i = 0; i < 3; i++) pthread_create(&th[i], 0, reader, &h[i]);
    for (int i = 0; i < 3; i++) { pthread_join(th[i], &v); sum += (long)v; }
    return sum != 6;
  }
  start(0);
  for (int i = 0; i < 3; i++) {
    CK(cuMemAlloc_v2(&t[i], 4096));
    CK(cuMemsetD8_v2(t[i], i + 1, 4096));
    CK(cuIpcGetMemHandle(&h[i], t[i]));
  }
  CK(cuCtxSynchronize());
  put(p[1], h, sizeof h);
  while (waitpid(-1, &s, 0) < 0 && errno == EINTR) { }
  for (int i = 0; i < 3; i++) CK(cuMemFree_v2(t[i]));
  return s != 0 || children != 1;
}
