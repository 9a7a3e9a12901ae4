/* kills COUNT SEED: groups of an exporter and two importers that follow the protocol (export, open, use, close, tell,
 * free), of which a process is killed at a random moment, COUNT times. Who is left of a group goes on as well as it
 * can, and ends without a word where it is alone. This process itself never reaches the driver.
 *
 * Prints how many were killed, and fails where another one died or did what it must not. */
#include "rules.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>

enum { GROUPS = 4, IMPORTERS = 2, MEMBERS = IMPORTERS + 1 };

struct group {
    pid_t pids[MEMBERS]; /* the exporter first; 0 where it has ended */
};

/* Set when all shall end. */
static volatile int *stop;
/* Each step is a byte here, so that moments can be chosen without a clock. */
static int ticks[2];

static void tick(void) {
    if (write(ticks[1], ".", 1) < 0) return; /* nobody has to wait for it */
}

/* Whether all was read; the other one may have died in the middle. */
static int receive(int fd, void *bytes, size_t size) {
    size_t had = 0;
    for (ssize_t n; had < size && (n = read(fd, (char *)bytes + had, size - had)) > 0;) had += (size_t)n;
    return had == size;
}

static void export_to(const int *out, const int *in) {
    int alive[IMPORTERS] = {1, 1}, left = IMPORTERS;
    start(0);
    while (left && !*stop) {
        char turn;
        CUdeviceptr p = allocate();
        Handle handle = export(p);
        tick();
        for (int i = 0; i < IMPORTERS; i++) alive[i] = alive[i] && write(out[i], &handle, sizeof handle) > 0;
        tick();
        for (int i = left = 0; i < IMPORTERS; i++) left += alive[i] = alive[i] && receive(in[i], &turn, 1);
        tick();
        OK(cuMemFree_v2(p));
        tick();
    }
}

static void import_from(int in, int out) {
    char text[16];
    Handle handle;
    start(0);
    while (receive(in, &handle, sizeof handle)) {
        CUdeviceptr p;
        tick();
        if (cuIpcOpenMemHandle_v2(&p, handle, LAZY) != 0) {
            CHECK(!receive(in, &handle, sizeof handle)); /* so it has died */
            return;
        }
        tick();
        /* What a dead one leaves behind may be read or not. */
        cuMemcpyDtoH_v2(text, p, sizeof text);
        tick();
        OK(cuIpcCloseMemHandle(p));
        tick();
        if (write(out, "!", 1) != 1) return;
    }
}

static void begin(struct group *group) {
    int to[IMPORTERS][2], from[IMPORTERS][2];
    for (int i = 0; i < IMPORTERS; i++) CHECK(pipe(to[i]) == 0 && pipe(from[i]) == 0);
    for (int member = 0; member < MEMBERS; member++) {
        CHECK((group->pids[member] = fork()) >= 0);
        if (group->pids[member]) continue;
        alarm(100);
        signal(SIGPIPE, SIG_IGN);
        close(ticks[0]);
        int out[IMPORTERS], in[IMPORTERS];
        for (int i = 0; i < IMPORTERS; i++) {
            out[i] = to[i][1], in[i] = from[i][0];
            if (member) close(out[i]), close(in[i]);
            if (member != i + 1) close(to[i][0]), close(from[i][1]);
        }
        if (member) import_from(to[member - 1][0], from[member - 1][1]);
        else export_to(out, in);
        exit(0);
    }
    for (int i = 0; i < IMPORTERS; i++) close(to[i][0]), close(to[i][1]), close(from[i][0]), close(from[i][1]);
}

/* Waits for a member, which ends by itself or by this signal. */
static void reap(struct group *group, int member, int signal) {
    int status = -1;
    if (!group->pids[member]) return;
    CHECK(waitpid(group->pids[member], &status, 0) == group->pids[member]);
    CHECK(signal ? WIFSIGNALED(status) && WTERMSIG(status) == signal : status == 0);
    group->pids[member] = 0;
}

int main(int argc, char **argv) {
    static struct group groups[GROUPS];
    CHECK(argc == 3);
    int count = atoi(argv[1]), killed = 0;
    unsigned seed = (unsigned)atoi(argv[2]);
    CHECK(pipe2(ticks, O_NONBLOCK) == 0);
    stop = mmap(NULL, sizeof *stop, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(stop != MAP_FAILED);
    for (int g = 0; g < GROUPS; g++) begin(&groups[g]);
    while (killed < count) {
        char byte;
        struct pollfd moment = {ticks[0], POLLIN, 0};
        for (int wait = rand_r(&seed) % 200; wait > 0; wait--) {
            CHECK(poll(&moment, 1, 60000) == 1);
            CHECK(read(ticks[0], &byte, 1) == 1);
        }
        struct group *group = &groups[rand_r(&seed) % GROUPS];
        int member = rand_r(&seed) % MEMBERS;
        if (!group->pids[member]) continue;
        CHECK(kill(group->pids[member], SIGKILL) == 0);
        reap(group, member, SIGKILL);
        killed++;
        if (member != 0 && (group->pids[1] || group->pids[2])) continue;
        for (int other = 0; other < MEMBERS; other++) reap(group, other, 0);
        begin(group);
    }
    *stop = 1;
    for (int g = 0; g < GROUPS; g++)
        for (int member = 0; member < MEMBERS; member++) reap(&groups[g], member, 0);
    printf("killed %d\n", killed);
    return 0;
}
