/* Reaches the driver and then ends in the way that it is asked for. With "child" or "grandchild" in front, a child does so,
 * or a child of a child, and this process returns 0 when it has ended. With "orphan", the parent of that child does not
 * wait for it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int cuInit(unsigned);
int cuDeviceCanAccessPeer(int *, int, int);

static void reach(void)
{
    int can;
    if (cuInit(0) || cuDeviceCanAccessPeer(&can, 0, 1)) {
        exit(99);
    }
}

static void *last(void *unused)
{
    (void)unused;
    usleep(20000);
    return NULL;
}

static int in_child(char **arguments);
static int in_orphan(char **arguments);

static int end(char **arguments)
{
    const char *way = arguments[0];
    int number = arguments[1] ? atoi(arguments[1]) : 0;
    if (!strcmp(way, "child")) {
        return in_child(arguments + 1);
    }
    if (!strcmp(way, "orphan")) {
        return in_orphan(arguments + 1);
    }
    reach();
    if (!strcmp(way, "return")) {
        return number;
    } else if (!strcmp(way, "exit")) {
        exit(number);
    } else if (!strcmp(way, "_exit")) {
        _exit(number);
    } else if (!strcmp(way, "_Exit")) {
        _Exit(number);
    } else if (!strcmp(way, "quick_exit")) {
        quick_exit(number);
    } else if (!strcmp(way, "abort")) {
        abort();
    } else if (!strcmp(way, "signal")) {
        signal(number, SIG_DFL);
        kill(getpid(), number);
        for (;;) {
            pause();
        }
    } else if (!strcmp(way, "system-call")) {
        syscall(SYS_exit_group, number);
    } else if (!strcmp(way, "last-thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, last, NULL);
        pthread_exit(NULL);
    } else if (!strcmp(way, "vfork")) {
        pid_t pid = vfork();
        if (pid == 0) {
            _exit(7);
        }
        waitpid(pid, NULL, 0);
        return number;
    } else if (!strcmp(way, "exec")) {
        execv("/proc/self/exe", arguments);
    } else if (!strcmp(way, "exec-other")) {
        execl("/bin/true", "true", (char *)NULL);
    } else if (!strcmp(way, "execvp")) {
        execvp("true", (char *[]){"true", NULL});
    } else if (!strcmp(way, "execlp")) {
        execlp("sh", "sh", "-c", "test $# = 9", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", (char *)NULL);
    } else if (!strcmp(way, "execle")) {
        execle("/bin/sh", "sh", "-c", "test \"$A\" = b", (char *)NULL, (char *[]){"A=b", NULL});
    } else if (!strcmp(way, "execve")) {
        execve("/bin/true", (char *[]){"true", NULL}, environ);
    } else if (!strcmp(way, "fexecve")) {
        fexecve(open("/bin/true", O_RDONLY | O_CLOEXEC), (char *[]){"true", NULL}, environ);
    } else if (!strcmp(way, "exec-killed")) {
        execl("/bin/sh", "sh", "-c", "kill -9 $$", (char *)NULL);
    } else if (!strcmp(way, "exec-fails")) {
        execl("/nowhere", "nowhere", (char *)NULL);
        reach();
        kill(getpid(), number);
    } else if (!strcmp(way, "live-on")) {
        /* The parent does not wait for it. It ends when the file is there that the next argument names. */
        close(0);
        close(1);
        close(2);
        for (int turn = 0; turn < 12000 && access(arguments[1], F_OK); turn++) {
            usleep(10000);
        }
        return 0;
    }
    return 98;
}

static int in_orphan(char **arguments)
{
    int pipes[2];
    char none;
    pid_t middle;
    if (pipe(pipes)) {
        return 97;
    }
    middle = fork();
    if (middle == 0) {
        pid_t parent = getpid();
        if (fork() == 0) {
            while (getppid() == parent) {
                usleep(1000);
            }
            exit(end(arguments));
        }
        _exit(0);
    }
    waitpid(middle, NULL, 0);
    close(pipes[1]);
    /* Nobody has the other end any more when the orphan has ended. */
    return read(pipes[0], &none, 1) == 0 ? 0 : 95;
}

static int in_child(char **arguments)
{
    int status = 0, pipes[2];
    pid_t pid;
    if (!strcmp(arguments[0], "live-on") && pipe(pipes)) {
        return 97;
    }
    pid = fork();
    if (pid == 0) {
        if (!strcmp(arguments[0], "live-on")) {
            reach();
            close(pipes[0]);
            if (write(pipes[1], "", 1) != 1) {
                exit(96);
            }
            close(pipes[1]);
        }
        exit(end(arguments));
    }
    if (!strcmp(arguments[0], "live-on")) {
        char ready;
        return read(pipes[0], &ready, 1) == 1 ? 0 : 95;
    }
    waitpid(pid, &status, 0);
    return 0;
}

int main(int count, char **arguments)
{
    (void)count;
    return end(arguments + 1);
}
