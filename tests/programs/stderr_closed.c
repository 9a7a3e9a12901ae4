/* stderr_closed: closes the standard streams 0 and 2, calls, and says what is under their numbers, and which numbers the next
 * two files have. Expects them to be the program's own. */
#include "common.h"
#include <sys/stat.h>

static void under(int fd) {
    struct stat about;
    printf("%d: %s\n", fd, fstat(fd, &about) ? "closed" : "open");
}

int main(void) {
    int can;
    close(0);
    close(2);
    CHECK(cuDeviceCanAccessPeer(&can, 1, 2) == 0);
    under(0);
    under(2);
    printf("opened as %d", open("/dev/null", O_RDONLY));
    printf(" and %d\n", open("/dev/null", O_WRONLY));
    CHECK(write(2, "data\n", 5) == 5);
    CHECK(cuDeviceCanAccessPeer(&can, 3, 2) == 0);
    return 0;
}
