// std::unique_ptr with a deleter that frees.
#include "driver.hpp"
#include "job.h"
#include <memory>
#include <vector>

struct Free {
  void operator()(void *p) const noexcept { driver::release(reinterpret_cast<CUdeviceptr>(p)); }
};
using Buffer = std::unique_ptr<void, Free>;

struct Slot {
  Buffer buffer;
  std::size_t size = 0;
  void grow(std::size_t n) {
    if (n <= size) return;
    buffer.reset(reinterpret_cast<void *>(driver::allocate(n))); /*@*/
    size = n;
  }
};

static int reader() {
  CUipcMemHandle h;
  job_get(&h, sizeof h);
  driver::use(0);
  CUdeviceptr p = driver::open(h);
  job_tell();
  job_wait();
  driver::close(p);
  return 0;
}

int main() {
  if (job_split()) return reader();
  driver::use(0);
  std::vector<Slot> slots(3);
  for (auto &s : slots) s.grow(4096);
  CUipcMemHandle h = driver::share(reinterpret_cast<CUdeviceptr>(slots[1].buffer.get()));
  job_put(&h, sizeof h);
  job_wait();
  slots[0].grow(8192);
  slots[1].grow(8192); /*@*/
  job_tell();
  return job_join();
}
