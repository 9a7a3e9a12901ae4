/* Three tools keep three lock files (session, config, gateway), each takes its own one and then that of the next.
 * After https://github.com/DenchHQ/DenchClaw/issues/62 (lock A then B, other process B then A)
 * and https://github.com/openSUSE/open-build-service/issues/1606. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))

static char dir[] = "/tmp/hang_locks_XXXXXX";
static void guard(const char *n) { prctl(PR_SET_PDEATHSIG, SIGKILL); alarm(120); prctl(PR_SET_NAME, n); }

static NOINLINE int with_lock(const char *name)
{
    char p[96];
    snprintf(p, sizeof p, "%s/%s.lock", dir, name);
    int fd = open(p, O_CREAT | O_RDWR, 0600);
    flock(fd, LOCK_EX);
    return fd;
}

static NOINLINE void save_session(void)
{
    int s = with_lock("session");
    usleep(200000);
    int c = with_lock("config");
    close(c); close(s);
}

static NOINLINE void reload_config(void)
{
    int c = with_lock("config");
    usleep(200000);
    int g = with_lock("gateway");
    close(g); close(c);
}

static NOINLINE void restart_gateway(void)
{
    int g = with_lock("gateway");
    usleep(200000);
    int s = with_lock("session");
    close(s); close(g);
}

int main(void)
{
    alarm(120);
    prctl(PR_SET_NAME, "supervisor");
    if (!mkdtemp(dir)) return 1;
    if (fork() == 0) { guard("sessiond"); save_session(); _exit(0); }
    if (fork() == 0) { guard("configd"); reload_config(); _exit(0); }
    if (fork() == 0) { guard("gatewayd"); restart_gateway(); _exit(0); }
    while (wait(NULL) > 0) ;
    return 0;
}
