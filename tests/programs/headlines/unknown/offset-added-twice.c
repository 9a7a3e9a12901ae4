// https://github.com/flagos-ai/FlagCX/pull/452
// The proxy adds the gap to the page and the caller adds it again.
#include "../job.h"
#define PAGE 4096
struct reg { CUipcMemHandle h; size_t gap, len; };
static CUdeviceptr proxy_register(const struct reg *r) {
  CUdeviceptr p;
  CK(cuIpcOpenMemHandle_v2(&p, r->h, LAZY));
  return p + r->gap;
}
int main(void) {
  int rank = ranks(2);
  if (rank < 0) return reap();
  start(0);
  struct reg r;
  if (rank == 0) {
    CUdeviceptr b; int v[256];
    CK(cuMemAlloc_v2(&b, 4 * PAGE));
    CK(cuMemsetD8_v2(b, 0, 4 * PAGE));
    for (int i = 0; i < 256; i++) v[i] = i;
    r.gap = PAGE; r.len = sizeof v;
    CK(cuMemcpyHtoD_v2(b + r.gap, v, sizeof v));
    CK(cuIpcGetMemHandle(&r.h, b));
    memcpy(sh->box[0], &r, sizeof r);
    barrier(); barrier();
    CK(cuMemFree_v2(b));
    return 0;
  }
  int v[256];
  barrier();
  memcpy(&r, sh->box[0], sizeof r);
  CUdeviceptr p = proxy_register(&r);
  CK(cuMemcpyDtoH_v2(v, p + r.gap, r.len)); /* wrong: p has the gap already */
  CK(cuIpcCloseMemHandle(p - r.gap));
  barrier();
  for (int i = 0; i < 256; i++)
    if (v[i] != i) { fprintf(stderr, "element %d is %d\n", i, v[i]); return 1; }
  return 0;
}
