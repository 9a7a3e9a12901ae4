/* Thin runtime: each function forwards to the driver and reports failures. */
#pragma once
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((unused)) static CUresult rt_check(CUresult r, const char *what) {
  if (r != CUDA_SUCCESS) {
    const char *name = "?";
    cuGetErrorName(r, &name);
    fprintf(stderr, "rt: %s: %s\n", what, name);
  }
  return r;
}
static inline CUcontext rt_init(int ordinal) {
  CUdevice d; CUcontext c = 0;
  rt_check(cuInit(0), "init");
  rt_check(cuDeviceGet(&d, ordinal), "device");
  rt_check(cuDevicePrimaryCtxRetain(&c, d), "retain");
  rt_check(cuCtxSetCurrent(c), "set current");
  return c;
}
static inline CUdeviceptr rt_alloc(size_t n) { CUdeviceptr p = 0; rt_check(cuMemAlloc(&p, n), "alloc"); return p; }
static inline void rt_free(CUdeviceptr p) { rt_check(cuMemFree(p), "free"); }
static inline void rt_fill(CUdeviceptr p, unsigned char v, size_t n) { rt_check(cuMemsetD8(p, v, n), "fill"); }
static inline void rt_read(void *to, CUdeviceptr p, size_t n) { rt_check(cuMemcpyDtoH(to, p, n), "read"); }
static inline CUipcMemHandle rt_export(CUdeviceptr p) { CUipcMemHandle h; rt_check(cuIpcGetMemHandle(&h, p), "export"); return h; }
static inline CUdeviceptr rt_open(CUipcMemHandle h) {
  CUdeviceptr p = 0;
  rt_check(cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), "open");
  return p;
}
static inline void rt_close(CUdeviceptr p) { rt_check(cuIpcCloseMemHandle(p), "close"); }
