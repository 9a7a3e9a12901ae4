// https://github.com/pytorch/pytorch/pull/19904 , https://github.com/pytorch/pytorch/issues/149155
// The producer puts two tensors into the queue and ends; the consumer takes the second one too late.
#include "../job.h"
#define N 2048
int main(void) {
  int q[2]; char c;
  if (pipe(q)) return 9;
  pid_t producer = fork();
  if (producer == 0) {
    CUdeviceptr t[2]; CUipcMemHandle h;
    start(0);
    for (int i = 0; i < 2; i++) {
      CK(cuMemAlloc_v2(&t[i], N));
      CK(cuMemsetD8_v2(t[i], 'x' + i, N));
      CK(cuIpcGetMemHandle(&h, t[i]));
      put(q[1], &h, sizeof h);
    }
    return 0; /* wrong: must stay until the consumer has taken both */
  }
  int status, bad = 0; CUipcMemHandle h; CUdeviceptr t;
  start(0);
  waitpid(producer, &status, 0);
  for (int i = 0; i < 2; i++) {
    get(q[0], &h, sizeof h);
    int e = cuIpcOpenMemHandle_v2(&t, h, LAZY);
    if (e) { fprintf(stderr, "consumer: cannot open tensor %d: %d\n", i, e); return 1; }
    CK(cuMemcpyDtoH_v2(&c, t, 1));
    if (c != 'x' + i) fprintf(stderr, "tensor %d holds %d\n", i, c), bad = 1;
    CK(cuIpcCloseMemHandle(t));
  }
  return bad;
}
