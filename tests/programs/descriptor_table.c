/* The first call of a process that has threads does not enlarge the kernel's table of descriptors, which takes seconds on a busy
 * machine. Prints the size of the table before the call and after it. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"

static int size_of_table(void) {
    char line[256];
    int size = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status)) sscanf(line, "FDSize: %d", &size);
    fclose(status);
    return size;
}

static void *first_call(void *unused) {
    CUdeviceptr pointer;
    int before = size_of_table();
    CHECK(cuIpcOpenMemHandle_v2(&pointer, marked_handle(1), 1) == 0);
    printf("%d %d\n", before, size_of_table());
    return unused;
}

int main(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, first_call, NULL) == 0);
    return pthread_join(thread, NULL);
}
