// A mapping handed over by value; its destructor closes it twice.
#include "ipc.hpp"
#include "job.h"
#include <vector>

static unsigned checksum(IpcMapping m, std::size_t n) {
  std::vector<unsigned char> host(n);
  driver::fetch(host.data(), m.get(), n);
  unsigned s = 0;
  for (unsigned char c : host) s = s * 31 + c;
  return s;
}

static void importer() {
  CUipcMemHandle h;
  job_get(&h, sizeof h);
  driver::use(0);
  {
    IpcMapping weights(h); /*@*/
    unsigned s = checksum(weights, 128);
    std::cout << "checksum " << s << '\n';
  } /*@*/
  job_tell();
}

int main() {
  if (job_split()) {
    importer();
    return 0;
  }
  driver::use(0);
  CUdeviceptr p = driver::allocate(1 << 16);
  CUipcMemHandle h = driver::share(p);
  job_put(&h, sizeof h);
  job_wait();
  driver::release(p);
  return job_join();
}
