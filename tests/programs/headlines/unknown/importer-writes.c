// https://github.com/sgl-project/sglang/issues/26032 (weights transformed in place after loading)
// The inference worker quantises the imported weights in place; they are the trainer's own memory.
#include "../job.h"
#define N 1024
int main(void) {
  int r = ranks(2), bad = 0; CUdeviceptr w; CUipcMemHandle h; unsigned char v[N];
  if (r < 0) return reap();
  start(0);
  if (r == 0) {
    CK(cuMemAlloc_v2(&w, N));
    CK(cuMemsetD8_v2(w, 128, N));
    CK(cuIpcGetMemHandle(&h, w));
    memcpy(sh->box[0], &h, sizeof h);
    barrier(); barrier();
    CK(cuMemcpyDtoH_v2(v, w, N));
    for (int i = 0; i < N && !bad; i++)
      if (v[i] != 128) fprintf(stderr, "trainer: weight %d changed from 128 to %d\n", i, v[i]), bad = 1;
    CK(cuMemFree_v2(w));
    return bad;
  }
  barrier();
  memcpy(&h, sh->box[0], sizeof h);
  CK(cuIpcOpenMemHandle_v2(&w, h, LAZY));
  CK(cuMemcpyDtoH_v2(v, w, N));
  for (int i = 0; i < N; i++) v[i] /= 16;
  CK(cuMemcpyHtoD_v2(w, v, N)); /* wrong: into the trainer's memory */
  CK(cuIpcCloseMemHandle(w));
  barrier();
  return 0;
}
