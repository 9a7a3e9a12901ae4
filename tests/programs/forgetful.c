/* A program that empties its environment before its first call, as some that switch users do. Expects cupeer to
 * go on with what the environment said when the program began. */
#include "calls.h"

int main(void) {
    char *account = strdup(getenv("FAKE_DRIVER_LOG")), *libraries = strdup(getenv("LD_LIBRARY_PATH"));
    clearenv();
    setenv("FAKE_DRIVER_LOG", account, 1);
    setenv("LD_LIBRARY_PATH", libraries, 1);
    printf("%d\n", CALL_MARKED(cuIpcOpenMemHandle_v2, 100));
    return 0;
}
