// Virtual memory with an owner that can be moved.
#pragma once
#include "driver.hpp"
namespace driver {
class block {
  CUdeviceptr at_ = 0;
  std::size_t size_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
public:
  block() = default;
  explicit block(std::size_t n) : size_(n) {
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    check(cuMemCreate(&handle_, n, &p, 0), "cuMemCreate");
    place();
  }
  block(int fd, std::size_t n) : size_(n) {
    check(cuMemImportFromShareableHandle(&handle_, reinterpret_cast<void *>(std::uintptr_t(fd)), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), "import");
    place();
  }
  block(block &&o) noexcept { swap(o); }
  block &operator=(block &&o) noexcept { swap(o); return *this; }
  ~block() { reset(); }
  void reset() noexcept {
    if (!at_) return;
    warn(cuMemUnmap(at_, size_), "cuMemUnmap");
    warn(cuMemAddressFree(at_, size_), "cuMemAddressFree");
    warn(cuMemRelease(handle_), "cuMemRelease");
    at_ = 0;
  }
  int descriptor() const {
    int fd = -1;
    check(cuMemExportToShareableHandle(&fd, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "export");
    return fd;
  }
  CUdeviceptr data() const { return at_; }
  std::size_t size() const { return size_; }
private:
  void swap(block &o) noexcept {
    std::swap(at_, o.at_);
    std::swap(size_, o.size_);
    std::swap(handle_, o.handle_);
  }
  void place() {
    CUmemAccessDesc a = {};
    a.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    a.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    check(cuMemAddressReserve(&at_, size_, 0, 0, 0), "cuMemAddressReserve");
    check(cuMemMap(at_, size_, 0, handle_, 0), "cuMemMap");
    check(cuMemSetAccess(at_, size_, &a, 1), "cuMemSetAccess");
  }
};
template <class T> class view {
  CUdeviceptr p_;
  std::size_t n_;
public:
  view(const block &b) : p_(b.data()), n_(b.size() / sizeof(T)) {}
  void fill(T v) const { call<cuMemsetD8>(p_, (unsigned char)v, n_ * sizeof(T)); }
  T operator[](std::size_t i) const {
    T v{};
    call<cuMemcpyDtoH>(&v, p_ + i * sizeof(T), sizeof v);
    return v;
  }
};
} // namespace driver
