// Makes calls of which no two in a row are alike: the flags differ, and so does where the stack stands. Otherwise a thread's
// repeated failures are counted in one event, and only few of them have their stack in the record.
#include <alloca.h>
__attribute__((noinline)) static int apart(int (*call)(void *, unsigned)) {
    static unsigned count;
    char *volatile room = alloca(16 + count % 2 * 16);
    room[0] = 0;
    int result = call(0, ++count);
    room[0] = 1;
    return result;
}
