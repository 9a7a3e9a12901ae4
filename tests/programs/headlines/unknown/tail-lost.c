// https://github.com/novitalabs/pegaflow/issues/229
// Copied in whole chunks: the tail of the tensor is lost. Two devices.
#include "../job.h"
#define N 10000
#define CHUNK 4096
int main(void) {
  int r = ranks(2), bad = 0; CUipcMemHandle h;
  if (r < 0) return reap();
  start(r);
  if (r == 0) {
    CUdeviceptr src; unsigned char v[N];
    for (int i = 0; i < N; i++) v[i] = i % 251 + 1;
    CK(cuMemAlloc_v2(&src, N));
    CK(cuMemcpyHtoD_v2(src, v, N));
    CK(cuIpcGetMemHandle(&h, src));
    memcpy(sh->box[0], &h, sizeof h);
    barrier(); barrier();
    CK(cuMemFree_v2(src));
    return 0;
  }
  CUdeviceptr src, dst; unsigned char v[N]; CUstream s;
  barrier();
  memcpy(&h, sh->box[0], sizeof h);
  CK(cuStreamCreate(&s, 1));
  CK(cuMemAlloc_v2(&dst, N));
  CK(cuIpcOpenMemHandle_v2(&src, h, LAZY));
  for (int k = 0; k < N / CHUNK; k++) /* wrong: rounds down */
    CK(cuMemcpyDtoDAsync_v2(dst + k * CHUNK, src + k * CHUNK, CHUNK, s));
  CK(cuStreamSynchronize(s));
  CK(cuIpcCloseMemHandle(src));
  CK(cuMemcpyDtoH_v2(v, dst, N));
  for (int i = 0; i < N && !bad; i++)
    if (v[i] != i % 251 + 1) fprintf(stderr, "byte %d is %d\n", i, v[i]), bad = 1;
  CK(cuMemFree_v2(dst));
  barrier();
  return bad;
}
