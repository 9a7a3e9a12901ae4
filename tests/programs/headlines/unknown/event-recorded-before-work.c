// https://github.com/pytorch/pytorch/issues/114588
// The event is recorded before the work that it stands for is enqueued.
#include "../job.h"
#define N 2048
struct msg { CUipcMemHandle mem; CUipcEventHandle done; };
int main(void) {
  int r = ranks(2); struct msg m; CUdeviceptr t; CUevent done; CUstream s;
  if (r < 0) return reap();
  start(0);
  CK(cuStreamCreate(&s, 1));
  if (r == 0) {
    CK(cuMemAlloc_v2(&t, N));
    CK(cuMemsetD8_v2(t, 1, N));
    CK(cuEventCreate(&done, EV_IPC));
    CK(cuIpcGetMemHandle(&m.mem, t));
    CK(cuIpcGetEventHandle(&m.done, done));
    CK(cuEventRecord(done, s)); /* wrong: belongs behind the next two lines */
    CK(cuLaunchHostFunc(s, kernel, (void *)&sh->flag[0]));
    CK(cuMemsetD8Async(t, 2, N, s));
    memcpy(sh->box[0], &m, sizeof m);
    barrier();
    barrier();
    CK(cuStreamSynchronize(s));
    CK(cuEventDestroy_v2(done));
    CK(cuMemFree_v2(t));
    return 0;
  }
  unsigned char v[N];
  barrier();
  memcpy(&m, sh->box[0], sizeof m);
  CK(cuIpcOpenMemHandle_v2(&t, m.mem, LAZY));
  CK(cuIpcOpenEventHandle(&done, m.done));
  CK(cuStreamWaitEvent(s, done, 0));
  CK(cuMemcpyDtoHAsync_v2(v, t, N, s));
  CK(cuStreamSynchronize(s));
  sh->flag[0] = 1;
  CK(cuEventDestroy_v2(done));
  CK(cuIpcCloseMemHandle(t));
  barrier();
  if (v[0] != 2) { fprintf(stderr, "step 2 was not there: got step %d\n", v[0]); return 1; }
  return 0;
}
