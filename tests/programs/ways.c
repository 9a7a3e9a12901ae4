/* ways HANDLE FIND WHEN END: reaches the driver in one way, which the words say, and calls one function there. tests/ways_in
 * counts the ways, and says what each word stands for. With `also:` before HANDLE it first makes a call that cupeer sees.
 * Prints nothing: what the driver saw is the oracle. */
#include "common.h"
#include <elf.h>
#include <link.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { SEEN = 100, CALLED = 200 };
static const char *const NAME = "cuCtxEnablePeerAccess";
static char **arguments;

static int starts(const char *text, const char *word, const char **rest) {
    size_t n = strlen(word);
    *rest = text + n;
    return strncmp(text, word, n) == 0;
}

/* The symbol table of an object in memory, read without the loader. */
static void *walk(const ElfW(Dyn) * dynamic, ElfW(Addr) base, const char *name) {
    const char *strings = NULL;
    const ElfW(Sym) *symbols = NULL;
    const unsigned *table = NULL;
    for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++) {
        ElfW(Addr) at = d->d_un.d_ptr < base ? d->d_un.d_ptr + base : d->d_un.d_ptr;
        if (d->d_tag == DT_STRTAB) strings = (const char *)at;
        if (d->d_tag == DT_SYMTAB) symbols = (const ElfW(Sym) *)at;
        if (d->d_tag == DT_GNU_HASH) table = (const unsigned *)at;
    }
    CHECK(strings && symbols && table);
    const unsigned *bucket = table + 4 + table[2] * 2, *chain = bucket + table[0];
    for (unsigned b = 0; b < table[0]; b++)
        for (unsigned s = bucket[b]; s != 0; s = chain[s - table[1]] & 1 ? 0 : s + 1)
            if (strcmp(strings + symbols[s].st_name, name) == 0) return (char *)base + symbols[s].st_value;
    return NULL;
}

#ifndef STATIC
struct wanted {
    const char *library, *name;
    void *found;
};
static int by_headers(struct dl_phdr_info *info, size_t size, void *data) {
    struct wanted *wanted = data;
    (void)size;
    if (!strstr(info->dlpi_name, wanted->library)) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            wanted->found = walk((void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), info->dlpi_addr, wanted->name);
    return wanted->found != NULL;
}

/* A loader of one's own: maps the file, and asks the real loader for what it needs of libc. */
static void *raw(const char *path, const char *name) {
    int fd = open(path, O_RDONLY);
    struct stat about;
    CHECK(fd >= 0 && fstat(fd, &about) == 0);
    char *file = mmap(NULL, about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    ElfW(Ehdr) *head = (void *)file;
    ElfW(Phdr) *part = (void *)(file + head->e_phoff);
    size_t end = 0;
    for (int i = 0; i < head->e_phnum; i++)
        if (part[i].p_type == PT_LOAD && part[i].p_vaddr + part[i].p_memsz > end) end = part[i].p_vaddr + part[i].p_memsz;
    char *base = mmap(NULL, end + 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < head->e_phnum; i++) {
        if (part[i].p_type == PT_DYNAMIC) dynamic = (void *)(base + part[i].p_vaddr);
        if (part[i].p_type != PT_LOAD) continue;
        size_t slack = part[i].p_vaddr & 4095;
        char *at = base + part[i].p_vaddr - slack;
        size_t size = (part[i].p_memsz + slack + 4095) & ~4095ul;
        CHECK(mmap(at, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
        /* Code stays a mapping of the file, as every loader has it. */
        if (part[i].p_flags & PF_X)
            CHECK(mmap(at, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, part[i].p_offset - slack) == at);
        else
            memcpy(base + part[i].p_vaddr, file + part[i].p_offset, part[i].p_filesz);
    }
    const char *strings = NULL;
    const ElfW(Sym) *symbols = NULL;
    ElfW(Rela) *tables[2] = {NULL, NULL};
    size_t sizes[2] = {0, 0};
    for (ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_STRTAB) strings = base + d->d_un.d_ptr;
        if (d->d_tag == DT_SYMTAB) symbols = (void *)(base + d->d_un.d_ptr);
        if (d->d_tag == DT_RELA) tables[0] = (void *)(base + d->d_un.d_ptr);
        if (d->d_tag == DT_RELASZ) sizes[0] = d->d_un.d_val;
        if (d->d_tag == DT_JMPREL) tables[1] = (void *)(base + d->d_un.d_ptr);
        if (d->d_tag == DT_PLTRELSZ) sizes[1] = d->d_un.d_val;
    }
    for (int t = 0; t < 2; t++)
        for (ElfW(Rela) *r = tables[t]; r && r < tables[t] + sizes[t] / sizeof *r; r++) {
            size_t *place = (size_t *)(base + r->r_offset);
            const ElfW(Sym) *symbol = symbols + ELF64_R_SYM(r->r_info);
            if (ELF64_R_SYM(r->r_info) == 0)
                *place = (size_t)base + r->r_addend;
            else if (symbol->st_shndx != SHN_UNDEF)
                *place = (size_t)base + symbol->st_value + r->r_addend;
            else
                *place = (size_t)dlsym(RTLD_DEFAULT, strings + symbol->st_name);
        }
    return walk(dynamic, (ElfW(Addr))base, name);
}
#endif

static char path_of_memory[64];
static void *handle_by(const char *how) {
    const char *rest;
    if (starts(how, "open:", &rest)) return must_open(rest, RTLD_NOW);
    if (starts(how, "lazy:", &rest)) return must_open(rest, RTLD_LAZY);
    if (starts(how, "global:", &rest)) return must_open(rest, RTLD_NOW | RTLD_GLOBAL);
    if (starts(how, "nodelete:", &rest)) return must_open(rest, RTLD_NOW | RTLD_NODELETE);
    if (starts(how, "deepbind:", &rest)) return must_open(rest, RTLD_NOW | RTLD_DEEPBIND);
    if (starts(how, "deepbind-lazy:", &rest)) return must_open(rest, RTLD_LAZY | RTLD_DEEPBIND);
    if (starts(how, "again:", &rest)) return must_open(rest, RTLD_NOW), must_open(rest, RTLD_NOW | RTLD_NOLOAD);
    if (starts(how, "self:", &rest)) return must_open(rest, RTLD_NOW | RTLD_GLOBAL), dlopen(NULL, RTLD_NOW);
    if (starts(how, "default:", &rest)) return must_open(rest, RTLD_NOW | RTLD_GLOBAL), RTLD_DEFAULT;
#ifndef STATIC
    if (starts(how, "namespace:", &rest)) {
        void *handle = dlmopen(LM_ID_NEWLM, rest, RTLD_NOW);
        CHECK(handle != NULL);
        return handle;
    }
    if (starts(how, "dlinfo:", &rest)) {
        struct link_map *map = NULL;
        CHECK(dlinfo(must_open(rest, RTLD_NOW), RTLD_DI_LINKMAP, &map) == 0);
        return map;
    }
    if (starts(how, "list:", &rest)) {
        struct link_map *map = must_open(rest, RTLD_NOW);
        map = _r_debug.r_map;
        while (map && !strstr(map->l_name, "cuda")) map = map->l_next;
        CHECK(map != NULL);
        return map;
    }
#endif
    if (starts(how, "memory:", &rest)) {
        int from = open(rest, O_RDONLY), to = memfd_create("library", 0);
        char bytes[65536];
        for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0;) CHECK(write(to, bytes, n) == n);
        snprintf(path_of_memory, sizeof path_of_memory, "/proc/self/fd/%d", to);
        return must_open(path_of_memory, RTLD_NOW);
    }
    if (strcmp(how, "default") == 0) return RTLD_DEFAULT;
    if (strcmp(how, "next") == 0) return RTLD_NEXT;
    if (strcmp(how, "null") == 0) return dlopen(NULL, RTLD_NOW);
    return NULL;
}

#ifdef LINKED
static CUresult (*const volatile in_data)(CUcontext, unsigned) = cuCtxEnablePeerAccess;
#endif
#ifdef IFUNC
static CUresult enable_by_ifunc(CUcontext, unsigned) __attribute__((ifunc("resolve_enable")));
static void *resolve_enable(void) { return (void *)cuCtxEnablePeerAccess; }
#endif

typedef void *(*lookup)(void *, const char *);
typedef void *(*lookup_version)(void *, const char *, const char *);
typedef CUresult (*four)(const char *, void **, int, uint64_t);
typedef CUresult (*five)(const char *, void **, int, uint64_t, int *);
#if defined __aarch64__
#define FIRST "GLIBC_2.17"
#else
#define FIRST "GLIBC_2.2.5"
#endif

static void *found_by(const char *how, void *handle) {
    const char *rest;
    void *found = NULL;
    if (strcmp(how, "dlsym") == 0) return dlsym(handle, NAME);
    if (starts(how, "dlsym-of:", &rest)) return ((lookup)dlsym(must_open(rest, RTLD_NOW), "dlsym"))(handle, NAME);
    if (strcmp(how, "gpa4") == 0) CHECK(((four)dlsym(handle, "cuGetProcAddress"))(NAME, &found, 11030, 0) == 0);
    if (strcmp(how, "gpa5") == 0) CHECK(((five)dlsym(handle, "cuGetProcAddress_v2"))(NAME, &found, 12000, 0, NULL) == 0);
    if (strcmp(how, "gpa-gpa") == 0) {
        five get = (five)dlsym(handle, "cuGetProcAddress_v2"), again;
        CHECK(get("cuGetProcAddress", (void **)&again, 12000, 0, NULL) == 0 && again(NAME, &found, 12000, 2, NULL) == 0);
    }
    if (found) return found;
#ifndef STATIC
    if (strcmp(how, "dlvsym") == 0) return dlvsym(handle, NAME, "ANY");
    if (strcmp(how, "dlsym-of-version") == 0) return ((lookup)dlvsym(RTLD_DEFAULT, "dlsym", FIRST))(handle, NAME);
    if (strcmp(how, "next-dlsym-of-version") == 0) return ((lookup)dlvsym(RTLD_NEXT, "dlsym", FIRST))(handle, NAME);
    if (strcmp(how, "next-dlsym") == 0) return ((lookup)dlsym(RTLD_NEXT, "dlsym"))(handle, NAME);
    if (strcmp(how, "dlvsym-by-dlsym") == 0)
        return ((lookup)((lookup_version)dlsym(RTLD_DEFAULT, "dlvsym"))(RTLD_DEFAULT, "dlsym", FIRST))(handle, NAME);
    if (strcmp(how, "walk") == 0) return walk(((struct link_map *)handle)->l_ld, ((struct link_map *)handle)->l_addr, NAME);
    if (strcmp(how, "headers") == 0) {
        struct wanted wanted = {"libcuda.so", NAME, NULL};
        dl_iterate_phdr(by_headers, &wanted);
        return wanted.found;
    }
    if (strcmp(how, "walked-dlsym") == 0) {
        struct wanted wanted = {"libc.so.6", "dlsym", NULL};
        dl_iterate_phdr(by_headers, &wanted);
        return ((lookup)wanted.found)(handle, NAME);
    }
    if (strcmp(how, "distance") == 0) {
        /* How far two functions are from one another, and where the one is that is not in the table. */
        struct wanted one = {"libcuda.so", "cuDriverGetVersion", NULL}, other = {"libcuda.so", NAME, NULL};
        dl_iterate_phdr(by_headers, &one), dl_iterate_phdr(by_headers, &other);
        return (char *)dlsym(handle, "cuDriverGetVersion") + ((char *)other.found - (char *)one.found);
    }
    if (starts(how, "raw:", &rest)) return raw(rest, NAME);
#endif
#ifdef LINKED
    if (strcmp(how, "linked") == 0) return (void *)cuCtxEnablePeerAccess;
    if (strcmp(how, "data") == 0) return (void *)in_data;
#endif
#ifdef IFUNC
    if (strcmp(how, "ifunc") == 0) return (void *)enable_by_ifunc;
#endif
    return NULL;
}

/* Makes the call that cupeer sees, where one is wanted; gives the rest of the word. */
static char *after_seen(char *handle) {
    const char *rest;
    if (!starts(handle, "also:", &rest)) return handle;
    CHECK(call(F_cuCtxEnablePeerAccess, dlsym(must_open("libcuda.so.1", RTLD_NOW), NAME), SEEN) == 0);
    return (char *)rest;
}

/* Starts this program again without the variables of cupeer. */
static pid_t start_bare(const char *how, char **argv) {
    char *words[] = {argv[0], after_seen(argv[1]), argv[2], "main", argv[4], NULL};
    char *environment[3] = {NULL, NULL, NULL};
    CHECK(asprintf(&environment[0], "FAKE_DRIVER_LOG=%s", getenv("FAKE_DRIVER_LOG")) > 0);
    CHECK(asprintf(&environment[1], "LD_LIBRARY_PATH=%s", getenv("LD_LIBRARY_PATH")) > 0);
    pid_t pid;
    if (strcmp(how, "spawn") == 0) {
        CHECK(posix_spawn(&pid, argv[0], NULL, NULL, words, environment) == 0);
        return pid;
    }
    if (strcmp(how, "exec") == 0) execve(argv[0], words, environment);
    if ((pid = vfork()) == 0) execve(argv[0], words, environment), _exit(127);
    return pid;
}

static void reach(void) {
    const char *handle = after_seen(arguments[1]), *find = arguments[2];
    if (strcmp(find, "plugin") == 0) {
        void *library = handle_by(handle);
        int (*plugin)(unsigned) = (int (*)(unsigned))dlsym(library, "plugin");
        CHECK(plugin != NULL && plugin(1000) > 0);
        return;
    }
    void *found = found_by(find, handle_by(handle));
    if (!found) printf("not found: %s\n", dlerror());
    CHECK(found != NULL && call(F_cuCtxEnablePeerAccess, found, CALLED) == 0);
}

static void *in_thread(void *unused) { return reach(), unused; }
static void in_handler(int signal) { (void)signal, reach(); }

static void finish(const char *word) {
    const char *rest;
    fflush(stdout);
    if (strcmp(word, "_exit") == 0) _exit(0);
    if (strcmp(word, "quick") == 0) quick_exit(0);
    if (strcmp(word, "killed") == 0) raise(SIGKILL);
    if (strcmp(word, "abort") == 0) abort();
    if (strcmp(word, "system-call") == 0) syscall(SYS_exit_group, 0);
    if (starts(word, "exec:", &rest)) execl(rest, rest, (char *)NULL);
    if (starts(word, "wait:", &rest))
        for (struct timespec pause = {0, 5000000}; access(rest, F_OK) != 0;) nanosleep(&pause, NULL);
}

static void when(const char *word, char **argv) {
    arguments = argv;
    pthread_t thread;
    pid_t pid = 1;
    if (strcmp(word, "main") == 0) reach();
    if (strcmp(word, "thread") == 0) CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    if (strcmp(word, "signal") == 0) signal(SIGUSR1, in_handler), raise(SIGUSR1);
    if (strcmp(word, "at-exit") == 0) atexit(reach);
    if (strcmp(word, "fork") == 0 && (pid = fork()) == 0) reach(), finish(argv[4]), _exit(0);
    if (strcmp(word, "raw-fork") == 0 && (pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) == 0) reach(), finish(argv[4]), _exit(0);
    if (strcmp(word, "spawn") == 0 || strcmp(word, "vfork") == 0 || strcmp(word, "exec") == 0) pid = start_bare(word, argv);
    if (pid > 1) CHECK(waitpid(pid, NULL, 0) == pid);
    if (pid > 1) exit(0);
}

__attribute__((constructor)) static void before_main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[3], "constructor") == 0) arguments = argv, reach();
}

int main(int argc, char **argv) {
    CHECK(argc == 5);
    when(argv[3], argv);
    finish(argv[4]);
    return 0;
}
