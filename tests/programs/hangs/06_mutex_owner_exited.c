/* Applications share one process-shared mutex (not robust) in a shared memory segment. One of them takes it,
 * meets an error and exits without the unlock; the supervisor reaps it. The others wait for ever.
 * After https://github.com/sysrepo/sysrepo/issues/2033 (shared mutex dead lock)
 * and https://github.com/boostorg/interprocess/issues/65. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))

struct main_shm { pthread_mutex_t lock; int modules, subs; };
static struct main_shm *shm;
static void guard(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); alarm(120); }

static NOINLINE void shm_lock(void) { pthread_mutex_lock(&shm->lock); }
static NOINLINE void shm_unlock(void) { pthread_mutex_unlock(&shm->lock); }

static NOINLINE int load_module(const char *path)
{
    return access(path, R_OK);
}

static NOINLINE void install_module(void)
{
    shm_lock();
    if (load_module("/nonexistent/ietf-interfaces.yang")) exit(4);
    shm->modules++;
    shm_unlock();
}

static NOINLINE void subscribe_changes(void)
{
    shm_lock();
    shm->subs++;
    shm_unlock();
}

static NOINLINE int get_config(int fd)
{
    char q = 'g', a;
    if (write(fd, &q, 1) != 1 || read(fd, &a, 1) != 1) exit(1);
    return a;
}

int main(void)
{
    pthread_mutexattr_t at;
    int sv[2], mfd = memfd_create("sr_main_shm", 0);
    alarm(120);
    if (ftruncate(mfd, 4096) || socketpair(AF_UNIX, SOCK_STREAM, 0, sv)) return 1;
    shm = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mfd, 0);
    pthread_mutexattr_init(&at);
    pthread_mutexattr_setpshared(&at, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shm->lock, &at);

    if (fork() == 0) { guard(); prctl(PR_SET_NAME, "installer"); close(sv[0]); close(sv[1]); install_module(); _exit(0); }
    usleep(150000);
    if (fork() == 0) {
        guard(); prctl(PR_SET_NAME, "server"); close(sv[1]);
        char q;
        if (read(sv[0], &q, 1) != 1) _exit(1);
        subscribe_changes();
        if (write(sv[0], &q, 1) != 1) _exit(1);
        _exit(0);
    }
    if (fork() == 0) { guard(); prctl(PR_SET_NAME, "notifier"); close(sv[0]); close(sv[1]); subscribe_changes(); _exit(0); }
    if (fork() == 0) { guard(); prctl(PR_SET_NAME, "client"); close(sv[0]); _exit(get_config(sv[1])); }
    close(sv[0]); close(sv[1]);
    while (wait(NULL) > 0) ;
    return 0;
}
