// Two libraries enable peer access; the second is told that it is enabled already and takes that as success.
#include "../job.h"
static int enable(CUcontext peer) {
  int e = cuCtxEnablePeerAccess(peer, 0);
  return e == PEER_ENABLED ? 0 : e;
}
int main(void) {
  CUcontext c1, c0; int can; CUdeviceptr a, b; unsigned char v;
  c0 = start(0);
  CK(cuMemAlloc_v2(&a, 4096));
  CK(cuDeviceCanAccessPeer(&can, 0, 1));
  if (!can) return 0;
  c1 = start(1);
  CK(cuMemAlloc_v2(&b, 4096));
  CK(cuMemsetD8_v2(b, 19, 4096));
  CK(cuCtxSynchronize());
  CK(cuCtxSetCurrent(c0));
  CK(enable(c1));
  CK(enable(c1));
  CK(cuMemcpyDtoD_v2(a, b, 4096));
  CK(cuMemcpyDtoH_v2(&v, a, 1));
  CK(cuMemcpyPeer(b, c1, a, c0, 64));
  CK(cuMemFree_v2(a));
  CK(cuCtxSetCurrent(c1));
  CK(cuMemFree_v2(b));
  return v != 19;
}
