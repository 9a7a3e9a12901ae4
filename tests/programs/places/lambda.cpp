// Clean-up actions in std::function.
#include "driver.hpp"
#include "job.h"
#include <functional>
#include <vector>

class Cleanup {
  std::vector<std::function<void()>> todo_;
public:
  void add(std::function<void()> f) { todo_.push_back(std::move(f)); }
  void run() {
    while (!todo_.empty()) {
      auto f = std::move(todo_.back());
      todo_.pop_back();
      f();
    }
  }
};

static int importer() {
  CUipcMemHandle h;
  unsigned char c = 0;
  job_get(&h, sizeof h);
  driver::use(0);
  Cleanup cleanup;
  CUdeviceptr p = driver::open(h);
  cleanup.add([&c] { std::cout << "last byte " << int(c) << '\n'; });
  cleanup.add([p] {
    driver::close(p); /*@*/
  });
  driver::fetch(&c, p, 1);
  driver::close(p);
  cleanup.run();
  job_tell();
  return 0;
}

int main() {
  if (job_split()) return importer();
  driver::use(0);
  CUdeviceptr p = driver::allocate(4096);
  CUipcMemHandle h = driver::share(p);
  job_put(&h, sizeof h);
  job_wait();
  driver::release(p);
  return job_join();
}
