/* A library for host.c that links functions which nobody has, so that there is no driver behind cupeer's
 * exports. The mark is the answer that every call must give, more than once. Without cupeer it cannot even
 * be opened. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"

int plugin(unsigned code) {
    struct outputs outputs, *o = &outputs;
    unsigned m = 100;
    for (int round = 0; round < 2; round++) {
#define CALL(name, parameters, forwarded, marked, mark)                                                       \
    CHECK(name marked == (int)code);                                                                          \
    m++;
        PLAIN_TABLE(CALL)
#undef CALL
    }
    void *pfn = NULL;
    CHECK(cuGetProcAddress("cuInit", &pfn, 12000, 0) == (int)code);
    CHECK(cuGetProcAddress_v2("cuInit", &pfn, 12000, 0, NULL) == (int)code);
    puts("all answered");
    return 0;
}
