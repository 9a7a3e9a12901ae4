/* apart RULE bad|good: rules about processes that a container keeps apart. Needs leave to make namespaces; exits with
 * CANNOT without it. */
#include "rules.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

static void write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

/* Enters namespaces of one's own, as a root of one's own where one is not root, and with the same user. */
static void enter(int namespaces) {
    char map[32];
    unsigned uid = getuid(), gid = getgid();
    if (unshare(namespaces) == 0) return;
    if (unshare(CLONE_NEWUSER | namespaces) != 0) give_up(CANNOT, __FILE__, __LINE__, strerror(errno));
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", uid, uid);
    write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%u %u 1", gid, gid);
    write_file("/proc/self/gid_map", map);
}

/* Does the work as the first process of a pid namespace, as containers do; in the right program, in the one that both
 * share. */
static void in_container(struct link parent, void (*work)(struct link)) {
    int status = -1;
    if (bad) enter(CLONE_NEWPID);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        CHECK(!bad || getpid() == 1);
        work(parent);
        exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void give(struct link parent) {
    start(0);
    CUdeviceptr p = allocate();
    put_handle(parent, export(p));
    wait_for(parent);
    OK(cuMemFree_v2(p));
}
static void exporter(struct link parent) { in_container(parent, give); }

static void take(struct link parent) {
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    if (!bad) OK(cuIpcCloseMemHandle(p));
}
static void importer(struct link parent) { in_container(parent, take); }

static void equal_pids(void) {
    struct link from = employ(exporter), to = employ(importer);
    Handle handle = get_handle(from);
    put_handle(to, handle);
    ended(to);
    tell(from);
    ended(from);
}

/* What the kernel module of NVIDIA says of a device whose node this process has not. */
static void hide(CUuuid uuid) {
    char text[256], *end = text + sprintf(text, "Model: \t\t Hidden\nGPU UUID: \t GPU-");
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *end++ = '-';
        end += sprintf(end, "%02x", uuid.bytes[i]);
    }
    sprintf(end, "\nBus Location: \t 0000:f0:00.0\nDevice Minor: \t 99\n");
    enter(CLONE_NEWNS);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("none", "/proc/driver", "tmpfs", 0, NULL) != 0)
        give_up(CANNOT, __FILE__, __LINE__, strerror(errno));
    CHECK(mkdir("/proc/driver/nvidia", 0755) == 0 && mkdir("/proc/driver/nvidia/gpus", 0755) == 0);
    CHECK(mkdir("/proc/driver/nvidia/gpus/0000:f0:00.0", 0755) == 0);
    write_file("/proc/driver/nvidia/gpus/0000:f0:00.0/information", text);
}

/* Sees the second device alone, as under srun --gpus-per-task=1, and may not use the first; or sees it, too. */
static void hidden_in(struct link parent) {
    CUuuid uuid;
    CUdeviceptr p;
    get(parent, &uuid, sizeof uuid);
    Handle handle = get_handle(parent);
    if (bad) hide(uuid);
    CHECK(setenv("CUDA_VISIBLE_DEVICES", bad ? "1" : "1,0", 1) == 0);
    start(0);
    if (bad) answer("cuIpcOpenMemHandle_v2", "1");
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    answer("cuIpcOpenMemHandle_v2", NULL);
    if (!bad) OK(cuIpcCloseMemHandle(p));
}

static void device_hidden(void) {
    CUuuid uuid;
    struct link link = employ(hidden_in);
    CHECK(setenv("CUDA_VISIBLE_DEVICES", bad ? "0" : "1,0", 1) == 0);
    start(bad ? 0 : 1);
    CUdeviceptr p = allocate();
    OK(cuDeviceGetUuid_v2(&uuid, bad ? 0 : 1));
    put(link, &uuid, sizeof uuid);
    put_handle(link, export(p));
    ended(link);
    OK(cuMemFree_v2(p));
}

/* Both in a pid namespace of their own, while /proc is still that of the one above, in which their pids are others'. The
 * exporter is killed before the open; or after it, and the open fails for another reason. No scene of the table: its names
 * are no rule's. */
static void export_and_wait(struct link parent) {
    start(0);
    put_handle(parent, export(allocate()));
    pause();
}

static void open_below_proc(void) {
    int status;
    CUdeviceptr p;
    struct link link = employ(export_and_wait);
    start(0);
    Handle handle = get_handle(link);
    if (bad) CHECK(kill(link.pid, SIGKILL) == 0 && waitpid(link.pid, &status, 0) == link.pid);
    else answer("cuIpcOpenMemHandle_v2", "400");
    CHECK(cuIpcOpenMemHandle_v2(&p, handle, LAZY) != 0);
    answer("cuIpcOpenMemHandle_v2", NULL);
    if (!bad) CHECK(kill(link.pid, SIGKILL) == 0 && waitpid(link.pid, &status, 0) == link.pid);
}

static void below_proc(void) {
    int status = -1;
    enter(CLONE_NEWPID);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        open_below_proc();
        exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

SCENES({"below-proc", below_proc}, {"ipc-equal-pids", equal_pids}, {"ipc-device-hidden", device_hidden})
