// Looks like a wait for an event never recorded: the event is opened and waited for once before its first record.
// (documented as no wait), then a message says "recorded", and it is waited for again before the read
#include "../job.h"
#define N 128
struct msg { CUipcMemHandle mem; CUipcEventHandle ev; };
int main(void) {
  int r = ranks(2); struct msg m; CUdeviceptr t; CUevent e; CUstream s;
  if (r < 0) return reap();
  start(0);
  CK(cuStreamCreate(&s, 1));
  if (r == 0) {
    CK(cuMemAlloc_v2(&t, N));
    CK(cuEventCreate(&e, EV_IPC));
    CK(cuIpcGetMemHandle(&m.mem, t));
    CK(cuIpcGetEventHandle(&m.ev, e));
    memcpy(sh->box[0], &m, sizeof m);
    barrier(); barrier();
    CK(cuMemsetD8Async(t, 45, N, s));
    CK(cuEventRecord(e, s));
    CK(cuStreamSynchronize(s));
    barrier(); barrier();
    CK(cuEventDestroy_v2(e));
    CK(cuMemFree_v2(t));
    return 0;
  }
  unsigned char v = 0;
  barrier();
  memcpy(&m, sh->box[0], sizeof m);
  CK(cuIpcOpenMemHandle_v2(&t, m.mem, LAZY));
  CK(cuIpcOpenEventHandle(&e, m.ev));
  CK(cuStreamWaitEvent(s, e, 0));
  CK(cuStreamSynchronize(s));
  barrier(); barrier();
  CK(cuStreamWaitEvent(s, e, 0));
  CK(cuMemcpyDtoHAsync_v2(&v, t, 1, s));
  CK(cuStreamSynchronize(s));
  CK(cuEventDestroy_v2(e));
  CK(cuIpcCloseMemHandle(t));
  barrier();
  return v != 45;
}
