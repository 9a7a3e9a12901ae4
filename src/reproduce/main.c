int main(void) {
    void (*const functions[PROCESSES])(void) = {FUNCTIONS};
    pid_t pids[PROCESSES], pid;
    int status, pair[2];

    signal(SIGPIPE, SIG_IGN);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return perror("mmap"), 2;
    for (int a = 0; a < PROCESSES; a++)
        for (int b = 0; b < a; b++) {
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return perror("socketpair"), 2;
            sockets[a][b] = pair[0];
            sockets[b][a] = pair[1];
        }
    for (me = 0; me < PROCESSES; me++) {
        pids[me] = fork();
        if (pids[me] < 0) return perror("fork"), 2;
        if (pids[me] > 0) continue;
        for (int a = 0; a < PROCESSES; a++)
            for (int b = 0; b < PROCESSES; b++)
                if (a != b && a != me) close(sockets[a][b]);
        alarm(SECONDS);
        functions[me]();
        exit(0);
    }
    for (int a = 0; a < PROCESSES; a++)
        for (int b = 0; b < PROCESSES; b++)
            if (a != b) close(sockets[a][b]);
    while ((pid = wait(&status)) > 0)
        for (int a = 0; a < PROCESSES; a++) {
            if (pids[a] != pid) continue;
            shared->ended[a] = 1;
            if (!WIFSIGNALED(status) || WTERMSIG(status) == signals[a]) continue;
            printf("process %d was ended by signal %d%s\n", a, WTERMSIG(status), WTERMSIG(status) == SIGALRM ? ": it took too long" : "");
            shared->differences++;
        }
    printf("%d differences to the recording\n", shared->differences);
    return shared->differences != 0;
}
