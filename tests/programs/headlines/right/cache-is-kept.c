// An importer's cache keeps 6 mappings open until it exits; the exporter waits for that exit before it frees.
#include "../job.h"
#define K 6
int main(void) {
  int p[2]; CUdeviceptr t[K]; CUipcMemHandle h;
  if (pipe(p)) return 9;
  if (fork() == 0) {
    start(0);
    int bad = 0;
    for (int i = 0; i < K; i++) {
      char c;
      get(p[0], &h, sizeof h);
      CK(cuIpcOpenMemHandle_v2(&t[i], h, LAZY));
      CK(cuMemcpyDtoH_v2(&c, t[i], 1));
      bad |= c != 40 + i;
    }
    return bad; /* the cache is left to the exit */
  }
  start(0);
  for (int i = 0; i < K; i++) {
    CK(cuMemAlloc_v2(&t[i], 1000 * (i + 1)));
    CK(cuMemsetD8_v2(t[i], 40 + i, 1000));
    CK(cuIpcGetMemHandle(&h, t[i]));
    put(p[1], &h, sizeof h);
  }
  int bad = reap();
  for (int i = 0; i < K; i++) CK(cuMemFree_v2(t[i]));
  return bad;
}
