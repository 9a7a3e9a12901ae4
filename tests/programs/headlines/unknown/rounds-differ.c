// https://github.com/NVIDIA/nccl/pull/2407 (programs of the ranks don't match)
// Rank 0 works on 4 micro-batches, rank 1 on 3 and ends: rank 0 finds the channel closed.
#include "../job.h"
#define N 512
int main(void) {
  int sv[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv)) return 9;
  signal(SIGPIPE, SIG_IGN);
  int rank = fork() == 0, fd = sv[rank], rounds = rank ? 11 / 3 : (11 + 2) / 3; /* wrong: rounds down and up */
  close(sv[!rank]);
  CUdeviceptr mine, peer; CUipcMemHandle h; int v[N], bad = 0; char c = 'r';
  start(0);
  CK(cuMemAlloc_v2(&mine, N * 4));
  CK(cuIpcGetMemHandle(&h, mine));
  put(fd, &h, sizeof h);
  get(fd, &h, sizeof h);
  CK(cuIpcOpenMemHandle_v2(&peer, h, LAZY));
  for (int i = 0; i < rounds && !bad; i++) {
    CK(cuMemsetD32_v2(mine, 100 * rank + i, N));
    CK(cuCtxSynchronize());
    if (write(fd, &c, 1) != 1 || read(fd, &c, 1) != 1) { /* written */
      fprintf(stderr, "rank %d: no gradient from the peer in round %d of %d\n", rank, i, rounds), bad = 1;
      break;
    }
    CK(cuMemcpyDtoH_v2(v, peer, sizeof v));
    if (v[0] != 100 * !rank + i) fprintf(stderr, "rank %d, round %d: %d\n", rank, i, v[0]), bad = 1;
    put(fd, &c, 1); get(fd, &c, 1); /* read */
  }
  CK(cuIpcCloseMemHandle(peer));
  shutdown(fd, SHUT_WR);
  while (read(fd, &c, 1) > 0) { } /* until the peer has closed as well */
  CK(cuMemFree_v2(mine));
  return rank ? bad : bad | reap();
}
