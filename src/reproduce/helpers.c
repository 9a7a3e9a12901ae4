#define MiB ((size_t)1 << 20)

static void check(CUresult result, CUresult recorded, int line, const char *call) {
    const char *names[2] = {"an unknown result", "an unknown result"};
    if (result == recorded) return;
    cuGetErrorName(result, &names[0]);
    cuGetErrorName(recorded, &names[1]);
    printf("process %d, line %d: %s returned %s, not %s\n", me, line, call, names[0], names[1]);
    fflush(stdout);
    __sync_fetch_and_add(&shared->differences, 1);
}

/* A recorded call, with its recorded result. */
#define expect(call, recorded) check(call, recorded, __LINE__, #call)

/* A call that was not recorded, and must have been made. */
#define must(call) check(call, CUDA_SUCCESS, __LINE__, #call)

static void report_return(CUresult result, int line, const char *call) {
    const char *name = "an unknown result";
    cuGetErrorName(result, &name);
    printf("process %d, line %d: %s returned %s, and did not return in the recording\n", me, line, call, name);
    fflush(stdout);
    __sync_fetch_and_add(&shared->differences, 1);
}

static void exit_blocked(int signal) {
    (void)signal;
    _exit(0);
}

/* A recorded call that did not return. */
#define expect_hang(call) (signal(SIGALRM, exit_blocked), alarm(HANG_SECONDS), report_return(call, __LINE__, #call))

static void give_up(const char *what) {
    printf("process %d: %s\n", me, what);
    fflush(stdout);
    __sync_fetch_and_add(&shared->differences, 1);
    _exit(1);
}

static void send_bytes(int to, const void *bytes, size_t size) {
    if (write(sockets[me][to], bytes, size) != (ssize_t)size) give_up("another process ended too early");
}

static void receive_bytes(int from, void *bytes, size_t size) {
    if (recv(sockets[me][from], bytes, size, MSG_WAITALL) != (ssize_t)size) give_up("another process ended too early");
}

static void tell(int to) { send_bytes(to, "", 1); }

static void wait_for(int from) {
    char byte;
    receive_bytes(from, &byte, 1);
}

static void wait_for_end(int of) {
    while (!shared->ended[of]) usleep(1000);
}

/* A message with a descriptor, as SCM_RIGHTS. */
struct message {
    struct msghdr head;
    struct iovec bytes;
    union { struct cmsghdr head; char bytes[CMSG_SPACE(sizeof(int))]; } control;
    char byte;
};

static struct cmsghdr *prepare_message(struct message *message) {
    memset(message, 0, sizeof *message);
    message->bytes = (struct iovec){&message->byte, 1};
    message->head.msg_iov = &message->bytes;
    message->head.msg_iovlen = 1;
    message->head.msg_control = &message->control;
    message->head.msg_controllen = sizeof message->control;
    return CMSG_FIRSTHDR(&message->head);
}

static void send_descriptor(int to, int descriptor) {
    struct message message;
    struct cmsghdr *control = prepare_message(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
    if (sendmsg(sockets[me][to], &message.head, 0) != 1) give_up("a descriptor cannot be sent");
}

static int receive_descriptor(int from) {
    struct message message;
    int descriptor = -1;
    prepare_message(&message);
    if (recvmsg(sockets[me][from], &message.head, 0) != 1) give_up("another process ended too early");
    struct cmsghdr *control = CMSG_FIRSTHDR(&message.head);
    if (control) memcpy(&descriptor, CMSG_DATA(control), sizeof descriptor);
    return descriptor;
}

static CUresult create_context(CUcontext *context, CUdevice device) {
#if CUDA_VERSION >= 13000
    return cuCtxCreate(context, NULL, 0, device);
#else
    return cuCtxCreate(context, 0, device);
#endif
}

/* Memory of the host for a copy. Its contents do not matter. */
static void *host_memory(size_t size) {
    static void *memory;
    static size_t had;
    if (size > had) memory = realloc(memory, had = size);
    return memory;
}

/* The same with a pattern, for contents that went on to other memory. A step of 0 repeats one word. */
static void *host_pattern(size_t size, unsigned first, unsigned step) {
    unsigned *words = host_memory(size + sizeof *words);
    for (size_t i = 0; i <= size / sizeof *words; i++) words[i] = first + (unsigned)i * step;
    return words;
}

/* Goes on in a child that was forked after the driver was initialized. */
static void fork_after_init(void) {
    must(cuInit(0));
    pid_t child = fork();
    alarm(SECONDS);
    if (child == 0) return;
    waitpid(child, NULL, 0);
    _exit(0);
}
