#include "wrap.h"
#include <stdio.h>
#include <stdint.h>
static int ok(CUresult r, const char *fn) {
  if (r) fprintf(stderr, "libwrap: %s failed (%d)\n", fn, r);
  return r ? -1 : 0;
}
#define TRY(fn, ...) do { if (ok(fn(__VA_ARGS__), #fn)) return -1; } while (0)
int wrap_start(int ordinal) {
  CUdevice d; CUcontext c;
  TRY(cuInit, 0);
  TRY(cuDeviceGet, &d, ordinal);
  TRY(cuDevicePrimaryCtxRetain, &c, d);
  TRY(cuCtxSetCurrent, c);
  return 0;
}
int wrap_event(CUevent *e, unsigned flags) { TRY(cuEventCreate, e, flags); return 0; }
int wrap_event_handle(CUevent e, CUipcEventHandle *h) { TRY(cuIpcGetEventHandle, h, e); return 0; }
static int place(wrap_seg *s) {
  CUmemAccessDesc a = {{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  TRY(cuMemAddressReserve, &s->at, s->size, 0, 0, 0);
  TRY(cuMemMap, s->at, s->size, 0, s->handle, 0);
  TRY(cuMemSetAccess, s->at, s->size, &a, 1);
  return 0;
}
int wrap_seg_make(wrap_seg *s, size_t size, int exportable) {
  CUmemAllocationProp p = {0};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.requestedHandleTypes = exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  s->size = size;
  TRY(cuMemCreate, &s->handle, size, &p, 0);
  return place(s);
}
int wrap_seg_fd(wrap_seg *s, int *fd) {
  TRY(cuMemExportToShareableHandle, fd, s->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  return 0;
}
int wrap_seg_import(wrap_seg *s, size_t size, int fd) {
  s->size = size;
  TRY(cuMemImportFromShareableHandle, &s->handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  return place(s);
}
int wrap_seg_drop(wrap_seg *s) {
  TRY(cuMemUnmap, s->at, s->size);
  TRY(cuMemAddressFree, s->at, s->size);
  TRY(cuMemRelease, s->handle);
  return 0;
}
