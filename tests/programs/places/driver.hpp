// driver: checked calls and a few owners.
#pragma once
#include <cuda.h>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
namespace driver {
struct error : std::runtime_error {
  CUresult code;
  error(CUresult r, const std::string &what) : std::runtime_error(what + " failed with " + std::to_string(int(r))), code(r) {}
};
inline void check(CUresult r, const char *what) {
  if (r != CUDA_SUCCESS) throw error(r, what);
}
inline bool warn(CUresult r, const char *what) noexcept {
  if (r == CUDA_SUCCESS) return true;
  std::cerr << "driver: " << what << " returned " << int(r) << '\n';
  return false;
}
template <auto Fn, class... Args> bool call(Args &&...args) {
  return warn(Fn(std::forward<Args>(args)...), "call");
}
inline CUcontext use(int ordinal) {
  CUdevice d;
  CUcontext c;
  check(cuInit(0), "cuInit");
  check(cuDeviceGet(&d, ordinal), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&c, d), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(c), "cuCtxSetCurrent");
  return c;
}
inline CUdeviceptr allocate(std::size_t n) {
  CUdeviceptr p = 0;
  check(cuMemAlloc(&p, n), "cuMemAlloc");
  return p;
}
inline void release(CUdeviceptr p) noexcept { warn(cuMemFree(p), "cuMemFree"); }
inline CUipcMemHandle share(CUdeviceptr p) {
  CUipcMemHandle h;
  check(cuIpcGetMemHandle(&h, p), "cuIpcGetMemHandle");
  return h;
}
inline CUdeviceptr open(const CUipcMemHandle &h) {
  CUdeviceptr p = 0;
  check(cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), "cuIpcOpenMemHandle");
  return p;
}
inline void close(CUdeviceptr p) noexcept { warn(cuIpcCloseMemHandle(p), "cuIpcCloseMemHandle"); }
inline void fetch(void *to, CUdeviceptr p, std::size_t n) { check(cuMemcpyDtoH(to, p, n), "cuMemcpyDtoH"); }

class event {
  CUevent e_ = nullptr;
public:
  explicit event(unsigned flags) { check(cuEventCreate(&e_, flags), "cuEventCreate"); }
  event(const event &) = delete;
  ~event() { warn(cuEventDestroy(e_), "cuEventDestroy"); }
  CUevent get() const { return e_; }
  CUipcEventHandle handle() const {
    CUipcEventHandle h;
    check(cuIpcGetEventHandle(&h, e_), "cuIpcGetEventHandle");
    return h;
  }
};
} // namespace driver
