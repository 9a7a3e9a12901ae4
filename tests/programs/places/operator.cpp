// A view that outlives the block it looks at.
#include "job.h"
#include "vmm.hpp"
#include <optional>

struct Cache {
  std::optional<driver::block> block;
  driver::view<float> keys() const { return driver::view<float>(*block); }
  void evict() { block.reset(); }
};

static int importer() {
  int fd = job_recv_fd();
  driver::use(0);
  Cache cache;
  cache.block.emplace(fd, std::size_t(2) << 20);
  close(fd);
  auto keys = cache.keys();
  float first = keys[0];
  cache.evict();
  float last = keys[1023]; /*@*/
  std::cout << first << ' ' << last << '\n';
  job_tell();
  return 0;
}

int main() {
  if (job_split()) return importer();
  driver::use(0);
  driver::block b(std::size_t(2) << 20);
  driver::view<float>(b).fill(0);
  int fd = b.descriptor();
  job_send_fd(fd);
  close(fd);
  job_wait();
  return job_join();
}
