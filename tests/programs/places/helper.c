/* mini_free has many callers here; one of them has memory that is not its own. */
#include "job.h"
#include "mini.h"
enum { N = 4096, LAYERS = 6 };
struct model { CUdeviceptr weights[LAYERS], scratch, staging, embed; };

static void load(struct model *m) {
  for (int i = 0; i < LAYERS; i++) m->weights[i] = mini_alloc(N);
  m->scratch = mini_alloc(N);
  m->staging = mini_alloc(N);
}
static void unload(struct model *m) {
  mini_free(m->staging);
  mini_free(m->scratch);
  for (int i = 0; i < LAYERS; i++) mini_free(m->weights[i]);
  mini_free(m->embed); /*@*/
}
static void warmup(struct model *m) {
  CUdeviceptr tmp = mini_alloc(N);
  mini_fill(tmp, 1, N);
  mini_free(tmp);
  tmp = mini_alloc(2 * N);
  mini_fill(tmp, 1, 2 * N);
  mini_free(tmp);
  mini_fill(m->scratch, 0, N);
}
static void resize(struct model *m, size_t n) {
  mini_free(m->staging);
  m->staging = mini_alloc(n);
}
static int serve(void) {
  struct model m;
  CUipcMemHandle h;
  job_get(&h, sizeof h);
  mini_init(0);
  load(&m);
  m.embed = mini_open(&h);
  warmup(&m);
  resize(&m, 2 * N);
  unload(&m);
  job_tell();
  return 0;
}
int main(void) {
  if (job_split()) return serve();
  mini_init(0);
  CUdeviceptr embed = mini_alloc(N);
  CUipcMemHandle h;
  mini_export(embed, &h);
  job_put(&h, sizeof h);
  job_wait();
  mini_free(embed);
  return job_join();
}
