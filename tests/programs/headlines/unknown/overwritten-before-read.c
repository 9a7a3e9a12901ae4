// https://github.com/modelscope/ms-swift/pull/10207
// Weights go through one shared bucket. Only the driver rank (1) acknowledges a bucket; it tells rank 2 about bucket k
// when it takes bucket k+1, so that the sender has overwritten the bucket before rank 2 reads it.
#include "../job.h"
#define N 1024
static int to1[2], to2[2], ack[2];
static int receive(int rank, int in) {
  CUipcMemHandle h; CUdeviceptr bucket; int k, v[N], bad = 0, before = -1;
  start(0);
  get(in, &h, sizeof h);
  if (rank == 1) put(to2[1], &h, sizeof h);
  CK(cuIpcOpenMemHandle_v2(&bucket, h, LAZY));
  for (;;) {
    get(in, &k, sizeof k);
    if (rank == 1 && before >= 0) put(to2[1], &before, sizeof before);
    if (rank == 1 && k < 0) put(to2[1], &k, sizeof k);
    if (k < 0) break;
    CK(cuMemcpyDtoH_v2(v, bucket, sizeof v));
    for (int i = 0; i < N && !bad; i++)
      if (v[i] != 100 + k) fprintf(stderr, "rank %d: weights of bucket %d hold %d\n", rank, k, v[i]), bad = 1;
    if (rank == 1) { before = k; put(ack[1], &k, sizeof k); }
  }
  CK(cuIpcCloseMemHandle(bucket));
  return bad;
}
int main(void) {
  if (pipe(to1) || pipe(to2) || pipe(ack)) return 9;
  if (fork() == 0) return receive(1, to1[0]);
  if (fork() == 0) return receive(2, to2[0]);
  CUdeviceptr bucket; CUipcMemHandle h; int k;
  start(0);
  CK(cuMemAlloc_v2(&bucket, N * 4));
  CK(cuIpcGetMemHandle(&h, bucket));
  put(to1[1], &h, sizeof h);
  for (int i = 0; i < 3; i++) {
    CK(cuMemsetD32_v2(bucket, 100 + i, N));
    CK(cuCtxSynchronize());
    put(to1[1], &i, sizeof i);
    get(ack[0], &k, sizeof k); /* wrong: of one rank of two */
  }
  k = -1; put(to1[1], &k, sizeof k);
  int bad = reap();
  CK(cuMemFree_v2(bucket));
  return bad;
}
