// Fork after CUDA; the child (a logger without CUDA) outlives its parent for a moment.
#include "../job.h"
int main(void) {
  CUdeviceptr t; int p[2]; char c;
  start(0);
  CK(cuMemAlloc_v2(&t, 1 << 20));
  if (pipe(p)) return 9;
  if (fork() == 0) { /* logger: until its pipe ends */
    close(p[1]);
    while (read(p[0], &c, 1) > 0) { }
    usleep(100000);
    _exit(0);
  }
  close(p[0]);
  CK(cuMemsetD8_v2(t, 1, 1 << 20));
  put(p[1], "x", 1);
  CK(cuMemFree_v2(t));
  return 0;
}
