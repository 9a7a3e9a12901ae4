/* A library that opens handles itself, so that it is the caller. */
typedef struct { unsigned char bytes[64]; } Handle;
int open_handle(void *function, unsigned long long *p, Handle handle);
int open_handle(void *function, unsigned long long *p, Handle handle) {
    int result = ((int (*)(unsigned long long *, Handle, unsigned))function)(p, handle, 1);
    __asm__ volatile("" ::: "memory"); /* no tail call: it has to be on the stack */
    return result;
}
