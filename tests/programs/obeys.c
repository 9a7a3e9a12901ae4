/* Does what each line of its stdin says, and prints one line about it.
 *
 *   c          cuDeviceCanAccessPeer of devices 0 and 1: what it returned
 *   l          cuMemsetD8_v2 of no memory, which goes straight on to the driver unless a plan looks at it
 *   aPLAN      cupeer_arm: its number, and why not
 *   dN nN      cupeer_disarm, cupeer_counts: what they returned, and both counts
 *   fLINE      the line in a forked child
 *   sN         starts this program as child N, whose stdin this process writes
 *   >NLINE     the line in child N
 *   xN         ends child N
 *   e          executes this program in the place of the process
 */
#include <cupeer.h>
#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
int cuInit(unsigned), cuDeviceCanAccessPeer(int *, int, int), cuMemsetD8_v2(unsigned long long, unsigned char, size_t);

static struct { pid_t pid; int in, out; } children[10];

static void start(int n, char *own) {
    int in[2], out[2];
    char *arguments[] = {own, NULL};
    posix_spawn_file_actions_t actions;
    if (pipe(in) || pipe(out)) exit(2);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    for (int i = 0; i < 2; i++) posix_spawn_file_actions_addclose(&actions, in[i]), posix_spawn_file_actions_addclose(&actions, out[i]);
    if (posix_spawn(&children[n].pid, "/proc/self/exe", &actions, NULL, arguments, environ)) exit(2);
    close(in[0]), close(out[1]);
    children[n].in = in[1], children[n].out = out[0];
    printf("started %d\n", children[n].pid);
}

/* Hands a line to a child, and what it says to ours. */
static void hand_on(int n, const char *line) {
    char said;
    dprintf(children[n].in, "%s\n", line);
    while (read(children[n].out, &said, 1) == 1) {
        putchar(said);
        if (said == '\n') return;
    }
    printf("the child has ended\n");
}

static void obey(char *line, char *own) {
    int can, n = line[0] ? atoi(line + 1) : 0;
    int child = line[0] ? (line[1] - '0') % 10 : 0;
    char message[1024] = "";
    uint64_t matched = 99, fired = 99;
    int (*arm)(const char *, char *, size_t), (*ask)(int, uint64_t *, uint64_t *);
    switch (line[0]) {
    case 'c': printf("%d\n", cuDeviceCanAccessPeer(&can, 0, 1)); break;
    case 'l': printf("%d\n", cuMemsetD8_v2(0, 0, 0)); break;
    case 'a':
        *(void **)&arm = dlsym(RTLD_DEFAULT, "cupeer_arm");
        n = arm(line + 1, message, sizeof message);
        printf("%d %s\n", n, message);
        break;
    case 'd':
    case 'n':
        *(void **)&ask = dlsym(RTLD_DEFAULT, line[0] == 'd' ? "cupeer_disarm" : "cupeer_counts");
        n = ask(n, &matched, &fired);
        printf("%d %d %d\n", n, (int)matched, (int)fired);
        break;
    case 'f':
        fflush(stdout);
        if (!fork()) obey(line + 1, own), fflush(stdout), _exit(0);
        wait(NULL);
        break;
    case 's': start(child, own); break;
    case '>': hand_on(child, line + 2); break;
    case 'x':
        close(children[child].in);
        waitpid(children[child].pid, NULL, 0);
        printf("ended\n");
        break;
    case 'e': fflush(stdout), execl("/proc/self/exe", own, NULL);
    }
}

int main(int count, char **arguments) {
    char line[4096];
    int read_so_far = 0;
    (void)count;
    /* Byte by byte, because another program may go on reading. */
    cuInit(0);
    while (read(0, line + read_so_far, 1) == 1) {
        if (line[read_so_far] != '\n') {
            read_so_far += read_so_far + 1 < (int)sizeof line;
            continue;
        }
        line[read_so_far] = 0, read_so_far = 0;
        obey(line, arguments[0]);
        fflush(stdout);
    }
    return 0;
}
