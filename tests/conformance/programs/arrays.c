// Arrays have a shape of their own: what is copied into a part of one is there, and nothing beyond its edges is.
#include "common.h"
#include <stddef.h>

typedef struct { size_t width, height; int format; unsigned channels; } Flat;
typedef struct { size_t width, height, depth; int format; unsigned channels, flags; } Solid;
typedef struct {
    size_t sx, sy; int skind; const void *shost; CUdeviceptr sdevice; void *sarray; size_t spitch;
    size_t dx, dy; int dkind; void *dhost; CUdeviceptr ddevice; void *darray; size_t dpitch;
    size_t width, height;
} Copy;
int cuArrayCreate_v2(void **, const Flat *), cuArray3DCreate_v2(void **, const Solid *), cuArrayDestroy(void *);
int cuArrayGetDescriptor_v2(Flat *, void *), cuArray3DGetDescriptor_v2(Solid *, void *), cuMemcpy2D_v2(const Copy *);
int cuMemcpyHtoA_v2(void *, size_t, const void *, size_t), cuMemcpyAtoH_v2(void *, void *, size_t, size_t);
int cuMipmappedArrayCreate(void **, const Solid *, unsigned), cuMipmappedArrayDestroy(void *);
int cuMipmappedArrayGetLevel(void **, void *, unsigned), cuMemcpyAtoA_v2(void *, size_t, void *, size_t, size_t);
enum { HOST = 1, ARRAY = 3, FLOATS = 0x20, BYTES = 1 };

int main(void) {
    void *context, *array, *other, *mipmapped;
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&context, 0), 0);
    IS(cuCtxSetCurrent(context), 0);
    Flat flat = {8, 4, BYTES, 1}, got;
    Solid solid = {4, 4, 6, FLOATS, 2, 4}, back;
    IS(cuArrayCreate_v2(&array, &flat), 0);
    IS(cuArrayGetDescriptor_v2(&got, array), 0);
    IS(got.width == 8 && got.height == 4 && got.format == BYTES && got.channels == 1, 1);
    IS(cuArray3DCreate_v2(&other, &solid), 0);
    IS(cuArray3DGetDescriptor_v2(&back, other), 0);
    IS(memcmp(&back, &solid, offsetof(Solid, flags) + 4), 0);
    IS(cuArrayDestroy(other), 0);
    IS(cuArrayDestroy(other), 400);
    // Two rows of three bytes into the middle, from a place with another pitch; then all of it.
    unsigned char part[2][5] = {{1, 2, 3, 99, 99}, {4, 5, 6, 99, 99}}, all[4][8], expected[4][8] = {{0}};
    Copy into = {.skind = HOST, .shost = part, .spitch = 5, .dx = 2, .dy = 1, .dkind = ARRAY, .darray = array, .width = 3, .height = 2};
    Copy out = {.skind = ARRAY, .sarray = array, .dkind = HOST, .dhost = all, .dpitch = 8, .width = 8, .height = 4};
    IS(cuMemcpy2D_v2(&into), 0);
    IS(cuMemcpy2D_v2(&out), 0);
    for (int y = 0; y < 2; y++) memcpy(&expected[y + 1][2], part[y], 3);
    IS(memcmp(all, expected, sizeof all), 0);
    // Past an edge, or of what is no array, is an error.
    into.dx = 6;
    IS(cuMemcpy2D_v2(&into), 1);
    into.dx = 2, into.dy = 3;
    IS(cuMemcpy2D_v2(&into), 1);
    into.dy = 0, into.darray = (void *)0x1234;
    IS(cuMemcpy2D_v2(&into), 400);
    IS(cuMemcpyHtoA_v2(array, 31, "x", 2), 1);
    IS(cuMemcpyHtoA_v2(array, 31, "x", 1), 0);
    IS(cuArrayCreate_v2(&other, &flat), 0);
    IS(cuMemcpyAtoA_v2(other, 0, array, 24, 8), 0);
    IS(cuMemcpyAtoH_v2(all, other, 7, 1), 0);
    IS(all[0][0], 'x');
    IS(cuMipmappedArrayCreate(&mipmapped, &(Solid){8, 8, 0, FLOATS, 1, 0}, 3), 0);
    IS(cuMipmappedArrayGetLevel(&other, mipmapped, 2), 0);
    IS(cuArrayGetDescriptor_v2(&got, other), 0);
    IS(got.width == 2 && got.height == 2, 1);
    IS(cuArrayDestroy(other), 400);
    IS(cuMipmappedArrayGetLevel(&other, mipmapped, 3), 1);
    IS(cuMipmappedArrayDestroy(mipmapped), 0);
    return 0;
}
