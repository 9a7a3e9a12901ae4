/* Two consumers sleep on a futex word in shared memory which the proxy has to set; the proxy wants the lock of
 * the snapshot file, which the uploader has (flock) and keeps while it waits for the object store.
 * After https://github.com/hpc/libcircle/pull/45 (one rank blocked in lock acquisition, all others starve)
 * and https://github.com/huggingface/huggingface_hub/issues/2543. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))

struct chan { atomic_uint epoch; char pad[60]; double data[8]; };
static struct chan *ch;
static char path[64];
static void guard(const char *name) { prctl(PR_SET_PDEATHSIG, SIGKILL); alarm(120); prctl(PR_SET_NAME, name); }

static NOINLINE void chan_wait(unsigned epoch)
{
    unsigned e;
    while ((e = atomic_load(&ch->epoch)) < epoch)
        syscall(SYS_futex, &ch->epoch, FUTEX_WAIT, e, NULL, NULL, 0);
}

static NOINLINE void chan_post(void)
{
    atomic_fetch_add(&ch->epoch, 1);
    syscall(SYS_futex, &ch->epoch, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
}

static NOINLINE void put_object(void)
{
    struct timespec t = { 3600, 0 };
    while (nanosleep(&t, &t)) ;
}

static NOINLINE void uploader(void)
{
    guard("uploader");
    int fd = open(path, O_RDWR);
    munmap(ch, sizeof *ch);
    flock(fd, LOCK_EX);
    put_object();
    flock(fd, LOCK_UN);
}

static NOINLINE void write_snapshot(int fd, unsigned epoch)
{
    flock(fd, LOCK_EX);
    if (pwrite(fd, &epoch, sizeof epoch, 0) < 0) exit(1);
    flock(fd, LOCK_UN);
}

static NOINLINE void proxy(void)
{
    guard("proxy");
    int fd = open(path, O_RDWR);
    for (unsigned e = 1;; e++) {
        usleep(100000);
        if (e % 4 == 0) write_snapshot(fd, e);
        chan_post();
    }
}

static NOINLINE void consumer(const char *name)
{
    double s = 0;
    guard(name);
    for (unsigned e = 1; e < 100000; e++) {
        chan_wait(e);
        s += ch->data[e % 8];
    }
}

int main(void)
{
    alarm(120);
    prctl(PR_SET_NAME, "job");
    snprintf(path, sizeof path, "/tmp/hang_snapshot.%d.lock", getpid());
    close(open(path, O_CREAT | O_RDWR, 0600));
    ch = mmap(NULL, sizeof *ch, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fork() == 0) { uploader(); _exit(0); }
    usleep(100000);
    if (fork() == 0) { proxy(); _exit(0); }
    if (fork() == 0) { consumer("consumer0"); _exit(0); }
    if (fork() == 0) { consumer("consumer1"); _exit(0); }
    while (wait(NULL) > 0) ;
    return 0;
}
