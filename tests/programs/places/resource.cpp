// A buffer with the resource of another kind of memory.
#include "job.h"
#include "resource.hpp"

static unsigned score(const CUipcMemHandle &h, mr::resource *pool) {
  unsigned v = 0;
  mr::device_buffer scratch(4096, pool);
  {
    mr::device_buffer input(driver::open(h), 4096, pool); /*@*/
    driver::fetch(&v, input.data(), sizeof v);
  } /*@*/
  return v;
}

static int importer() {
  CUipcMemHandle h;
  job_get(&h, sizeof h);
  driver::use(0);
  mr::cuda_resource cuda;
  mr::ipc_resource ipc(h);
  mr::device_buffer whole(4096, &ipc);
  whole.deallocate();
  std::cout << score(h, &cuda) << '\n';
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
