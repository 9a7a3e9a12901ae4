/* runtime [all | LIBRARY...]: a program of the runtime. `all` calls each of its functions that cupeer sees; a LIBRARY is opened,
 * and what it exports as `plugin` is called, which says which runtime it has; one that is called `=PATH` is a runtime, of which
 * a function is looked up. Prints what each call gives. */
#include "cudart.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAY(call) printf("%s = %d\n", #call, call)

#ifdef LAST
/* The call is the last thing that its function does: it returns to the caller of that. */
__attribute__((noinline)) int last(int *can) { return cudaDeviceCanAccessPeer(can, 0, 1); }
#define cudaDeviceCanAccessPeer(can, device, peer) last(can)
#endif
#ifdef PLUGIN
int plugin(void) {
    int can = -1, before = cudart_calls(), result = cudaDeviceCanAccessPeer(&can, 0, 1);
    printf("of its own: %d, can: %d\n", cudart_calls() - before, can);
    return result;
}
#else
static void importer(int from) {
    Handle handle, damaged;
    void *memory = NULL, *event = NULL, *pool = NULL;
    int can = -1, value = -1;
    unsigned capabilities[2] = {0, 0};
    const int operations[2] = {0, 9};
    Export data = {{0}};
    if (read(from, &handle, sizeof handle) != sizeof handle) return;
    SAY(cudaIpcOpenMemHandle(&memory, handle, 1));
    SAY(cudaIpcCloseMemHandle(memory));
    damaged = handle;
    damaged.bytes[30] ^= 1;
    SAY(cudaIpcOpenMemHandle(&memory, damaged, 1));
    SAY(cudaIpcCloseMemHandle((void *)64));
    SAY(cudaDeviceCanAccessPeer(&can, 0, 1));
    SAY(cudaDeviceGetP2PAttribute(&value, 2, 0, 1));
    SAY(cudaDeviceGetP2PAtomicCapabilities(capabilities, operations, 2, 0, 1));
    SAY(cudaDeviceEnablePeerAccess(1, 0));
    SAY(cudaDeviceEnablePeerAccess(1, 0));
    SAY(cudaDeviceDisablePeerAccess(1));
    printf("can: %d, value: %d, capabilities: %u %u\n", can, value, capabilities[0], capabilities[1]);
    SAY(cudaIpcGetEventHandle(&handle, NULL));
    SAY(cudaIpcOpenEventHandle(&event, damaged));
    SAY(cudaMemPoolExportToShareableHandle(&value, NULL, 1, 0));
    SAY(cudaMemPoolImportFromShareableHandle(&pool, (void *)-1L, 1, 0));
    SAY(cudaMemPoolExportPointer(&data, (void *)64));
    SAY(cudaMemPoolImportPointer(&memory, NULL, &data));
    printf("calls of this runtime: %d\n", cudart_calls());
}

static void all(void) {
    int ends[2];
    Handle handle;
    void *memory = NULL;
    if (pipe(ends) != 0) return;
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        importer(ends[0]);
        fflush(stdout);
        _exit(0);
    }
    SAY(cudaMalloc(&memory, 2 << 20));
    SAY(cudaIpcGetMemHandle(&handle, memory));
    fflush(stdout);
    if (write(ends[1], &handle, sizeof handle) != sizeof handle) return;
    close(ends[1]);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "all") == 0) {
            all();
            continue;
        }
        int is_runtime = argv[i][0] == '=', can = -1;
        void *library = dlopen(argv[i] + is_runtime, RTLD_NOW | RTLD_LOCAL);
        if (!library) return printf("cannot open: %s\n", dlerror()), 1;
        if (is_runtime) {
            int (*look_up)(int *, int, int) = (int (*)(int *, int, int))dlsym(library, "cudaDeviceCanAccessPeer");
            int (*calls)(void) = (int (*)(void))dlsym(library, "cudart_calls");
            int result = look_up(&can, 0, 1);
            printf("looked up: %d, can: %d, calls: %d\n", result, can, calls());
        } else {
            int (*plugin)(void) = (int (*)(void))dlsym(library, "plugin");
            printf("plugin: %d\n", plugin());
        }
    }
    return 0;
}
#endif
