/* An exporter is killed while an importer has its memory open. */
#include "rules.h"
#include <signal.h>

int main(void) {
    int out[2], back[2];
    char turn = 0;
    CHECK(pipe(out) == 0 && pipe(back) == 0);
    pid_t exporter = fork();
    if (exporter == 0) {
        start(0);
        Handle handle = export(allocate());
        CHECK(write(out[1], &handle, sizeof handle) == (ssize_t)sizeof handle);
        for (;;) pause();
    }
    pid_t importer = fork();
    if (importer == 0) {
        Handle handle;
        CUdeviceptr p;
        start(0);
        CHECK(read(out[0], &handle, sizeof handle) == (ssize_t)sizeof handle);
        OK(cuIpcOpenMemHandle_v2(&p, handle, LAZY));
        CHECK(write(back[1], &turn, 1) == 1);
        for (;;) pause();
    }
    CHECK(read(back[0], &turn, 1) == 1);
    kill(exporter, SIGKILL);
    waitpid(exporter, NULL, 0);
    kill(importer, SIGKILL);
    waitpid(importer, NULL, 0);
    return 0;
}
