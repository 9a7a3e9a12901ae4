// Polls its event with cuEventQuery until it is done (NOT_READY many times), then tells the peer, which polls as well.
#include "../job.h"
#define N 2048
struct msg { CUipcMemHandle mem; CUipcEventHandle ev; };
static int poll_event(CUevent e, int release) {
  int polls = 0, q;
  while ((q = cuEventQuery(e)) == NOT_READY) {
    if (++polls == 40 && release) sh->flag[0] = 1; /* lets the "kernel" end */
    usleep(500);
  }
  CK(q);
  return polls;
}
int main(void) {
  int r = ranks(2); struct msg m; CUdeviceptr t; CUevent e; CUstream s;
  if (r < 0) return reap();
  start(0);
  if (r == 0) {
    CK(cuStreamCreate(&s, 1));
    CK(cuMemAlloc_v2(&t, N));
    CK(cuEventCreate(&e, EV_IPC));
    CK(cuIpcGetMemHandle(&m.mem, t));
    CK(cuIpcGetEventHandle(&m.ev, e));
    CK(cuLaunchHostFunc(s, kernel, (void *)&sh->flag[0]));
    CK(cuMemsetD8Async(t, 5, N, s));
    CK(cuEventRecord(e, s));
    poll_event(e, 1);
    memcpy(sh->box[0], &m, sizeof m);
    barrier(); barrier();
    CK(cuEventDestroy_v2(e));
    CK(cuMemFree_v2(t));
    return 0;
  }
  unsigned char v[N];
  barrier();
  memcpy(&m, sh->box[0], sizeof m);
  CK(cuIpcOpenMemHandle_v2(&t, m.mem, LAZY));
  CK(cuIpcOpenEventHandle(&e, m.ev));
  poll_event(e, 0);
  CK(cuMemcpyDtoH_v2(v, t, N));
  CK(cuEventDestroy_v2(e));
  CK(cuIpcCloseMemHandle(t));
  barrier();
  return v[0] != 5;
}
