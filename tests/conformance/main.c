// Asks a CUDA driver what it answers, a line a case, and compares that with what was recorded.
//
// usage: conformance [--driver PATH] [--compare RECORDED] [--only GROUPS]
//
// Without --compare, prints the lines. With it, prints the cases that differ and, last, how many match; the
// exit status is 1 where one differs. In a recording, a case with "any" may have any answer, because what it
// does is undefined or was seen to vary; and where the recorded driver died by a signal, another may answer.
// GROUPS is a pattern: 'use.*' asks what begins so. The driver is libcuda.so.1 where none is given.
#include "driver.h"
#include <dlfcn.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFINE(name, args) CUresult(*name) args;
FUNCTIONS(DEFINE)
#undef DEFINE
void *driver;
CUcontext c0, c1;
int devices;

static char said[4096]; // what the driver said since the last line, as JSON
enum { KEPT = 1024 };   // how much of it recordings have; each of the last bytes may become several

// Keeps what the driver says, with ADDRESS for hexadecimal numbers.
static void listen(void *data, int level, char *text, size_t length) {
    (void)data, (void)level;
    const char *end = text + length;
    size_t at = strlen(said);
    if (at + 2 * (size_t)(end - text) + 8 > KEPT) return;
    at += sprintf(said + at, "%s\"", at ? "," : "");
    while (text < end && *text) {
        if (!strncmp(text, "0x", 2)) {
            text += 2;
            text += strspn(text, "0123456789abcdefABCDEF");
            at += sprintf(said + at, "ADDRESS");
        } else if (*text == '\n') {
            text++;
        } else {
            if (*text == '"' || *text == '\\') said[at++] = '\\';
            said[at++] = *text++;
        }
    }
    strcpy(said + at, "\"");
}

static const char *name_of(CUresult result) {
    static char number[16];
    const char *name = NULL;
    cuGetErrorName(result, &name);
    snprintf(number, sizeof number, "%d", result);
    return name ? name : number;
}

void report(const char *id, CUresult result, const char *format, ...) {
    char more[1024] = "";
    if (format) {
        va_list args;
        va_start(args, format);
        vsnprintf(more, sizeof more, format, args);
        va_end(args);
    }
    printf("{\"case\":\"%s\",\"result\":\"%s\"%s%s%s%s%s}\n", id, name_of(result), *more ? "," : "", more,
           *said ? ",\"says\":[" : "", said, *said ? "]" : "");
    fflush(stdout);
    *said = 0;
}

void hush(void) { *said = 0; }

void note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("{\"note\":");
    vprintf(format, args);
    printf("}\n");
    fflush(stdout);
    va_end(args);
    *said = 0;
}

static const char *only;

void in_child(const char *id, void (*group)(void)) {
    if (only && fnmatch(only, id, 0)) return;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        alarm(60);
        group();
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) printf("{\"case\":\"%s\",\"signal\":%d}\n", id, WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status)) printf("{\"case\":\"%s\",\"exit\":%d}\n", id, WEXITSTATUS(status));
    fflush(stdout);
}

void start(void) {
    cuInit(0);
    cuDeviceGetCount(&devices);
    cuDevicePrimaryCtxRetain(&c0, 0);
    if (devices > 1) cuDevicePrimaryCtxRetain(&c1, 1);
    *said = 0;
}

CUcontext new_context(CUdevice device) {
    CUcontext context = NULL;
    cuCtxCreate_v4(&context, NULL, 0, device);
    return context;
}

void send_to(int fd, const void *bytes, size_t length) {
    if (write(fd, bytes, length) != (ssize_t)length) _exit(9);
}

void receive(int fd, void *bytes, size_t length) {
    size_t got = 0;
    while (got < length) {
        ssize_t n = read(fd, (char *)bytes + got, length - got);
        if (n <= 0) _exit(8);
        got += n;
    }
}

static void all_groups(void) {
    lookup_groups();
    device_groups();
    peer_groups();
    context_groups();
    memory_groups();
    work_groups();
    ipc_groups();
    sharing_groups();
    virtual_groups();
    pool_groups();
    pool_sharing_groups();
    use_groups();
}

// A file of lines, by the id of their case.
struct lines {
    char **line;
    size_t count;
};

static struct lines read_lines(FILE *file) {
    struct lines lines = {NULL, 0};
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "{\"case\":\"", 9)) continue;
        lines.line = realloc(lines.line, (lines.count + 1) * sizeof *lines.line);
        lines.line[lines.count++] = strdup(line);
    }
    free(line);
    return lines;
}

static const char *find(const struct lines *lines, const char *like) {
    size_t length = strcspn(like + 9, "\"") + 10;
    for (size_t i = 0; i < lines->count; i++)
        if (!strncmp(lines->line[i], like, length)) return lines->line[i];
    return NULL;
}

static int matches(const char *recorded, const char *measured) {
    if (strstr(recorded, "\"any\"")) return 1;
    if (strstr(recorded, "\"signal\"")) return !measured || strstr(measured, "\"signal\"") || !strcmp(recorded, measured);
    return measured && !strcmp(recorded, measured);
}

static int compare(const char *path, FILE *answers) {
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        return 2;
    }
    struct lines recorded = read_lines(file), measured = read_lines(answers);
    size_t good = 0;
    for (size_t i = 0; i < recorded.count; i++) {
        const char *got = find(&measured, recorded.line[i]);
        if (matches(recorded.line[i], got))
            good++;
        else
            printf("recorded %s\nmeasured %s\n", recorded.line[i], got ? got : "nothing");
    }
    for (size_t i = 0; i < measured.count; i++)
        if (!find(&recorded, measured.line[i])) printf("not recorded %s\n", measured.line[i]);
    printf("%zu of %zu cases match\n", good, recorded.count);
    return !recorded.count || good != recorded.count;
}

int main(int argc, char **argv) {
    const char *path = "libcuda.so.1", *recorded = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--driver")) path = argv[i + 1];
        if (!strcmp(argv[i], "--compare")) recorded = argv[i + 1];
        if (!strcmp(argv[i], "--only")) only = argv[i + 1];
    }
    driver = dlopen(path, RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "conformance: %s\n", dlerror());
        return 2;
    }
#define FIND(name, args)                                                                                     \
    if (!(*(void **)&name = dlsym(driver, #name))) {                                                         \
        fprintf(stderr, "conformance: %s has no %s\n", path, #name);                                         \
        return 2;                                                                                            \
    }
    FUNCTIONS(FIND)
    void *listener;
    cuLogsRegisterCallback(listen, NULL, &listener);
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    if (!recorded) {
        all_groups();
        return 0;
    }
    FILE *answers = tmpfile();
    int out = dup(1);
    if (!answers || out < 0 || dup2(fileno(answers), 1) < 0) {
        perror("conformance");
        return 2;
    }
    all_groups();
    fflush(stdout);
    dup2(out, 1);
    rewind(answers);
    return compare(recorded, answers);
}
