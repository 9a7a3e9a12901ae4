/* The part of cuda.h that the table does not have, for the C files of `cupeer reproduce`. */
#include <stddef.h>
#include <stdint.h>

#define CUDA_VERSION 12090

typedef uint64_t cuuint64_t;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr, CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUevent_st *CUevent;
typedef struct CUstream_st *CUstream;
typedef struct CUmemPool_st *CUmemoryPool;
typedef struct { char reserved[64]; } CUipcMemHandle;
typedef struct { char reserved[64]; } CUipcEventHandle;
typedef struct { unsigned char data[64]; } CUmemFabricHandle;
typedef struct { unsigned char reserved[64]; } CUmemPoolPtrExportData;
typedef int CUdevice_P2PAttribute, CUatomicOperation, CUdevice_attribute, CUmemAllocationType, CUmemLocationType;
typedef int CUmemAllocationHandleType, CUmemAccess_flags, CUmemAllocationGranularity_flags, CUmemRangeHandleType;
typedef int CUmulticastGranularity_flags;
typedef struct { CUmemLocationType type; int id; } CUmemLocation;
typedef struct { CUmemLocation location; CUmemAccess_flags flags; } CUmemAccessDesc;
typedef struct {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    unsigned char allocFlags[8];
} CUmemAllocationProp;
typedef struct {
    CUmemAllocationType allocType;
    CUmemAllocationHandleType handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned char reserved[56];
} CUmemPoolProps;
typedef struct { unsigned numDevices; size_t size; unsigned long long handleTypes, flags; } CUmulticastObjectProp;

enum { CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_INTERPROCESS = 4, CU_STREAM_NON_BLOCKING = 1 };
#define CU_STREAM_LEGACY ((CUstream)1)
#define CU_STREAM_PER_THREAD ((CUstream)2)

CUresult cuInit(unsigned flags);
CUresult cuGetErrorName(CUresult result, const char **name);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
#define cuCtxCreate cuCtxCreate_v2
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
