/* mini: a small layer over the driver that all parts of the project use. */
#pragma once
#include <cuda.h>
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
void mini_init(int ordinal);
CUdeviceptr mini_alloc(size_t n);
void mini_free(CUdeviceptr p);
void mini_fill(CUdeviceptr p, int v, size_t n);
void mini_read(void *to, CUdeviceptr p, size_t n);
void mini_export(CUdeviceptr p, CUipcMemHandle *h);
CUdeviceptr mini_open(const CUipcMemHandle *h);
void mini_close(CUdeviceptr p);
void mini_each(void **items, int n, void (*visit)(void *item, void *arg), void *arg);
void mini_link_devices(CUcontext *ctx, int n);
#ifdef __cplusplus
}
#endif
