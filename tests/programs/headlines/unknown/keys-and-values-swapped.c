// https://github.com/mstar-project/mstar/pull/66 (key and value pages of another worker)
// VMM: the exporter sends the descriptor of V first, then of K; the importer takes the first one for K.
#include "../job.h"
int main(void) {
  int sv[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv)) return 9;
  pid_t child = fork();
  start(0);
  CUmemAllocationProp prop = {.type = 1, .handles = FD, .location = {1, 0}};
  CUmemAccessDesc acc = {{1, 0}, 3};
  size_t g; CUmemH k, v; CUdeviceptr pk, pv; char c;
  CK(cuMemGetAllocationGranularity(&g, &prop, 0));
  CK(cuMemAddressReserve(&pk, 2 * g, 0, 0, 0));
  pv = pk + g;
  if (child) {
    int fk, fv;
    CK(cuMemCreate(&k, g, &prop, 0));
    CK(cuMemCreate(&v, g, &prop, 0));
    CK(cuMemMap(pk, g, 0, k, 0)); CK(cuMemMap(pv, g, 0, v, 0));
    CK(cuMemSetAccess(pk, 2 * g, &acc, 1));
    CK(cuMemsetD8_v2(pk, 'K', g)); CK(cuMemsetD8_v2(pv, 'V', g));
    CK(cuMemExportToShareableHandle(&fk, k, FD, 0));
    CK(cuMemExportToShareableHandle(&fv, v, FD, 0));
    sendfd(sv[0], fv); sendfd(sv[0], fk); /* wrong order */
    close(fk); close(fv);
    get(sv[0], &c, 1);
  } else {
    int fk = recvfd(sv[1]), fv = recvfd(sv[1]);
    CK(cuMemImportFromShareableHandle(&k, (void *)(long)fk, FD));
    CK(cuMemImportFromShareableHandle(&v, (void *)(long)fv, FD));
    close(fk); close(fv);
    CK(cuMemMap(pk, g, 0, k, 0)); CK(cuMemMap(pv, g, 0, v, 0));
    CK(cuMemSetAccess(pk, 2 * g, &acc, 1));
  }
  char hk, hv; int bad = 0;
  CK(cuMemcpyDtoH_v2(&hk, pk, 1)); CK(cuMemcpyDtoH_v2(&hv, pv, 1));
  if (hk != 'K' || hv != 'V') fprintf(stderr, "%s: key cache holds %c, value cache %c\n", child ? "exporter" : "importer", hk, hv), bad = 1;
  CK(cuMemUnmap(pk, g)); CK(cuMemUnmap(pv, g));
  CK(cuMemRelease(k)); CK(cuMemRelease(v));
  CK(cuMemAddressFree(pk, 2 * g));
  if (child) return reap();
  put(sv[1], "d", 1);
  return bad;
}
