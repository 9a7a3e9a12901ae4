// An opened handle that closes itself.
#pragma once
#include "driver.hpp"
class IpcMapping {
public:
  explicit IpcMapping(const CUipcMemHandle &h) : ptr_(driver::open(h)) {}
  ~IpcMapping() {
    if (ptr_) driver::close(ptr_);
  }
  CUdeviceptr get() const { return ptr_; }
private:
  CUdeviceptr ptr_;
};
