// https://github.com/vllm-project/vime/pull/45 , https://github.com/flashinfer-ai/flashinfer/pull/1894
// The exported buffer is never written: the result stays in the private staging buffer. The worker is exec'd.
#include "../job.h"
#define N 2048
static int worker(int in) {
  CUipcMemHandle h; CUdeviceptr t; int v[N];
  start(0);
  get(in, &h, sizeof h);
  CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
  CK(cuMemcpyDtoH_v2(v, t, sizeof v));
  CK(cuIpcCloseMemHandle(t));
  if (v[1] != 1234) { fprintf(stderr, "worker: output is %d, not 1234\n", v[1]); return 1; }
  return 0;
}
int main(int argc, char **argv) {
  if (argc > 1) return worker(atoi(argv[1]));
  int p[2];
  if (pipe(p)) return 9;
  if (fork() == 0) {
    char fd[12]; sprintf(fd, "%d", p[0]);
    execl("/proc/self/exe", argv[0], fd, (char *)0);
    _exit(127);
  }
  CUdeviceptr out, staging; CUipcMemHandle h;
  start(0);
  CK(cuMemAlloc_v2(&out, N * 4));
  CK(cuMemAlloc_v2(&staging, N * 4));
  CK(cuMemsetD32_v2(staging, 1234, N)); /* the result; missing: copy of staging into out */
  CK(cuCtxSynchronize());
  CK(cuIpcGetMemHandle(&h, out));
  put(p[1], &h, sizeof h);
  int bad = reap();
  CK(cuMemFree_v2(out));
  CK(cuMemFree_v2(staging));
  return bad;
}
