/* A table of functions for each kind of memory, as transports have it. */
#include "job.h"
#include "rt.h"
struct seg;
struct ops {
  const char *name;
  int (*attach)(struct seg *, const CUipcMemHandle *);
  int (*detach)(struct seg *);
};
struct seg { const struct ops *ops; CUdeviceptr p; int users; };

static int ipc_attach(struct seg *s, const CUipcMemHandle *h) { s->p = rt_open(*h); s->users = 1; return s->p ? 0 : -1; }
static int ipc_detach(struct seg *s) { rt_close(s->p); s->users = 0; return 0; }
static int null_attach(struct seg *s, const CUipcMemHandle *h) { (void)s, (void)h; return 0; }
static int null_detach(struct seg *s) { (void)s; return 0; }
static const struct ops table[] = {{"none", null_attach, null_detach}, {"ipc", ipc_attach, ipc_detach}};

static void endpoint_flush(struct seg *s, int n) {
  for (int i = 0; i < n; i++) s[i].ops->detach(&s[i]);
}
static void endpoint_close(struct seg *s) {
  s[1].ops->detach(&s[1]); /*@*/
  printf("closed\n");
}
static int importer(void) {
  CUipcMemHandle h;
  struct seg s[2] = {{&table[0]}, {&table[1]}};
  job_get(&h, sizeof h);
  rt_init(0);
  for (int i = 0; i < 2; i++) s[i].ops->attach(&s[i], &h);
  endpoint_flush(s, 2);
  endpoint_close(s);
  job_tell();
  return 0;
}
int main(void) {
  if (job_split()) return importer();
  rt_init(0);
  CUdeviceptr p = rt_alloc(8192);
  CUipcMemHandle h = rt_export(p);
  job_put(&h, sizeof h);
  job_wait();
  rt_free(p);
  return job_join();
}
