/* A library that opens handles, and tries exports, itself, so that it is the caller. */
typedef struct { unsigned char bytes[64]; } Handle;
int open_handle(void *function, unsigned long long *p, Handle handle);
int open_handle(void *function, unsigned long long *p, Handle handle) {
    int result = ((int (*)(unsigned long long *, Handle, unsigned))function)(p, handle, 1);
    __asm__ volatile("" ::: "memory"); /* no tail call: it has to be on the stack */
    return result;
}
int try_export(void *function, Handle *handle, unsigned long long p);
int try_export(void *function, Handle *handle, unsigned long long p) {
    int result = ((int (*)(Handle *, unsigned long long))function)(handle, p);
    __asm__ volatile("" ::: "memory");
    return result;
}
/* Any other call. */
int make_call(void *function, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int make_call(void *function, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    int result = ((int (*)(unsigned long, unsigned long, unsigned long, unsigned long))function)(a, b, c, d);
    __asm__ volatile("" ::: "memory");
    return result;
}
