// Popen() and system() after CUDA (as nvidia-smi or ptxas are called); one of the tools ends with 1, which is expected.
#include "../job.h"
int main(void) {
  CUdeviceptr t; char line[64] = ""; unsigned char v;
  start(0);
  CK(cuMemAlloc_v2(&t, 4096));
  FILE *f = popen("echo 8", "r");
  if (!f || !fgets(line, sizeof line, f) || pclose(f)) return 2;
  CK(cuMemsetD8_v2(t, atoi(line), 4096));
  int s = system("test -e /nonexistent/nvidia-peermem"); /* a probe: not there */
  if (!WIFEXITED(s) || WEXITSTATUS(s) != 1) return 3;
  CK(cuMemcpyDtoH_v2(&v, t, 1));
  CK(cuMemFree_v2(t));
  return v != 8;
}
