// Memory resources and buffers, as libraries of device containers have them.
#pragma once
#include "driver.hpp"
namespace mr {
class resource {
public:
  virtual ~resource() = default;
  CUdeviceptr allocate(std::size_t n) { return do_allocate(n); }
  void deallocate(CUdeviceptr p, std::size_t n) noexcept { do_deallocate(p, n); }
private:
  virtual CUdeviceptr do_allocate(std::size_t n) = 0;
  virtual void do_deallocate(CUdeviceptr p, std::size_t n) noexcept = 0;
};
class cuda_resource final : public resource {
  CUdeviceptr do_allocate(std::size_t n) override { return driver::allocate(n); }
  void do_deallocate(CUdeviceptr p, std::size_t) noexcept override { driver::release(p); }
};
class ipc_resource final : public resource {
  CUipcMemHandle h_;
  CUdeviceptr do_allocate(std::size_t) override { return driver::open(h_); }
  void do_deallocate(CUdeviceptr p, std::size_t) noexcept override { driver::close(p); }
public:
  explicit ipc_resource(const CUipcMemHandle &h) : h_(h) {}
};
class device_buffer {
  CUdeviceptr p_ = 0;
  std::size_t n_ = 0;
  resource *mr_;
public:
  device_buffer(std::size_t n, resource *mr) : p_(mr->allocate(n)), n_(n), mr_(mr) {}
  device_buffer(CUdeviceptr p, std::size_t n, resource *mr) : p_(p), n_(n), mr_(mr) {}
  device_buffer(const device_buffer &) = delete;
  ~device_buffer() { deallocate(); }
  void deallocate() noexcept {
    if (p_) mr_->deallocate(p_, n_);
    p_ = 0;
  }
  CUdeviceptr data() const { return p_; }
};
} // namespace mr
