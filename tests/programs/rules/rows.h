/* Copies of rows and batches of copies, for the programs of this folder. */
#ifndef ROWS_H
#define ROWS_H
#include "memory.h"

/* CUDA_MEMCPY2D. */
typedef struct {
    size_t x, y;
    int type;
    const void *host;
    CUdeviceptr device;
    void *array;
    size_t pitch;
} Side2D;
typedef struct {
    Side2D from, to;
    size_t width, height;
} Rows;
enum { HOST = 1, ON_DEVICE = 2 };

/* CUDA_MEMCPY3D_BATCH_OP, of which each side has an address. */
typedef struct {
    struct {
        int type;
        CUdeviceptr at;
        size_t row, rows;
        Location place;
    } from, to;
    size_t width, height, depth;
    int order;
    unsigned flags;
} Slices;

#endif
