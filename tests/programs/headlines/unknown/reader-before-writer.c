// https://github.com/pytorch/pytorch/issues/149155 , https://github.com/pytorch/pytorch/issues/84994
// The consumer copies the tensor when it gets the handle; the producer fills it only after the consumer's
// acknowledgement, which was meant as "I have opened it".
#include "../job.h"
#define N 4096
int main(void) {
  int to[2], back[2];
  if (pipe(to) || pipe(back)) return 9;
  if (fork() == 0) { /* consumer */
    CUipcMemHandle h; CUdeviceptr t; int *v = malloc(N * 4);
    start(0);
    get(to[0], &h, sizeof h);
    CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
    CK(cuMemcpyDtoH_v2(v, t, N * 4)); /* wrong: nothing has been written so far */
    put(back[1], "o", 1);
    char c; get(to[0], &c, 1);        /* "filled" */
    CK(cuIpcCloseMemHandle(t));
    for (int i = 0; i < N; i++)
      if (v[i] != 42) { fprintf(stderr, "tensor[%d] is %d, not 42\n", i, v[i]); return 1; }
    return 0;
  }
  CUdeviceptr t; CUipcMemHandle h; char c;
  start(0);
  CK(cuMemAlloc_v2(&t, N * 4));
  CK(cuIpcGetMemHandle(&h, t));
  put(to[1], &h, sizeof h);
  get(back[0], &c, 1);
  CK(cuMemsetD32_v2(t, 42, N));
  CK(cuCtxSynchronize());
  put(to[1], "f", 1);
  int bad = reap();
  CK(cuMemFree_v2(t));
  return bad;
}
