// https://github.com/GeeeekExplorer/nano-vllm/pull/215 , https://github.com/NVIDIA/TensorRT-LLM/pull/15546
// Block numbers of the exporter begin with 0, those of the importer with 1: off by one block.
#include "../job.h"
#define BLOCK 2048
#define BLOCKS 8
int main(void) {
  int r = ranks(2), table[3] = {1, 4, 6}, bad = 0;
  if (r < 0) return reap();
  start(0);
  CUipcMemHandle h;
  if (r == 0) {
    CUdeviceptr pool;
    CK(cuMemAlloc_v2(&pool, BLOCK * BLOCKS));
    for (int i = 0; i < BLOCKS; i++) CK(cuMemsetD8_v2(pool + i * BLOCK, 0x50 + i, BLOCK));
    CK(cuIpcGetMemHandle(&h, pool));
    memcpy(sh->box[0], &h, sizeof h);
    barrier(); barrier();
    CK(cuMemFree_v2(pool));
    return 0;
  }
  CUdeviceptr pool, own; unsigned char v[3 * BLOCK];
  barrier();
  memcpy(&h, sh->box[0], sizeof h);
  CK(cuIpcOpenMemHandle_v2(&pool, h, LAZY));
  CK(cuMemAlloc_v2(&own, sizeof v));
  for (int i = 0; i < 3; i++)
    CK(cuMemcpyDtoD_v2(own + i * BLOCK, pool + (table[i] - 1) * BLOCK, BLOCK)); /* wrong: - 1 */
  CK(cuMemcpyDtoH_v2(v, own, sizeof v));
  for (int i = 0; i < 3; i++)
    if (v[i * BLOCK] != 0x50 + table[i]) fprintf(stderr, "block %d holds what block %d should\n", table[i], v[i * BLOCK] - 0x50), bad = 1;
  CK(cuIpcCloseMemHandle(pool));
  CK(cuMemFree_v2(own));
  barrier();
  return bad;
}
