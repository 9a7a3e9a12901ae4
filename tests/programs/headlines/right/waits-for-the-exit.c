// The owner cannot know when the reader is finished, so it waits for its exit; the reader never closes.
#include "../job.h"
int main(void) {
  int p[2], s; CUipcMemHandle h; CUdeviceptr t; float v[64];
  if (pipe(p)) return 9;
  pid_t w = fork();
  if (w == 0) {
    double sum = 0;
    start(1);
    get(p[0], &h, sizeof h);
    CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
    for (int k = 0; k < 10; k++) { CK(cuMemcpyDtoH_v2(v, t, sizeof v)); sum += v[k]; }
    return sum != 45;
  }
  start(0);
  for (int i = 0; i < 64; i++) v[i] = i;
  CK(cuMemAlloc_v2(&t, sizeof v));
  CK(cuMemcpyHtoD_v2(t, v, sizeof v));
  CK(cuIpcGetMemHandle(&h, t));
  put(p[1], &h, sizeof h);
  waitpid(w, &s, 0);
  CK(cuMemFree_v2(t));
  return s != 0;
}
