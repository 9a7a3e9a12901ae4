// https://github.com/pmodels/mpich/pull/6451 (bcast: non-roots read the root's send buffer)
// Every rank opens the root's buffer, but the copy reads the local buffer of the same role.
#include "../job.h"
#define N 600
struct comm { CUdeviceptr send, recv, root; };
static void bcast(struct comm *c) { CK(cuMemcpyDtoD_v2(c->recv, c->send, N)); } /* wrong: c->root */
int main(void) {
  int r = ranks(3), bad = 0; struct comm c; CUipcMemHandle h, all[3];
  if (r < 0) return reap();
  start(0);
  CK(cuMemAlloc_v2(&c.send, N));
  CK(cuMemAlloc_v2(&c.recv, N));
  CK(cuMemsetD8_v2(c.send, r == 0 ? 200 : 0, N));
  CK(cuIpcGetMemHandle(&h, c.send));
  gather(r, 3, all, &h, sizeof h);
  c.root = c.send;
  if (r) CK(cuIpcOpenMemHandle_v2(&c.root, all[0], LAZY));
  bcast(&c);
  unsigned char v[N];
  CK(cuMemcpyDtoH_v2(v, c.recv, N));
  if (v[0] != 200) fprintf(stderr, "rank %d: broadcast gave %d, not 200\n", r, v[0]), bad = 1;
  if (r) CK(cuIpcCloseMemHandle(c.root));
  barrier();
  CK(cuMemFree_v2(c.send));
  CK(cuMemFree_v2(c.recv));
  return bad;
}
