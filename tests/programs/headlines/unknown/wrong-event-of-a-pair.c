// https://github.com/LMCache/LMCache/pull/4551 (one event handle for each store and retrieve)
// Two events, "loaded" and "free"; the importer waits for the wrong one, which was recorded long ago.
#include "../job.h"
#define N 1024
struct msg { CUipcMemHandle mem; CUipcEventHandle ev[2]; };
enum { FREE, LOADED };
int main(void) {
  int r = ranks(2), bad = 0; struct msg m; CUdeviceptr t; CUevent ev[2]; CUstream s;
  if (r < 0) return reap();
  start(0);
  CK(cuStreamCreate(&s, 1));
  if (r == 0) {
    CK(cuMemAlloc_v2(&t, N));
    CK(cuMemsetD8_v2(t, 0, N));
    CK(cuIpcGetMemHandle(&m.mem, t));
    for (int i = 0; i < 2; i++) { CK(cuEventCreate(&ev[i], EV_IPC)); CK(cuIpcGetEventHandle(&m.ev[i], ev[i])); }
    CK(cuEventRecord(ev[FREE], s));
    CK(cuLaunchHostFunc(s, kernel, (void *)&sh->flag[0])); /* the load */
    CK(cuMemsetD8Async(t, 55, N, s));
    CK(cuEventRecord(ev[LOADED], s));
    memcpy(sh->box[0], &m, sizeof m);
    barrier(); barrier();
    CK(cuStreamSynchronize(s));
    for (int i = 0; i < 2; i++) CK(cuEventDestroy_v2(ev[i]));
    CK(cuMemFree_v2(t));
    return 0;
  }
  unsigned char v[N];
  barrier();
  memcpy(&m, sh->box[0], sizeof m);
  CK(cuIpcOpenMemHandle_v2(&t, m.mem, LAZY));
  for (int i = 0; i < 2; i++) CK(cuIpcOpenEventHandle(&ev[i], m.ev[i]));
  CK(cuStreamWaitEvent(s, ev[FREE], 0)); /* wrong: LOADED */
  CK(cuMemcpyDtoHAsync_v2(v, t, N, s));
  CK(cuStreamSynchronize(s));
  sh->flag[0] = 1;
  if (v[0] != 55) fprintf(stderr, "block holds %d, not 55\n", v[0]), bad = 1;
  for (int i = 0; i < 2; i++) CK(cuEventDestroy_v2(ev[i]));
  CK(cuIpcCloseMemHandle(t));
  barrier();
  return bad;
}
