/* Looks functions up and calls them, in threads and children, under a sanitizer. Expects no report. */
#include "calls.h"

static void *work(void *base) {
    char *memory = malloc(64);
    memset(memory, 1, 64);
    unsigned mark = (unsigned)(uintptr_t)base + (unsigned)memory[5] - 1;
    free(memory);
    for (unsigned i = 0; i < 20; i++)
        if (CALL_MARKED(cuIpcOpenMemHandle_v2, mark + i) != 0 || CALL_MARKED(cuIpcGetMemHandle, mark + 50 + i) != 0) abort();
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)(1000 * (i + 1)));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    void *driver = must_open("libcuda.so.1", RTLD_NOW);
    printf("all: %d\n", call_all(dlsym, driver, 100));
    void *pfn = NULL;
    CHECK(((CUresult(*)(const char *, void **, int, uint64_t, int *))dlsym(driver, "cuGetProcAddress_v2"))("cuIpcGetMemHandle", &pfn, 12000, 0, NULL) == 0);
    printf("looked up: %d\n", call(F_cuIpcGetMemHandle, pfn, 200));
    printf("missing: %d\n", dlsym(driver, "cuNotThere") == NULL);
    print_dlerror("message");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(CALL_MARKED(cuIpcOpenMemHandle_v2, 300));
    int status = -1;
    waitpid(child, &status, 0);
    printf("child: %d\n", status);
    return 0;
}
