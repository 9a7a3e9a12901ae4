// https://github.com/NVIDIA/nccl/issues/351 (send and receive the wrong way round in one buffer)
// The arguments of the copy are swapped: the importer overwrites the exporter's memory with its own zeros.
#include "../job.h"
#define N 512
static void fetch(CUdeviceptr from, CUdeviceptr to) { CK(cuMemcpyDtoD_v2(from, to, N * 4)); } /* wrong: (to, from) */
int main(void) {
  int r = ranks(2), bad = 0; CUdeviceptr t, own; CUipcMemHandle h; int v[N];
  if (r < 0) return reap();
  start(0);
  if (r == 0) {
    CK(cuMemAlloc_v2(&t, N * 4));
    CK(cuMemsetD32_v2(t, 31, N));
    CK(cuIpcGetMemHandle(&h, t));
    memcpy(sh->box[0], &h, sizeof h);
    barrier(); barrier();
    CK(cuMemFree_v2(t));
    return 0;
  }
  CK(cuMemAlloc_v2(&own, N * 4));
  CK(cuMemsetD32_v2(own, 0, N));
  barrier();
  memcpy(&h, sh->box[0], sizeof h);
  CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
  fetch(t, own);
  CK(cuMemcpyDtoH_v2(v, own, sizeof v));
  if (v[7] != 31) fprintf(stderr, "received %d, not 31\n", v[7]), bad = 1;
  CK(cuIpcCloseMemHandle(t));
  CK(cuMemFree_v2(own));
  barrier();
  return bad;
}
