// Fork after CUDA, but the child only execs another program, with the GPU memory shared meanwhile.
#include "../job.h"
int main(void) {
  int p[2], s; char c; CUdeviceptr t; CUipcMemHandle h;
  if (pipe(p)) return 9;
  pid_t reader = fork();
  if (reader == 0) {
    get(p[0], &h, sizeof h);
    start(0);
    CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
    CK(cuMemcpyDtoH_v2(&c, t, 1));
    CK(cuIpcCloseMemHandle(t));
    return c != 8;
  }
  start(0);
  CK(cuMemAlloc_v2(&t, 64));
  CK(cuMemsetD8_v2(t, 8, 64));
  CK(cuIpcGetMemHandle(&h, t));
  pid_t tool = fork();
  if (tool == 0) { execl("/bin/true", "true", (char *)0); _exit(127); }
  waitpid(tool, &s, 0);
  if (s) return 2;
  put(p[1], &h, sizeof h);
  waitpid(reader, &s, 0);
  CK(cuMemFree_v2(t));
  return s != 0;
}
