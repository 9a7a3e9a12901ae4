/* libwrap: sharing of memory and events for several programs. */
#pragma once
#include <cuda.h>
#include <stddef.h>
int wrap_start(int ordinal);
int wrap_event(CUevent *e, unsigned flags);
int wrap_event_handle(CUevent e, CUipcEventHandle *h);
typedef struct { CUdeviceptr at; size_t size; CUmemGenericAllocationHandle handle; } wrap_seg;
int wrap_seg_make(wrap_seg *s, size_t size, int exportable);
int wrap_seg_fd(wrap_seg *s, int *fd);
int wrap_seg_import(wrap_seg *s, size_t size, int fd);
int wrap_seg_drop(wrap_seg *s);
