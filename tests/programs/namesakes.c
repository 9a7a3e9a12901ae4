/* namesakes COUNT PROGRAM...: runs a program so often, one after another, each time with the same process number. */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    pid_t wanted = 0;
    for (int left = argc > 2 ? atoi(argv[1]) : 0; left > 0; left--) {
        struct clone_args how = {.exit_signal = SIGCHLD};
        if (wanted != 0) {
            how.set_tid = (uint64_t)(uintptr_t)&wanted;
            how.set_tid_size = 1;
        }
        pid_t pid = (pid_t)syscall(SYS_clone3, &how, sizeof how);
        if (pid < 0) {
            perror("clone3");
            return 77;
        }
        if (pid == 0) {
            execv(argv[2], argv + 2);
            _exit(127);
        }
        wanted = pid;
        int status;
        if (waitpid(pid, &status, 0) != pid || status != 0) return 1;
    }
    printf("%d\n", wanted);
    return 0;
}
