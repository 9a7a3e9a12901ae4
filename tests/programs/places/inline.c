/* All calls go through the inline functions of rt.h. */
#include "job.h"
#include "rt.h"
enum { N = 1 << 16 };

static void refill(CUdeviceptr slots, int round) {
  for (int i = 0; i < 4; i++)
    rt_fill(slots + i * 1024, round, 1024); /*@*/
}

static void consumer(void) {
  CUipcMemHandle h;
  job_get(&h, sizeof h);
  rt_init(0);
  CUdeviceptr slots = rt_open(h);
  for (int round = 0; round < 3; round++) {
    if (round == 2) rt_close(slots);
    refill(slots, round);
  }
  job_tell();
}

int main(void) {
  if (job_split()) {
    consumer();
    return 0;
  }
  rt_init(0);
  CUdeviceptr p = rt_alloc(N);
  CUipcMemHandle h = rt_export(p);
  job_put(&h, sizeof h);
  job_wait();
  rt_free(p);
  return job_join();
}
