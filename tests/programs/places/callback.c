/* A callback of the program, called by mini_each. */
#include "job.h"
#include "mini.h"
struct buf { CUdeviceptr p; int shared; };

static void drop(void *item, void *arg) {
  struct buf *b = item;
  int *count = arg;
  if (b->p) mini_free(b->p); /*@*/
  b->p = 0;
  ++*count;
}
static int reader(void) {
  CUipcMemHandle h;
  char host[16];
  job_get(&h, sizeof h);
  mini_init(0);
  CUdeviceptr p = mini_open(&h);
  job_tell();
  job_wait();
  mini_read(host, p, 0);
  mini_close(p);
  return 0;
}
int main(void) {
  if (job_split()) return reader();
  mini_init(0);
  struct buf a = {mini_alloc(4096), 0}, b = {mini_alloc(4096), 1}, c = {mini_alloc(4096), 0};
  void *all[] = {&a, &b, &c};
  CUipcMemHandle h;
  mini_export(b.p, &h);
  job_put(&h, sizeof h);
  job_wait();
  int n = 0;
  mini_each(all, 3, drop, &n);
  job_tell();
  return job_join();
}
