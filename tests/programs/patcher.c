/* A library that patches functions in place, as UCX does: it moves the first instructions of a function elsewhere, and
 * overwrites them with a jump to a hook of its own, which calls on through the moved ones. It moves only what simple patchers
 * can: on x86-64 `nop`, `push`, `sub $imm,%rsp`, `mov %rsp,%rbp` and `mov $imm32,%reg`; on aarch64 `nop` and `mov $imm,reg`. */
#include "common.h"
#include <sys/mman.h>

#define MOST 32
static void *moved[FUNCTIONS];
static unsigned char original[FUNCTIONS][MOST];
static void *patched[FUNCTIONS];
static size_t length[FUNCTIONS];
static int hooked;

/* How often hooks were called. */
int hooks_called(void) { return __atomic_load_n(&hooked, __ATOMIC_RELAXED); }

#define HOOK(name, parameters, forwarded, marked, mark)                                                       \
    __attribute__((noinline)) static CUresult count_##name parameters {                                       \
        __atomic_fetch_add(&hooked, 1, __ATOMIC_RELAXED);                                                     \
        volatile CUresult result = ((CUresult(*) parameters)moved[F_##name])forwarded;                        \
        return result;                                                                                        \
    }                                                                                                         \
    /* With -O2 this is a jump, so that the hook itself is not on the stack. */                               \
    static CUresult hook_##name parameters { return count_##name forwarded; }
PLAIN_TABLE(HOOK)
static void *const hooks[] = {
#define ADDRESS(name, ...) (void *)hook_##name,
    PLAIN_TABLE(ADDRESS)
};

/* Memory for code: near a function, so that a short jump reaches it, or wherever the kernel likes. */
static unsigned char *code_near(void *function) {
    for (uintptr_t at = ((uintptr_t)function & ~0xffffful) - 0x100000, tries = 0; tries < 1000; tries++, at -= 0x100000) {
        void *code = mmap((void *)at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (code != MAP_FAILED) return code;
    }
    abort();
}

#ifdef __x86_64__
/* The length of an instruction that can be moved, or 0. */
static size_t movable(const unsigned char *at) {
    if (*at == 0x90 || (*at & 0xf8) == 0x50) return 1;
    if ((*at & 0xf8) == 0xb8) return 5;
    if (at[0] == 0x41 && (at[1] & 0xf8) == 0x50) return 2;
    if (at[0] == 0x48 && at[1] == 0x89 && at[2] == 0xe5) return 3;
    if (at[0] == 0x48 && at[1] == 0x83 && at[2] == 0xec) return 4;
    if (at[0] == 0x48 && at[1] == 0x81 && at[2] == 0xec) return 7;
    return 0;
}
static size_t put_far_jump(unsigned char *at, void *to) {
    memcpy(at, (unsigned char[]){0x48, 0xb8}, 2);
    memcpy(at + 2, &to, 8);
    memcpy(at + 10, (unsigned char[]){0xff, 0xe0}, 2);
    return 12;
}
/* Jumps on without changing a register. */
static size_t put_jump_back(unsigned char *at, void *to) {
    memcpy(at, (unsigned char[]){0xff, 0x25, 0, 0, 0, 0}, 6);
    memcpy(at + 6, &to, 8);
    return 14;
}
static size_t put_near_jump(unsigned char *at, void *where, void *to) {
    int distance = (int)((uintptr_t)to - (uintptr_t)where - 5);
    *at = 0xe9;
    memcpy(at + 1, &distance, 4);
    return 5;
}
#else
static size_t movable(const unsigned char *at) {
    unsigned instruction;
    memcpy(&instruction, at, 4);
    return instruction == 0xd503201f || (instruction & 0x7f800000) == 0x52800000 ? 4 : 0;
}
/* ldr x15, .+8; br x15 */
static size_t put_far_jump(unsigned char *at, void *to) {
    memcpy(at, (unsigned[]){0x5800004f, 0xd61f01e0}, 8);
    memcpy(at + 8, &to, 8);
    return 16;
}
static size_t put_jump_back(unsigned char *at, void *to) { return put_far_jump(at, to); }
static size_t put_near_jump(unsigned char *at, void *where, void *to) {
    unsigned jump = 0x14000000 | ((unsigned)(((uintptr_t)to - (uintptr_t)where) / 4) & 0x3ffffff);
    memcpy(at, &jump, 4);
    return 4;
}
#endif

static void write_code(unsigned char *at, const unsigned char *bytes, size_t size) {
    uintptr_t page = (uintptr_t)at & ~4095ul;
    size_t pages = ((uintptr_t)at + size - page + 4095) & ~4095ul;
    CHECK(mprotect((void *)page, pages, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    memcpy(at, bytes, size);
    CHECK(mprotect((void *)page, pages, PROT_READ | PROT_EXEC) == 0);
    __builtin___clear_cache((char *)at, (char *)at + size);
}

/* Patches function `f` of the table at an address. Returns 0 where its first instructions cannot be moved. */
int patch(int f, void *address, int is_near) {
    unsigned char *function = address, *code = code_near(address), jump[MOST];
    /* The hook is far away; a near jump leads to a far one. */
    size_t size = is_near ? put_near_jump(jump, function, code) : put_far_jump(jump, hooks[f]);
    unsigned char *at = code + put_far_jump(code, hooks[f]);
    size_t taken = 0;
    at = (unsigned char *)(((uintptr_t)at + 15) & ~15ul);
    moved[f] = at;
    while (taken < size) {
        size_t step = movable(function + taken);
        if (!step) return 0;
        memcpy(at, function + taken, step);
        at += step;
        taken += step;
    }
    put_jump_back(at, function + taken);
    __builtin___clear_cache((char *)code, (char *)code + 4096);
    memcpy(original[f], function, size);
    patched[f] = function;
    length[f] = size;
    write_code(function, jump, size);
    return 1;
}

/* Takes all patches back. */
void restore(void) {
    for (int f = 0; f < FUNCTIONS; f++)
        if (patched[f]) write_code(patched[f], original[f], length[f]);
}
