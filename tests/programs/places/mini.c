#include "mini.h"
#include <stdio.h>
#include <stdlib.h>
static void fail(CUresult r, const char *call, int line) {
  const char *s = "unknown";
  cuGetErrorString(r, &s);
  fprintf(stderr, "mini.c:%d: %s: %s\n", line, call, s);
  if (getenv("MINI_ABORT")) abort();
}
#define MINI(call) do { CUresult r_ = (call); if (r_ != CUDA_SUCCESS) fail(r_, #call, __LINE__); } while (0)
void mini_init(int ordinal) {
  CUdevice d;
  CUcontext c;
  MINI(cuInit(0));
  MINI(cuDeviceGet(&d, ordinal));
  MINI(cuDevicePrimaryCtxRetain(&c, d));
  MINI(cuCtxSetCurrent(c));
}
CUdeviceptr mini_alloc(size_t n) {
  CUdeviceptr p = 0;
  MINI(cuMemAlloc(&p, n));
  return p;
}
void mini_free(CUdeviceptr p) {
  if (!p) return;
  MINI(cuMemFree(p));
}
void mini_fill(CUdeviceptr p, int v, size_t n) { MINI(cuMemsetD8(p, v, n)); }
void mini_read(void *to, CUdeviceptr p, size_t n) { MINI(cuMemcpyDtoH(to, p, n)); }
void mini_export(CUdeviceptr p, CUipcMemHandle *h) { MINI(cuIpcGetMemHandle(h, p)); }
CUdeviceptr mini_open(const CUipcMemHandle *h) {
  CUdeviceptr p = 0;
  MINI(cuIpcOpenMemHandle(&p, *h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  return p;
}
void mini_close(CUdeviceptr p) {
  if (!p) return;
  MINI(cuIpcCloseMemHandle(p));
}
void mini_each(void **items, int n, void (*visit)(void *item, void *arg), void *arg) {
  for (int i = 0; i < n; i++) visit(items[i], arg);
}
void mini_link_devices(CUcontext *ctx, int n) {
  for (int i = 0; i < n; i++) {
    MINI(cuCtxSetCurrent(ctx[i]));
    for (int k = 0; k < n; k++)
      if (k != i) MINI(cuCtxEnablePeerAccess(ctx[k], 0));
  }
  MINI(cuCtxSetCurrent(ctx[0]));
}
