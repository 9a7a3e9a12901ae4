/* minded WHAT: calls once, and then
 *   well      nothing more
 *   overflow  writes behind its memory, which AddressSanitizer reports
 *   refuse    before the call, ends with 3 if anything is preloaded
 * -DOPTIONS: the program has options for AddressSanitizer. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef OPTIONS
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }
#endif

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    if (strcmp(argv[1], "refuse") == 0 && getenv("LD_PRELOAD")) return 3;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*can)(int *, int, int) = driver ? (int (*)(int *, int, int))dlsym(driver, "cuDeviceCanAccessPeer") : NULL;
    int answer;
    if (!can) return 4;
    can(&answer, 0, 1);
    char *volatile memory = malloc(10);
    if (strcmp(argv[1], "overflow") == 0) memory[10] = 1;
    free(memory);
    puts("well");
    return 0;
}
