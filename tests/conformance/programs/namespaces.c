// Processes of two pid namespaces below this one share memory and events; with equal pids they are taken for one process.
// Exits with 77 where namespaces cannot be made.
#define _GNU_SOURCE
#include "common.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>

int cuIpcGetEventHandle(Handle *, void *), cuIpcOpenEventHandle(void **, Handle);

struct letter {
    pid_t pid;
    Handle memory, event;
};

static void write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    IS(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), 1);
    close(fd);
}

// Gives this process and its children the right to make pid namespaces: one user namespace for all, because processes of two may
// not look at each other.
static int may_make_namespaces(void) {
    char map[32];
    unsigned uid = getuid(), gid = getgid();
    if (uid == 0) return 1;
    if (unshare(CLONE_NEWUSER) != 0) return 0;
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", uid, uid);
    write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%u %u 1", gid, gid);
    write_file("/proc/self/gid_map", map);
    return 1;
}

// A process with this pid in a namespace of its own does the work, or with the next where an emulator has threads of its own.
static pid_t employ(int pid, void (*work)(int), int socket) {
    pid_t outer = fork();
    if (outer) return outer;
    alarm(60);
    if (unshare(CLONE_NEWPID) != 0) _exit(77);
    // The first process of the namespace has to stay as long as there are others.
    pid_t first = fork();
    if (first == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (pid_t next; pid > 1;) {
            if ((next = fork()) == 0 && getpid() < pid) _exit(0);
            if (next == 0) break;
            int status = 0;
            IS(waitpid(next, &status, 0), next);
            if (next >= pid) fflush(stdout), _exit(WEXITSTATUS(status));
        }
        IS(getpid() >= pid, 1);
        work(socket);
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    IS(waitpid(first, &status, 0), first);
    fflush(stdout);
    _exit(WEXITSTATUS(status));
}

static void start(void) {
    void *context;
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&context, 0), 0);
    IS(cuCtxSetCurrent(context), 0);
}

static void give(int socket) {
    struct letter letter = {.pid = getpid()};
    CUdeviceptr p;
    void *event;
    char text[16] = "from elsewhere";
    start();
    IS(cuMemAlloc_v2(&p, 4 << 20), 0);
    IS(cuMemcpyHtoD_v2(p, text, sizeof text), 0);
    IS(cuIpcGetMemHandle(&letter.memory, p), 0);
    IS(cuEventCreate(&event, 6), 0);
    IS(cuIpcGetEventHandle(&letter.event, event), 0);
    IS(write(socket, &letter, sizeof letter), sizeof letter);
    IS(read(socket, text, 1), 1);
}

static void take(int socket) {
    struct letter letter;
    CUdeviceptr p;
    void *event;
    char text[16] = "";
    start();
    IS(read(socket, &letter, sizeof letter), sizeof letter);
    int expected = letter.pid == getpid() ? 201 : 0;
    IS(cuIpcOpenMemHandle_v2(&p, letter.memory, 1), expected);
    IS(cuIpcOpenEventHandle(&event, letter.event), expected);
    if (expected == 0) {
        IS(cuMemcpyDtoH_v2(text, p, sizeof text), 0);
        IS(strcmp(text, "from elsewhere"), 0);
        IS(cuEventDestroy_v2(event), 0);
        IS(cuIpcCloseMemHandle(p), 0);
    }
    IS(write(socket, text, 1), 1);
}

int main(void) {
    static const int pids[][2] = {{1, 2}, {3, 1}, {1, 1}, {2, 2}};
    if (!may_make_namespaces()) return 77;
    for (int i = 0; i < 4; i++) {
        int both[2], status = 0, other = 0;
        IS(socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
        fflush(stdout);
        pid_t giver = employ(pids[i][0], give, both[0]), taker = employ(pids[i][1], take, both[1]);
        close(both[0]);
        close(both[1]);
        IS(waitpid(giver, &status, 0), giver);
        IS(waitpid(taker, &other, 0), taker);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return 77;
        IS(status, 0);
        IS(other, 0);
    }
    return 0;
}
