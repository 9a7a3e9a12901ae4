// A thread that has no context.
#include "driver.hpp"
#include "job.h"
#include <thread>
#include <vector>

static void fetch_all(const std::vector<CUipcMemHandle> &handles, std::vector<CUdeviceptr> &out) {
  for (const auto &h : handles) out.push_back(driver::open(h)); /*@*/
}

static int importer() {
  std::vector<CUipcMemHandle> handles(2);
  std::vector<CUdeviceptr> mapped;
  job_get(handles.data(), sizeof(CUipcMemHandle) * handles.size());
  driver::use(0);
  std::thread worker([&] {
    try {
      fetch_all(handles, mapped);
    } catch (const driver::error &e) {
      std::cerr << "worker: " << e.what() << '\n';
    }
  });
  worker.join();
  for (CUdeviceptr p : mapped) driver::close(p);
  job_tell();
  return 0;
}

int main() {
  if (job_split()) return importer();
  driver::use(0);
  CUdeviceptr a = driver::allocate(4096), b = driver::allocate(4096);
  CUipcMemHandle h[2] = {driver::share(a), driver::share(b)};
  job_put(h, sizeof h);
  job_wait();
  driver::release(a);
  driver::release(b);
  return job_join();
}
