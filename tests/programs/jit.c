/* jit FORM...: calls the driver from code that was made at run time, and from functions whose stack is not what it
 * seems. Each form fails one call and exports one thing; expects the driver's answers, and to live.
 *
 * frame: the code keeps a frame pointer. bare: it keeps none. garbage: it has something else in that register.
 * hijacked: a function that called has another return address meanwhile, as tracers do it. registered: the code has
 * unwind information, which is wrong. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <stdint.h>
#include <sys/mman.h>

typedef CUresult code(void *, uintptr_t, int, void *);
static unsigned char *page;

static void both(code *through) {
    char handle[64];
    printf("%d ", through(NULL, 30101, 1, (void *)cuDeviceCanAccessPeer));
    printf("%d\n", through(handle, 0x99, 0, (void *)cuIpcGetMemHandle));
    fflush(stdout);
}

static code *made(const void *bytes, size_t length) {
    memcpy(page, bytes, length);
    return (code *)page;
}

#define MADE(...) made((unsigned char[]){__VA_ARGS__}, sizeof((unsigned char[]){__VA_ARGS__}))

/* sub rsp, 8; call rcx; add rsp, 8; ret */
static code *bare(void) { return MADE(0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3); }

static void garbage(uintptr_t value) {
    /* push rbp; mov rbp, value; call rcx; pop rbp; ret */
    unsigned char bytes[] = {0x55, 0x48, 0xbd, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd1, 0x5d, 0xc3};
    memcpy(bytes + 3, &value, 8);
    both(made(bytes, sizeof bytes));
}

static uintptr_t instead;
static CUresult __attribute__((noinline)) hijacked(void *a, uintptr_t b, int c, void *function) {
    volatile uintptr_t *place = __builtin_frame_address(0);
    uintptr_t own = place[1];
    place[1] = instead;
    CUresult result = ((code *)function)(a, b, c, NULL);
    place[1] = own;
    return result;
}

void __register_frame(void *);
void __deregister_frame(void *);

static void registered(void) {
    /* The frame's address is what lies at address 0, or at a wild one, or it is an operation that there is not. */
    static const unsigned char expressions[][12] = {{2, 0x30, 6}, {10, 0x0e, 8, 7, 6, 5, 4, 3, 2, 0x81, 6}, {1, 0xff}};
    for (int i = 0; i < 3; i++) {
        static _Alignas(8) unsigned char tables[3][128];
        unsigned char *t = tables[i];
        static const unsigned char common[] = {16, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0};
        memcpy(t, common, sizeof common);
        unsigned char *entry = t + sizeof common;
        uint32_t length = 44, back = sizeof common + 4;
        uint64_t start = (uintptr_t)page, size = 4096;
        memcpy(entry, &length, 4), memcpy(entry + 4, &back, 4), memcpy(entry + 8, &start, 8), memcpy(entry + 16, &size, 8);
        entry[24] = 0x0f;
        memcpy(entry + 25, expressions[i], 12);
        __register_frame(t);
        both(bare());
        __deregister_frame(t);
    }
}

int main(int argc, char **argv) {
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    uintptr_t data[4] = {(uintptr_t)&data[2], 0x1234, 0, (uintptr_t)main};
    const uintptr_t wild[] = {1, 0x1234, (uintptr_t)-1, (uintptr_t)-8, (uintptr_t)1 << 63, 0x1000, (uintptr_t)data, (uintptr_t)main, 0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "frame") == 0)
            both(MADE(0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3));
        else if (strcmp(argv[i], "bare") == 0)
            both(bare());
        else if (strcmp(argv[i], "garbage") == 0)
            for (int w = 0; w < 9; w++) garbage(wild[w]);
        else if (strcmp(argv[i], "hijacked") == 0)
            for (int w = 0; w < 9; w++) instead = wild[w], both(hijacked);
        else
            registered();
    }
    puts("done");
    return 0;
}
