// A server with 40 requests, each opened and closed.
#include "../job.h"
int main(void) {
  int sv[2]; CUipcMemHandle h; CUdeviceptr t; char c;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv)) return 9;
  if (fork() == 0) { /* server: increments the first byte of each request */
    close(sv[0]);
    start(0);
    while (read(sv[1], &h, sizeof h) == sizeof h) {
      CK(cuIpcOpenMemHandle_v2(&t, h, LAZY));
      CK(cuMemcpyDtoH_v2(&c, t, 1));
      c++;
      CK(cuMemcpyHtoD_v2(t, &c, 1));
      CK(cuIpcCloseMemHandle(t));
      put(sv[1], "k", 1);
    }
    return 0;
  }
  close(sv[1]);
  int bad = 0;
  start(0);
  for (int i = 0; i < 40; i++) {
    CK(cuMemAlloc_v2(&t, 256 + i));
    CK(cuMemsetD8_v2(t, i, 256));
    CK(cuIpcGetMemHandle(&h, t));
    put(sv[0], &h, sizeof h);
    get(sv[0], &c, 1);
    CK(cuMemcpyDtoH_v2(&c, t, 1));
    bad |= c != i + 1;
    CK(cuMemFree_v2(t));
  }
  close(sv[0]);
  return reap() | bad;
}
