/* Uses NVTX as its header does: loads the library that NVTX_INJECTION64_PATH names, hands it its tables, and calls what that
 * has put there. Prints how many functions it has put there, and what ranges return. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

typedef void (*function)(void);
typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
} attributes;
enum { ASCII = 1, WIDE = 2, REGISTERED = 3 };

static function core[16], domains[16];
static function *core_table[17], *domain_table[17];

static int get_table(int module, function ***table, unsigned *size) {
    function **entries = module == 1 ? core_table : module == 5 ? domain_table : NULL;
    if (!entries) return 0;
    *table = entries;
    *size = 16;
    return 1;
}
static const struct {
    size_t size;
    int (*get)(int, function ***, unsigned *);
} callbacks = {sizeof callbacks, get_table};
static const void *tables(uint32_t number) { return number == 1 ? &callbacks : NULL; }

int main(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return 2;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*can)(int *, int, int) = (int (*)(int *, int, int))dlsym(driver, "cuDeviceCanAccessPeer");
    int answer;
    if (init(0) || can(&answer, 0, 1)) return 3;
    if (!path) {
        puts("no library");
        return 0;
    }
    for (int i = 1; i < 16; i++) core_table[i] = &core[i], domain_table[i] = &domains[i];
    void *tool = dlopen(path, RTLD_LAZY);
    int (*begin)(const void *(*)(uint32_t)) = tool ? (int (*)(const void *(*)(uint32_t)))dlsym(tool, "InitializeInjectionNvtx2") : NULL;
    if (!begin || begin(NULL) || !begin(tables)) return 4;
    int taken = 0;
    for (int i = 1; i < 16; i++) taken += (core[i] != NULL) + (domains[i] != NULL);
    printf("%d functions\n", taken);

    ((void (*)(const char *))core[2])("mark");
    ((void (*)(const char *))core[2])(NULL);
    printf("push %d", ((int (*)(const char *))core[9])("range"));
    uint64_t first = ((uint64_t(*)(const char *))core[5])("process range");
    attributes named = {3, sizeof named, .message_type = ASCII, .message = "attributes"};
    ((void (*)(const attributes *))core[1])(&named);
    printf(" %d\n", ((int (*)(const attributes *))core[8])(&named));
    uint64_t second = ((uint64_t(*)(const attributes *))core[4])(&named);
    printf("start %d %d\n", first != 0, second != 0 && second != first);
    void *domain = ((void *(*)(const char *))domains[12])("domain");
    void *other = ((void *(*)(const wchar_t *))domains[13])(L"other");
    if (!domain || !other || domain == other) return 5;
    char text[] = "registered";
    void *handle = ((void *(*)(void *, const char *))domains[10])(domain, text);
    memset(text, 'x', sizeof text - 1);
    attributes by_handle = {3, sizeof by_handle, .message_type = REGISTERED, .message = handle};
    printf("push %d", ((int (*)(void *, const attributes *))domains[4])(domain, &by_handle));
    uint64_t third = ((uint64_t(*)(void *, const attributes *))domains[2])(domain, &by_handle);
    ((void (*)(void *, const attributes *))domains[1])(domain, &by_handle);
    /* In wide characters; the last one is none. */
    attributes wide = {3, sizeof wide, .message_type = WIDE, .message = L"wide \u00b5"};
    ((void (*)(const attributes *))core[1])(&wide);
    ((void (*)(const wchar_t *))core[3])(L"wide mark");
    printf(" %d", ((int (*)(const wchar_t *))core[10])(L"wide range"));
    uint64_t fourth = ((uint64_t(*)(const wchar_t *))core[6])((const wchar_t[]){L'o', L'd', L'd', 0x110000, 0});
    wide.message_type = REGISTERED;
    wide.message = ((void *(*)(void *, const wchar_t *))domains[11])(other, L"wide registered");
    printf(" %d\n", ((int (*)(void *, const attributes *))domains[4])(other, &wide));
    /* What has no name is nothing, but a range all the same. */
    attributes none = {3, 8};
    ((void (*)(const attributes *))core[1])(&none);
    ((void (*)(const attributes *))core[1])(NULL);
    ((void (*)(const wchar_t *))core[3])(NULL);
    ((int (*)(const attributes *))core[8])(&none);
    /* Each end is that of its own. */
    int (*pop)(void) = (int (*)(void))core[11], (*pop_in)(void *) = (int (*)(void *))domains[5];
    void (*end)(uint64_t) = (void (*)(uint64_t))core[7];
    printf("pop %d", pop());
    printf(" %d", pop_in(domain));
    printf(" %d", pop());
    printf(" %d", pop_in(other));
    printf(" %d", pop());
    printf(" %d", pop());
    printf(" %d", pop());
    printf(" %d\n", pop_in(domain));
    end(first);
    ((void (*)(void *, uint64_t))domains[3])(domain, third);
    end(second);
    end(second);
    end(0);
    end(fourth);
    return can(&answer, 0, 1) ? 3 : 0;
}
