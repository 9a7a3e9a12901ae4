// https://github.com/mstar-project/mstar/pull/66
// The producer records its event for the first step only (event_sync_required is cleared afterwards);
// the consumer waits for that same record in the second step and reads the step before.
#include "../job.h"
#define N 2048
struct msg { CUipcMemHandle mem; CUipcEventHandle done; };
int main(void) {
  int r = ranks(2), bad = 0, first = 1; struct msg m; CUdeviceptr kv; CUevent done; CUstream s;
  if (r < 0) return reap();
  start(0);
  CK(cuStreamCreate(&s, 1));
  if (r == 0) {
    CK(cuMemAlloc_v2(&kv, N));
    CK(cuEventCreate(&done, EV_IPC));
    CK(cuIpcGetMemHandle(&m.mem, kv));
    CK(cuIpcGetEventHandle(&m.done, done));
    memcpy(sh->box[0], &m, sizeof m);
    for (int step = 0; step < 2; step++) {
      if (step) CK(cuLaunchHostFunc(s, kernel, (void *)&sh->flag[step])); /* the second forward is slow */
      CK(cuMemsetD8Async(kv, 10 + step, N, s));
      if (first) CK(cuEventRecord(done, s));
      first = 0;
      barrier();
      barrier();
    }
    CK(cuStreamSynchronize(s));
    CK(cuEventDestroy_v2(done));
    CK(cuMemFree_v2(kv));
    return 0;
  }
  unsigned char v[N];
  for (int step = 0; step < 2; step++) {
    barrier();
    if (step == 0) {
      memcpy(&m, sh->box[0], sizeof m);
      CK(cuIpcOpenMemHandle_v2(&kv, m.mem, LAZY));
      CK(cuIpcOpenEventHandle(&done, m.done));
    }
    CK(cuStreamWaitEvent(s, done, 0));
    CK(cuMemcpyDtoHAsync_v2(v, kv, N, s));
    CK(cuStreamSynchronize(s));
    if (v[0] != 10 + step) fprintf(stderr, "step %d: KV cache holds %d, not %d\n", step, v[0], 10 + step), bad = 1;
    sh->flag[step] = 1;
    if (step == 1) { CK(cuEventDestroy_v2(done)); CK(cuIpcCloseMemHandle(kv)); }
    barrier();
  }
  return bad;
}
