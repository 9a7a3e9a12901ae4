/* lookup handle4|handle5|self4|self5|linked4|linked5: asks one form of cuGetProcAddress, found in one way,
 * before cuInit, for all names, as they are exported and as they are looked up, below, at and above each
 * version, with all flags, with and without symbolStatus. Prints result, status and what was handed out, and calls each function that was handed out
 * with a mark of its own. Expects all as without cupeer, refusals and untouched outputs included. */
#include "common.h"

typedef CUresult (*four)(const char *, void **, int, uint64_t);
typedef CUresult (*five)(const char *, void **, int, uint64_t, int *);
static four ask4;
static five ask5;
static void *const untouched = (void *)5;

static void find(const char *way) {
    void *driver = must_open("libcuda.so.1", RTLD_NOW);
    int is_five = way[strlen(way) - 1] == '5';
    void *found = NULL;
    if (strncmp(way, "self", 4) == 0) {
        int status = 9;
        five plain = (five)dlsym(driver, "cuGetProcAddress_v2");
        CHECK(plain("cuGetProcAddress", &found, is_five ? 12000 : 11030, 0, &status) == 0 && status == 0);
#ifdef LINKED
    } else if (strncmp(way, "linked", 6) == 0) {
        found = is_five ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
#endif
    } else {
        found = dlsym(driver, is_five ? "cuGetProcAddress_v2" : "cuGetProcAddress");
    }
    CHECK(found != NULL);
    /* A linked function has an address of its own: see linked.c. */
    if (strncmp(way, "linked", 6) != 0)
        printf("the exported function: %d\n", found == dlsym(driver, is_five ? "cuGetProcAddress_v2" : "cuGetProcAddress"));
    if (is_five)
        ask5 = (five)found;
    else
        ask4 = (four)found;
}

static CUresult ask(const char *name, void **pfn, int version, uint64_t flags, int *status) {
    return ask5 ? ask5(name, pfn, version, flags, status) : ask4(name, pfn, version, flags);
}

/* What is asked for: a name, and the function of the table whose form it finds, or FUNCTIONS. */
static const char *const others[] = {"cuGetProcAddress", "cuDriverGetVersion", "cuMemAllocHost", "cuNotThere", "", "cuGetProcAddress_v2"};
static struct {
    char name[64];
    int function;
} asked[2 * FUNCTIONS + sizeof others / sizeof *others];

static size_t list_names(void) {
    size_t count = 0;
    for (int f = 0; f < FUNCTIONS; f++) {
        /* `cuMemFree` finds cuMemFree_v2, or the older function. */
        size_t length = strlen(names[f]);
        CHECK(length < sizeof asked->name);
        strcpy(asked[count].name, names[f]);
        asked[count++].function = f;
        if (strcmp(names[f] + length - 3, "_v2") != 0) continue;
        memcpy(asked[count].name, names[f], length - 3);
        asked[count++].function = f;
    }
    for (size_t n = 0; n < sizeof others / sizeof *others; n++) {
        strcpy(asked[count].name, others[n]);
        asked[count++].function = FUNCTIONS;
    }
    return count;
}

/* The driver's function of a name with this ending, where it has one. */
static void *form_of(void *driver, const char *name, const char *ending) {
    char whole[sizeof asked->name + 16];
    strcpy(whole, name);
    void *found = dlsym(driver, strcat(whole, ending));
    return found ? found : (void *)untouched;
}

/* The function of the table that was handed out where another of its forms may be meant, which takes other arguments. */
static int handed_out(void *driver, int f, void *pfn) {
    size_t length = strlen(names[f]);
    if (strcmp(names[f] + length - 3, "_v2") == 0) length -= 3;
    for (int other = 0; other < FUNCTIONS; other++)
        if (strncmp(names[other], names[f], length) == 0 && pfn == dlsym(driver, names[other])) return other;
    return f;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    find(argv[1]);
    void *driver = must_open("libcuda.so.1", RTLD_NOW);
    static const int versions[] = {0,     2000,  3020,  3999,  4000,  4010,  7000, 8000,
                                   10020, 11000, 11029, 11030, 12000, 12010, 12080, 13000, 13010,
                                   13020};
    unsigned mark = 100;
    size_t count = list_names();
    for (size_t n = 0; n < count; n++)
        for (size_t v = 0; v < sizeof versions / sizeof *versions; v++)
            for (uint64_t flags = 0; flags < 4; flags++)
                for (int with_status = 0; with_status < (ask5 ? 2 : 1); with_status++) {
                    const char *name = asked[n].name;
                    int f = asked[n].function;
                    void *pfn = untouched;
                    int status = 9;
                    CUresult r = ask(name, &pfn, versions[v], flags, with_status ? &status : NULL);
                    if (with_status || !ask5) {
                        Dl_info info;
                        printf("%s %d %d: %d %d %s\n", name, versions[v], (int)flags, r, status,
                               pfn == untouched        ? "untouched"
                               : pfn == NULL           ? "null"
                               : dladdr(pfn, &info)    ? info.dli_sname
                                                       : "nowhere");
                    }
                    if (r != 0 || pfn == NULL) continue;
                    CHECK(pfn != untouched);
                    if (f < FUNCTIONS) {
                        CHECK(call(handed_out(driver, f, pfn), pfn, mark++) == 0);
                        static const char *const endings[] = {"_v2", "_v3", "_v4", "_ptsz", "_ptds", "_v2_ptsz", "_v2_ptds"};
                        int is_known = pfn == dlsym(driver, name) || pfn == dlsym(driver, names[f]);
                        for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
                            is_known |= pfn == form_of(driver, name, endings[i]);
                        CHECK(is_known);
                    } else if (strcmp(name, "cuGetProcAddress") == 0) {
                        /* once more through what it handed out, of the form that belongs to the version */
                        void *again = NULL;
                        if (versions[v] >= 12000)
                            CHECK(((five)pfn)("cuIpcGetMemHandle", &again, 11000, 0, NULL) == 0);
                        else
                            CHECK(((four)pfn)("cuIpcGetMemHandle", &again, 11000, 0) == 0);
                        CHECK(call(F_cuIpcGetMemHandle, again, mark++) == 0);
                    } else if (with_status) {
                        print_home(name, pfn);
                    }
                }
    printf("no place for it: %d\n", ask("cuIpcGetMemHandle", NULL, 12000, 0, NULL));
    void *pfn = untouched;
    printf("no name: %d\n", ask(NULL, &pfn, 12000, 0, NULL));
    CHECK(pfn == untouched);
    return 0;
}
