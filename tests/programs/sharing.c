/* Two processes, of which one exports something by the function EXPORT, and the other one opens it by the function OPEN: on
 * another device, from two places, and closes it as often: sharing EXPORT OPEN [again].
 *
 * It does not clean up after its second opening has failed. With `again` it opens once more after its first opening has
 * failed, closes that, and says whether it could be closed a second time. Prints the results of the openings.
 *
 * Each function that exports or opens something has its line below. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr, object;
typedef struct { char bytes[64]; } handle;
typedef struct { int type, handles, location, device; void *windows; char rest[64]; } properties; /* of a pool, too */

static void *driver;
static int descriptor = -1; /* where what is shared is one, or lies in a pool that is */
static object pool;

/* The handle goes through a socket, and with it the descriptor. */
static int pass(int to, handle *out) {
    char control[CMSG_SPACE(sizeof descriptor)] = {0};
    struct iovec io = {out, sizeof *out};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1};
    if (descriptor >= 0) {
        message.msg_control = control, message.msg_controllen = sizeof control;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof descriptor);
        memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    }
    return sendmsg(to, &message, 0) == sizeof *out;
}

static int receive(int from, handle *in) {
    char control[CMSG_SPACE(sizeof descriptor)];
    struct iovec io = {in, sizeof *in};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(from, &message, 0) != sizeof *in) return 0;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head) memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
    return 1;
}

static void *find(const char *name) {
    void *found = dlsym(driver, name);
    if (!found) fprintf(stderr, "sharing: there is no %s\n", name), exit(4);
    return found;
}
#define CALL(name, types, ...) ((CUresult(*) types)find(name))(__VA_ARGS__)

/* What EXPORT makes a handle of. */
static CUresult make(const char *export, object *made) {
    if (strstr(export, "Event")) return CALL("cuEventCreate", (object *, unsigned), made, 2 | 4);
    properties wanted = {1, 1, 1, 0, 0, {0}};
    if (strstr(export, "Pool")) {
        if (CALL("cuMemPoolCreate", (object *, properties *), &pool, &wanted)) return 1;
        if (strstr(export, "Shareable")) return *made = pool, 0;
        if (CALL("cuMemPoolExportToShareableHandle", (int *, object, int, object), &descriptor, pool, 1, 0)) return 1;
        return CALL("cuMemAllocFromPoolAsync", (object *, size_t, object, void *), made, 1 << 20, pool, 0);
    }
    if (strstr(export, "Shareable"))
        return CALL("cuMemCreate", (object *, size_t, properties *, object), made, 2 << 20, &wanted, 0);
    return CALL("cuMemAlloc_v2", (object *, size_t), made, 1 << 20);
}

static CUresult share(const char *export, object made, handle *out) {
    if (!strcmp(export, "cuIpcGetMemHandle")) return CALL(export, (handle *, CUdeviceptr), out, made);
    if (!strcmp(export, "cuIpcGetEventHandle")) return CALL(export, (handle *, object), out, made);
    if (!strcmp(export, "cuMemPoolExportPointer")) return CALL(export, (handle *, CUdeviceptr), out, made);
    if (strstr(export, "ToShareableHandle"))
        return CALL(export, (int *, object, int, object), &descriptor, made, 1, 0);
    if (!strcmp(export, "cuCupeerExport")) return CALL(export, (unsigned, CUdeviceptr, handle *), 0, made, out);
    fprintf(stderr, "sharing: how is %s called?\n", export), exit(4);
}

static inline __attribute__((always_inline)) CUresult take(const char *open, handle in, object *out) {
    if (!strncmp(open, "cuIpcOpenMemHandle", 18)) return CALL(open, (CUdeviceptr *, handle, unsigned), out, in, 1);
    if (!strcmp(open, "cuIpcOpenEventHandle")) return CALL(open, (object *, handle), out, in);
    if (!strcmp(open, "cuMemImportFromShareableHandle"))
        return CALL(open, (object *, void *, int), out, (void *)(long)descriptor, 1);
    if (!strcmp(open, "cuMemPoolImportFromShareableHandle"))
        return CALL(open, (object *, void *, int, object), out, (void *)(long)descriptor, 1, 0);
    if (!strcmp(open, "cuMemPoolImportPointer")) {
        if (!pool && CALL("cuMemPoolImportFromShareableHandle", (object *, void *, int, object), &pool, (void *)(long)descriptor, 1, 0))
            return 1;
        return CALL(open, (CUdeviceptr *, object, handle *), out, pool, &in);
    }
    if (!strcmp(open, "cuCupeerOpen")) return CALL(open, (handle, unsigned, CUdeviceptr *), in, 1, out);
    fprintf(stderr, "sharing: how is %s called?\n", open), exit(4);
}

static CUresult give_back(const char *open, object taken) {
    if (strstr(open, "PoolImportPointer")) return CALL("cuMemFree_v2", (object), taken);
    if (strstr(open, "Pool")) return CALL("cuMemPoolDestroy", (object), taken);
    if (strstr(open, "Shareable")) return CALL("cuMemRelease", (object), taken);
    return CALL(strstr(open, "Event") ? "cuEventDestroy_v2" : "cuIpcCloseMemHandle", (object), taken);
}

static void use(CUdevice device) {
    void *context;
    if (!(driver = dlopen("libcuda.so.1", RTLD_NOW)) || CALL("cuInit", (unsigned), 0)) exit(4);
    if (CALL("cuDevicePrimaryCtxRetain", (void **, CUdevice), &context, device)) exit(4);
    if (CALL("cuCtxSetCurrent", (void *), context)) exit(4);
}

static int importer(const char *open, int is_again, int from) {
    handle in;
    object first, second;
    if (!receive(from, &in)) return 3;
    use(1);
    CUresult result = take(open, in, &first);
    printf("%d\n", result);
    if (result && !is_again) {
        if (pool) give_back("Pool", pool);
        return 3;
    }
    if (result && take(open, in, &first)) return 3;
    if (is_again) {
        if (give_back(open, first)) return 3;
        printf("%s\n", give_back(open, first) ? "closed" : "open");
        return 0;
    }
    result = take(open, in, &second);
    printf("%d\n", result);
    if (result) return 3;
    int is_counted = !strstr(open, "Event") && !strstr(open, "Pool"); /* closed as often as it was opened */
    if (give_back(open, first) || (is_counted || first != second ? give_back(open, second) : 0)) return 3;
    return pool && give_back("Pool", pool) ? 3 : 0;
}

int main(int count, char **words) {
    int pipes[2], status;
    if (count < 3 || socketpair(AF_UNIX, SOCK_STREAM, 0, pipes)) return 4;
    setvbuf(stdout, 0, _IONBF, 0);
    pid_t child = fork();
    if (!child) {
        close(pipes[1]);
        int ended = importer(words[2], count > 3, pipes[0]);
        if (ended == 3) fprintf(stderr, "sharing: the importer has failed\n");
        _exit(ended);
    }
    close(pipes[0]);
    use(0);
    object made;
    handle out;
    int failed = make(words[1], &made) || share(words[1], made, &out);
    if (failed) fprintf(stderr, "sharing: the exporter has failed\n");
    else if (!pass(pipes[1], &out)) failed = 1;
    close(pipes[1]);
    waitpid(child, &status, 0);
    return failed ? 3 : WEXITSTATUS(status);
}
