/* Small declarations of the CUDA driver API and a few process helpers; no cuda.h needed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr, CUmemH;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUpool_st *CUmemoryPool;
typedef struct { char r[64]; } CUipcMemHandle;
typedef struct { char r[64]; } CUipcEventHandle;
typedef struct { unsigned char r[64]; } CUmemPoolPtrExportData;
typedef struct { int type, id; } CUmemLocation;
typedef struct { CUmemLocation location; int flags; } CUmemAccessDesc;
typedef struct { int type, handles; CUmemLocation location; void *win; unsigned char comp, rdma; unsigned short usage; unsigned char res[4]; } CUmemAllocationProp;
typedef struct { int type, handles; CUmemLocation location; void *win; size_t max; unsigned short usage; unsigned char res[54]; } CUmemPoolProps;
CUresult cuInit(unsigned), cuDeviceGet(CUdevice *, int), cuDeviceGetCount(int *), cuDevicePrimaryCtxRetain(CUcontext *, CUdevice), cuDevicePrimaryCtxRelease_v2(CUdevice);
CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice), cuCtxDestroy_v2(CUcontext), cuCtxSetCurrent(CUcontext), cuCtxSynchronize(void);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t), cuMemFree_v2(CUdeviceptr), cuMemGetAddressRange_v2(CUdeviceptr *, size_t *, CUdeviceptr), cuMemGetInfo_v2(size_t *, size_t *);
CUresult cuIpcGetMemHandle(CUipcMemHandle *, CUdeviceptr), cuIpcOpenMemHandle_v2(CUdeviceptr *, CUipcMemHandle, unsigned), cuIpcCloseMemHandle(CUdeviceptr);
CUresult cuIpcGetEventHandle(CUipcEventHandle *, CUevent), cuIpcOpenEventHandle(CUevent *, CUipcEventHandle);
CUresult cuEventCreate(CUevent *, unsigned), cuEventRecord(CUevent, CUstream), cuEventSynchronize(CUevent), cuEventQuery(CUevent), cuEventDestroy_v2(CUevent);
CUresult cuStreamCreate(CUstream *, unsigned), cuStreamSynchronize(CUstream), cuStreamQuery(CUstream), cuStreamWaitEvent(CUstream, CUevent, unsigned), cuStreamDestroy_v2(CUstream);
CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr, uint32_t, unsigned), cuStreamWriteValue32_v2(CUstream, CUdeviceptr, uint32_t, unsigned), cuLaunchHostFunc(CUstream, void (*)(void *), void *);
CUresult cuMemcpyDtoD_v2(CUdeviceptr, CUdeviceptr, size_t), cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t), cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, CUstream), cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, CUstream), cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, CUstream);
CUresult cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t), cuMemsetD32_v2(CUdeviceptr, unsigned, size_t), cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, CUstream), cuMemsetD32Async(CUdeviceptr, unsigned, size_t, CUstream);
CUresult cuMemGetAllocationGranularity(size_t *, const CUmemAllocationProp *, int), cuMemCreate(CUmemH *, size_t, const CUmemAllocationProp *, unsigned long long), cuMemRelease(CUmemH), cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long), cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, CUmemH, unsigned long long), cuMemUnmap(CUdeviceptr, size_t), cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t), cuMemExportToShareableHandle(void *, CUmemH, int, unsigned long long), cuMemImportFromShareableHandle(CUmemH *, void *, int);
CUresult cuMemPoolCreate(CUmemoryPool *, const CUmemPoolProps *), cuMemPoolDestroy(CUmemoryPool), cuMemPoolExportToShareableHandle(void *, CUmemoryPool, int, unsigned long long), cuMemPoolImportFromShareableHandle(CUmemoryPool *, void *, int, unsigned long long);
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *, CUdeviceptr), cuMemPoolImportPointer(CUdeviceptr *, CUmemoryPool, CUmemPoolPtrExportData *), cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, CUmemoryPool, CUstream), cuMemFreeAsync(CUdeviceptr, CUstream), cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc *, size_t);
CUresult cuDeviceCanAccessPeer(int *, CUdevice, CUdevice), cuCtxEnablePeerAccess(CUcontext, unsigned), cuCtxDisablePeerAccess(CUcontext), cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
enum { NOT_READY = 600, PEER_ENABLED = 704, LAZY = 1, EV_IPC = 4 | 2, FD = 1 };
#define CK(x) do { CUresult r_ = (x); if (r_) { fprintf(stderr, "%s:%d: %s returned %d\n", __FILE__, __LINE__, #x, r_); exit(3); } } while (0)
#define MAXN 8
struct shared { pthread_barrier_t b; volatile int flag[64]; char box[MAXN][4096]; };
static struct shared *sh; /* host memory of all ranks of the job */
__attribute__((unused)) static CUcontext start(int dev) { CUdevice d; CUcontext c; CK(cuInit(0)); CK(cuDeviceGet(&d, dev)); CK(cuDevicePrimaryCtxRetain(&c, d)); CK(cuCtxSetCurrent(c)); return c; }
__attribute__((unused)) static void put(int fd, const void *p, size_t n) { if (write(fd, p, n) != (ssize_t)n) exit(4); }
__attribute__((unused)) static void get(int fd, void *p, size_t n) { size_t k = 0; while (k < n) { ssize_t r = read(fd, (char *)p + k, n - k); if (r <= 0) exit(5); k += r; } }
__attribute__((unused)) static void barrier(void) { pthread_barrier_wait(&sh->b); }
/* shared host memory with a barrier of n processes; forks them; the parent gets -1 */
__attribute__((unused)) static int ranks(int n) {
  sh = mmap(0, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_barrierattr_t a; pthread_barrierattr_init(&a); pthread_barrierattr_setpshared(&a, PTHREAD_PROCESS_SHARED); pthread_barrier_init(&sh->b, &a, n);
  for (int i = 0; i < n; i++) if (fork() == 0) return i;
  return -1;
}
__attribute__((unused)) static int reap(void) { int s, bad = 0; while (wait(&s) > 0) bad |= s != 0; return bad; }
/* all-gather of one record of each rank */
__attribute__((unused)) static void gather(int rank, int n, void *all, const void *mine, size_t size) { memcpy(sh->box[rank], mine, size); barrier(); for (int i = 0; i < n; i++) memcpy((char *)all + i * size, sh->box[i], size); barrier(); }
__attribute__((unused)) static void sendfd(int s, int fd) { char c = 0, b[CMSG_SPACE(sizeof fd)] = {0}; struct iovec v = {&c, 1}; struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = b, .msg_controllen = sizeof b}; struct cmsghdr *h = CMSG_FIRSTHDR(&m); h->cmsg_level = SOL_SOCKET; h->cmsg_type = SCM_RIGHTS; h->cmsg_len = CMSG_LEN(sizeof fd); memcpy(CMSG_DATA(h), &fd, sizeof fd); if (sendmsg(s, &m, 0) != 1) exit(6); }
__attribute__((unused)) static int recvfd(int s) { char c, b[CMSG_SPACE(sizeof(int))]; struct iovec v = {&c, 1}; struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = b, .msg_controllen = sizeof b}; int fd; if (recvmsg(s, &m, 0) != 1 || !CMSG_FIRSTHDR(&m)) exit(7); memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd); return fd; }
/* stands for a kernel of at most 0.15 s, which ends earlier if *p is set: a host function in the stream */
__attribute__((unused)) static void kernel(void *p) { for (int i = 0; i < 500 && !*(volatile int *)p; i++) usleep(300); }
#ifdef SILENT /* the same programs, but every process returns 0: a job whose wrong result nobody checks */
int real_main();
int main(int c, char **v) { real_main(c, v); return 0; }
#define main real_main
#endif
