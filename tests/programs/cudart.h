/* The runtime's functions that the tests use, and their types. */
#include <stddef.h>

typedef struct { char bytes[64]; } Handle;
typedef struct { char bytes[64]; } Export;

int cudart_calls(void), cudaMalloc(void **, size_t);
int cudaDeviceCanAccessPeer(int *, int, int), cudaDeviceGetP2PAttribute(int *, int, int, int);
int cudaDeviceGetP2PAtomicCapabilities(unsigned *, const int *, unsigned, int, int);
int cudaDeviceEnablePeerAccess(int, unsigned), cudaDeviceDisablePeerAccess(int);
int cudaIpcGetMemHandle(Handle *, void *), cudaIpcOpenMemHandle(void **, Handle, unsigned), cudaIpcCloseMemHandle(void *);
int cudaIpcGetEventHandle(Handle *, void *), cudaIpcOpenEventHandle(void **, Handle);
int cudaMemPoolExportToShareableHandle(void *, void *, int, unsigned);
int cudaMemPoolImportFromShareableHandle(void **, void *, int, unsigned);
int cudaMemPoolExportPointer(Export *, void *), cudaMemPoolImportPointer(void **, void *, Export *);
