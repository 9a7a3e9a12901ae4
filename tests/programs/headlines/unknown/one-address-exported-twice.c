// https://github.com/cupy/cupy/issues/9436
// The loop exports layer[0] twice; layer[1] is never exported. The importer opens both handles.
#include "../job.h"
#define N 4096
int main(void) {
  int r = ranks(2), bad = 0; CUipcMemHandle h[2];
  if (r < 0) return reap();
  start(0);
  CUdeviceptr layer[2];
  if (r == 0) {
    for (int i = 0; i < 2; i++) {
      CK(cuMemAlloc_v2(&layer[i], N));
      CK(cuMemsetD8_v2(layer[i], 'a' + i, N));
      CK(cuIpcGetMemHandle(&h[i], layer[0])); /* wrong: layer[i] */
    }
    memcpy(sh->box[0], h, sizeof h);
    barrier(); barrier();
    for (int i = 0; i < 2; i++) CK(cuMemFree_v2(layer[i]));
    return 0;
  }
  barrier();
  memcpy(h, sh->box[0], sizeof h);
  for (int i = 0; i < 2; i++) {
    char c;
    CK(cuIpcOpenMemHandle_v2(&layer[i], h[i], LAZY));
    CK(cuMemcpyDtoH_v2(&c, layer[i] + N - 1, 1));
    if (c != 'a' + i) fprintf(stderr, "layer %d holds %c\n", i, c), bad = 1;
    CK(cuIpcCloseMemHandle(layer[i]));
  }
  barrier();
  return bad;
}
