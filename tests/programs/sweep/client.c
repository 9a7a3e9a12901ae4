// Two processes share memory and events both ways through CUDA IPC, as the documentation of the driver wants it: what is
// refused has a way round it or a message, and whatever becomes of one, both give back what they hold, who opened it before
// who exported it. The same words are printed, whichever way the data took.
//
// Lines that end in such a comment as "check" or "clean-up" are those that a careless programmer forgets: a test deletes
// one of them at a time, and a sweep has to notice.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

// The parts of cuda.h that are used here.
typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx *CUcontext;
typedef struct CUev *CUevent;
typedef struct { char bytes[64]; } CUipcHandle;
enum { CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_INTERPROCESS = 4, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1 };

#define FUNCTIONS(each)                                                                                                \
    each(cuInit, (unsigned)) each(cuGetErrorName, (CUresult, const char **))                                           \
    each(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) each(cuCtxSetCurrent, (CUcontext))                         \
    each(cuMemAlloc_v2, (CUdeviceptr *, size_t)) each(cuMemFree_v2, (CUdeviceptr))                                     \
    each(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                                         \
    each(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                                               \
    each(cuEventCreate, (CUevent *, unsigned)) each(cuEventRecord, (CUevent, void *))                                  \
    each(cuEventSynchronize, (CUevent)) each(cuEventDestroy_v2, (CUevent))                                             \
    each(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice)) each(cuCtxEnablePeerAccess, (CUcontext, unsigned))        \
    each(cuCtxDisablePeerAccess, (CUcontext)) each(cuIpcGetMemHandle, (CUipcHandle *, CUdeviceptr))                    \
    each(cuIpcOpenMemHandle_v2, (CUdeviceptr *, CUipcHandle, unsigned)) each(cuIpcCloseMemHandle, (CUdeviceptr))       \
    each(cuIpcGetEventHandle, (CUipcHandle *, CUevent)) each(cuIpcOpenEventHandle, (CUevent *, CUipcHandle))
#define DECLARE(name, types) static CUresult(*name) types;
FUNCTIONS(DECLARE)

enum { SIZE = 4096 };
// What goes over the channel. OFFER and DONE bring handles, or say that there is none of the memory; COPY asks for a copy of
// the memory in the bounce buffer. BYE is the last.
enum kind { OFFER = 1, DONE, COPY, COPIED, BYE };
struct message {
    enum kind kind;
    int refused;
    CUipcHandle memory, flag, event;
};

static const char *who;
static int channel, over, failed;
static char *bounce, text[32];
static CUcontext own, peer;
static CUdeviceptr memory, flag, opened_memory, opened_flag;
static CUevent event, opened_event;
// Which of these have to be given back.
static struct { int memory, flag, event, opened_memory, opened_flag, opened_event, access; } held;
static void (*give_back)(void);

static void say_failed(const char *what, CUresult result) {
    const char *name = "an unknown error";
    cuGetErrorName(result, &name);
    fprintf(stderr, "%s: %s: %s\n", who, what, name);
}

static void end_badly(void) {
    failed = 1;
    give_back();
    exit(1);
}

// For what the driver refuses, and cannot be done in another way.
static void fail(const char *what, CUresult result) {
    say_failed(what, result);
    end_badly();
}

// For what only a mistake of this program makes fail.
static void must(const char *what, CUresult result) {
    if (!result) return;
    say_failed(what, result);
    abort(); /* check */
}
#define MUST(function, ...) must(#function, function(__VA_ARGS__))

static void say(enum kind kind) {
    struct message message = {.kind = kind};
    send(channel, &message, sizeof message, MSG_NOSIGNAL);
}

// The kind of the next message. It is BYE for good once the other process has said so, or has ended.
static enum kind hear(struct message *message) {
    for (size_t got = 0; got < sizeof *message && !over;) {
        ssize_t more = recv(channel, (char *)message + got, sizeof *message - got, 0);
        if (more <= 0) over = 1; /* check */
        got += more;
    }
    over = over || message->kind == BYE;
    return over ? BYE : message->kind;
}

static void begin(const char *name, CUdevice device) {
    who = name;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
#define FIND(name, types)                                                                                              \
    if (!driver || !(name = (CUresult(*) types)dlsym(driver, #name))) fprintf(stderr, "%s: %s\n", who, dlerror()), exit(1);
    FUNCTIONS(FIND)
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &peer, 1 - device);
    MUST(cuDevicePrimaryCtxRetain, &own, device);
    MUST(cuCtxSetCurrent, own);
    MUST(cuMemAlloc_v2, &memory, SIZE);
    MUST(cuEventCreate, &event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    held.memory = held.event = 1;
}

// Reads what the other process has written: in its memory, or else in a copy.
static void read_text(void) {
    struct message message;
    if (held.opened_memory) {
        MUST(cuMemcpyDtoH_v2, text, opened_memory, sizeof text);
        return;
    }
    say(COPY);
    if (hear(&message) == COPIED) memcpy(text, bounce, sizeof text);
}

static void copy_text(void) {
    MUST(cuMemcpyDtoH_v2, bounce, memory, sizeof text);
    say(COPIED);
}

static void give_back_of_producer(void) {
    struct message message;
    if (held.opened_memory) MUST(cuIpcCloseMemHandle, opened_memory); /* clean-up */
    if (held.opened_event) MUST(cuEventDestroy_v2, opened_event); /* clean-up */
    if (held.access) MUST(cuCtxDisablePeerAccess, peer); /* clean-up */
    say(BYE);
    // What the consumer has open it closes before it says so, or ends.
    while (hear(&message) != BYE) {}
    if (held.memory) MUST(cuMemFree_v2, memory); /* clean-up */
    if (held.flag) MUST(cuMemFree_v2, flag); /* clean-up */
    if (held.event) MUST(cuEventDestroy_v2, event); /* clean-up */
}

static void give_back_of_consumer(void) {
    struct message message;
    if (held.opened_memory) MUST(cuIpcCloseMemHandle, opened_memory); /* clean-up */
    if (held.opened_flag) MUST(cuIpcCloseMemHandle, opened_flag); /* clean-up */
    if (held.opened_event) MUST(cuEventDestroy_v2, opened_event); /* clean-up */
    if (held.access) MUST(cuCtxDisablePeerAccess, peer); /* clean-up */
    if (failed) say(BYE);
    // What the producer has open it closes before it says BYE.
    for (enum kind kind; (kind = hear(&message)) != BYE;)
        if (kind == COPY) copy_text();
    if (held.memory) MUST(cuMemFree_v2, memory); /* clean-up */
    if (held.event) MUST(cuEventDestroy_v2, event); /* clean-up */
}

static void produce(void) {
    struct message offer = {.kind = OFFER}, answer;
    int done;
    give_back = give_back_of_producer;
    begin("producer", 0);
    MUST(cuMemAlloc_v2, &flag, sizeof(int));
    held.flag = 1;
    MUST(cuMemcpyHtoD_v2, flag, &(int){0}, sizeof(int));
    CUresult result = cuIpcGetMemHandle(&offer.memory, memory);
    if (result) offer.refused = 1; /* check */
    result = cuIpcGetMemHandle(&offer.flag, flag);
    if (result) fail("cuIpcGetMemHandle", result); /* check */
    result = cuIpcGetEventHandle(&offer.event, event);
    if (result) fail("cuIpcGetEventHandle", result); /* check */
    MUST(cuMemcpyHtoD_v2, memory, "from device 0", 14);
    MUST(cuEventRecord, event, NULL);
    send(channel, &offer, sizeof offer, MSG_NOSIGNAL);

    for (enum kind kind; (kind = hear(&answer)) != DONE;) {
        if (kind == BYE) end_badly(); /* check */
        if (kind == COPY) copy_text();
    }
    held.access = 1;
    result = cuCtxEnablePeerAccess(peer, 0);
    if (result) held.access = 0; /* check */
    if (!answer.refused) {
        held.opened_memory = 1;
        result = cuIpcOpenMemHandle_v2(&opened_memory, answer.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        if (result) held.opened_memory = 0; /* check */
    }
    result = cuIpcOpenEventHandle(&opened_event, answer.event);
    if (result) fail("cuIpcOpenEventHandle", result); /* check */
    held.opened_event = 1;
    MUST(cuEventSynchronize, opened_event);
    read_text();
    MUST(cuMemcpyDtoH_v2, &done, flag, sizeof done);
    printf("producer read \"%s\", flag %d\n", text, done);
}

static void consume(void) {
    struct message offer, answer = {.kind = DONE};
    int can = 0;
    give_back = give_back_of_consumer;
    begin("consumer", 1);
    if (hear(&offer) != OFFER) end_badly(); /* check */
    if (cuDeviceCanAccessPeer(&can, 1, 0) == 0 && can) {
        held.access = 1;
        CUresult result = cuCtxEnablePeerAccess(peer, 0);
        if (result) held.access = 0; /* check */
    }
    if (!offer.refused) {
        held.opened_memory = 1;
        CUresult result = cuIpcOpenMemHandle_v2(&opened_memory, offer.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        if (result) held.opened_memory = 0; /* check */
    }
    CUresult result = cuIpcOpenMemHandle_v2(&opened_flag, offer.flag, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result) fail("cuIpcOpenMemHandle", result); /* check */
    held.opened_flag = 1;
    result = cuIpcOpenEventHandle(&opened_event, offer.event);
    if (result) fail("cuIpcOpenEventHandle", result); /* check */
    held.opened_event = 1;
    MUST(cuEventSynchronize, opened_event);
    read_text();
    printf("consumer read \"%s\"\n", text);
    fflush(stdout);

    result = cuIpcGetMemHandle(&answer.memory, memory);
    if (result) answer.refused = 1; /* check */
    result = cuIpcGetEventHandle(&answer.event, event);
    if (result) fail("cuIpcGetEventHandle", result); /* check */
    MUST(cuMemcpyHtoD_v2, memory, "from device 1", 14);
    MUST(cuMemcpyHtoD_v2, opened_flag, &(int){1}, sizeof(int));
    MUST(cuEventRecord, event, NULL);
    send(channel, &answer, sizeof answer, MSG_NOSIGNAL);
}

int main(void) {
    int ends[2], status;
    char name[64];
    snprintf(name, sizeof name, "/cupeer-client-%d", getpid());
    int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0 || ftruncate(file, SIZE) || socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    bounce = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    shm_unlink(name);
    // The driver must not be used before a fork.
    pid_t consumer = fork();
    channel = ends[consumer == 0];
    close(ends[consumer != 0]); /* clean-up */
    if (consumer == 0) consume();
    else produce();
    give_back();
    if (consumer > 0) {
        waitpid(consumer, &status, 0);
        if (status) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : 1; /* check */
    }
    return 0;
}
