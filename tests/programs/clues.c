/* clues SCENE bad|good|fails: programs that test their own results and exit with 1 if these are wrong. `bad` has a mistake that
 * breaks no rule, `good` is the nearest program that is right, and `fails` the same with an exit status of 1. A line that the clue
 * about the mistake has to name ends in the name of its scene. */
#include "rules/graphs.h"
#include <signal.h>

enum { MANY = 1 << 20, HERE = 0, THERE = 2 << 20 };

static int failed;
static unsigned buffer[MANY / sizeof(unsigned)];

/* The program's own test. */
static void expect(int is_right, const char *what) {
    if (!is_right) dprintf(1, "wrong: %s\n", what);
    failed |= !is_right;
}
#define EXPECT(condition) expect((condition) != 0, #condition)

/* Another process, whose exit status is that of its tests. */
static void (*work)(struct link);
static void worker(struct link parent) {
    work(parent);
    exit(failed);
}
static struct link hire(void (*its)(struct link)) {
    work = its;
    return employ(worker);
}
static void join(struct link link) {
    int status = 0;
    CHECK(waitpid(link.pid, &status, 0) == link.pid);
    failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void fill(CUdeviceptr p, unsigned first) {
    for (unsigned i = 0; i < MANY / sizeof *buffer; i++) buffer[i] = first + i;
    OK(cuMemcpyHtoD_v2(p, buffer, MANY));
}
static unsigned first_of(CUdeviceptr p) {
    OK(cuMemcpyDtoH_v2(buffer, p, MANY));
    return buffer[0];
}
static unsigned word_at(CUdeviceptr p) {
    unsigned word;
    OK(cuMemcpyDtoH_v2(&word, p, sizeof word));
    return word;
}
/* By a graph with a host function, which nobody follows. */
static void nothing(void *data) { (void)data; }
static void set(CUdeviceptr p, unsigned word) {
    int (*call)(Stream, void (*)(void *), void *);
    Stream stream;
    Graph graph;
    Exec exec;
    find_more();
    *(void **)&call = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchHostFunc");
    OK(cuStreamCreate(&stream, NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(stream, RELAXED));
    OK(cuMemsetD32Async(p, word, SIZE / sizeof word, stream));
    OK(call(stream, nothing, 0));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* A call fails, and nobody looks. */
static void result_ignored(void) {
    start(0);
    CUdeviceptr at = reserve(SIZE);
    size_t size = bad ? (size_t)1 << 50 : SIZE;
    CUresult result = cuMemAddressReserve(&at, size, 0, 0, 0); /* result-ignored */
    unmap(map(create(NONE)));
    EXPECT(result == 0);
}

/* The exporter ends while its memory is in use. */
static void exporter(struct link parent) {
    start(0);
    CUdeviceptr p = allocate();
    set(p, 5);
    put_handle(parent, export(p));
    wait_for(parent);
    if (!bad) wait_for(parent);
}
static void exporter_ended(void) {
    struct link link = hire(exporter);
    start(0);
    CUdeviceptr opened = open_memory(get_handle(link)); /* exporter-ended */
    tell(link);
    if (bad) join(link);
    EXPECT(kill(link.pid, 0) == 0);
    if (bad) return;
    OK(cuIpcCloseMemHandle(opened));
    tell(link), join(link);
}

/* The owner clears what it has just loaded. */
static void read_loaded(struct link parent) {
    start(1);
    CUdeviceptr opened = open_memory(get_handle(parent));
    wait_for(parent);
    EXPECT(first_of(opened) == 7);
    OK(cuIpcCloseMemHandle(opened));
}
static void read_of_nobody(void) {
    struct link link = hire(read_loaded);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    fill(p, 7);
    if (bad) set(p, 9);
    tell(link);
    join(link);
}

/* The importer puts its data at the place of another one. */
static void put_there(struct link parent) {
    start(1);
    CUdeviceptr opened = open_memory(get_handle(parent)), own = allocate();
    set(own, 7);
    OK(cuMemcpyDtoDAsync_v2(opened + (bad ? HERE : THERE), own, MANY, NULL));
    OK(cuCtxSynchronize());
    tell(parent);
    OK(cuIpcCloseMemHandle(opened));
}
static void read_elsewhere(void) {
    struct link link = hire(put_there);
    start(0);
    CUdeviceptr p = allocate();
    set(p, 1);
    put_handle(link, export(p));
    wait_for(link);
    EXPECT(first_of(p + THERE) == 7);
    join(link);
}
static void pull_there(struct link parent) {
    start(1);
    CUdeviceptr opened = open_memory(get_handle(parent)), own = allocate();
    OK(cuMemcpyDtoDAsync_v2(own, opened, MANY, NULL));
    OK(cuCtxSynchronize());
    tell(parent);
    OK(cuIpcCloseMemHandle(opened));
}
/* The same with a word that only the program looks at. */
static void written_by_importer(void) {
    struct link link = hire(bad ? put_there : pull_there);
    start(0);
    CUdeviceptr p = allocate();
    set(p, 1);
    put_handle(link, export(p));
    wait_for(link);
    EXPECT(word_at(p) == 1);
    join(link);
}

/* The owner says that the data are there before they are. */
static void pull(struct link parent) {
    start(1);
    CUdeviceptr opened = open_memory(get_handle(parent)), own = allocate();
    wait_for(parent);
    OK(cuMemcpyDtoDAsync_v2(own, opened, MANY, NULL)); /* read-first */
    OK(cuCtxSynchronize());
    tell(parent);
    wait_for(parent);
    EXPECT(word_at(own) == 7);
    OK(cuIpcCloseMemHandle(opened));
}
static void read_first(void) {
    struct link link = hire(pull);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    if (!bad) fill(p, 7);
    tell(link);
    wait_for(link);
    if (bad) fill(p, 7);
    tell(link);
    join(link);
}

/* The owner loads the next bucket before the importer has the last one. */
static void pull_both(struct link parent) {
    start(1);
    CUdeviceptr opened = open_memory(get_handle(parent)), own = allocate();
    for (unsigned bucket = 1; bucket <= 2; bucket++) {
        wait_for(parent);
        OK(cuMemcpyDtoDAsync_v2(own, opened, MANY, NULL));
        OK(cuCtxSynchronize());
        EXPECT(word_at(own) == bucket);
        tell(parent);
    }
    OK(cuIpcCloseMemHandle(opened));
}
static void overwritten(void) {
    struct link link = hire(pull_both);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    for (unsigned bucket = 1; bucket <= 2; bucket++) {
        fill(p, bucket);
        if (!bad) tell(link), wait_for(link);
    }
    for (unsigned bucket = 1; bad && bucket <= 2; bucket++) tell(link), wait_for(link);
    join(link);
}

/* Three buffers, of which the address of one is sent three times. */
static void open_three(struct link parent) {
    start(0);
    for (unsigned i = 0; i < 3; i++) {
        CUdeviceptr opened = open_memory(get_handle(parent));
        EXPECT(word_at(opened) == i);
        OK(cuIpcCloseMemHandle(opened));
    }
}
static void exported_again(void) {
    struct link link = hire(open_three);
    start(0);
    CUdeviceptr buffers[3];
    for (unsigned i = 0; i < 3; i++) set(buffers[i] = allocate(), i);
    for (unsigned i = 0; i < 3; i++) put_handle(link, export(buffers[bad ? 0 : i])); /* exported-again */
    join(link);
}

/* The importer opens one of two handles twice. */
static void open_two(struct link parent) {
    start(0);
    Handle handles[2] = {get_handle(parent), get_handle(parent)};
    CUdeviceptr a = open_memory(handles[0]), b = open_memory(handles[bad ? 0 : 1]);
    EXPECT(word_at(a) == 1 && word_at(b) == 2);
    OK(cuIpcCloseMemHandle(a));
    OK(cuIpcCloseMemHandle(b));
}
static void opened_twice(void) {
    struct link link = hire(open_two);
    start(0);
    CUdeviceptr a = allocate(), b = allocate();
    set(a, 1), set(b, 2);
    Handle handle = export(a);
    put_handle(link, handle);
    put_handle(link, export(b));
    join(link);
}

/* Two importers, of which each should open the memory of another exporter. */
static void offer(struct link parent) {
    unsigned value;
    get(parent, &value, sizeof value);
    start(0);
    CUdeviceptr p = allocate();
    set(p, value);
    put_handle(parent, export(p));
    wait_for(parent);
}
static void take(struct link parent) {
    unsigned value;
    get(parent, &value, sizeof value);
    start(0);
    CUdeviceptr opened = open_memory(get_handle(parent));
    EXPECT(word_at(opened) == value);
    OK(cuIpcCloseMemHandle(opened));
}
static void opened_by_two(void) {
    struct link owners[2], takers[2];
    Handle handles[2];
    for (unsigned i = 0; i < 2; i++) {
        owners[i] = hire(offer);
        put(owners[i], &i, sizeof i);
        handles[i] = get_handle(owners[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        takers[i] = hire(take);
        put(takers[i], &i, sizeof i);
        put_handle(takers[i], handles[bad ? 0 : i]);
    }
    for (unsigned i = 0; i < 2; i++) join(takers[i]);
    for (unsigned i = 0; i < 2; i++) tell(owners[i]), join(owners[i]);
}

/* One of three is forgotten. */
static void sum_up(struct link parent) {
    start(0);
    unsigned count, sum = 0;
    get(parent, &count, sizeof count);
    while (count--) {
        CUdeviceptr opened = open_memory(get_handle(parent));
        sum += word_at(opened);
        OK(cuIpcCloseMemHandle(opened));
    }
    EXPECT(sum == 6);
}
static void not_opened(void) {
    struct link link = hire(sum_up);
    start(0);
    Handle handles[3];
    for (unsigned i = 0; i < 3; i++) {
        CUdeviceptr p = allocate();
        set(p, i + 1);
        handles[i] = export(p);
    }
    unsigned count = bad ? 2 : 3;
    put(link, &count, sizeof count);
    for (unsigned i = 0; i < count; i++) put_handle(link, handles[i]);
    join(link);
}

/* The handles are sent the wrong way round. */
static void opened_in_other_order(void) {
    struct link link = hire(open_three);
    start(0);
    Handle handles[3];
    for (unsigned i = 0; i < 3; i++) {
        CUdeviceptr p = allocate();
        set(p, i);
        handles[i] = export(p);
    }
    for (unsigned i = 0; i < 3; i++) put_handle(link, handles[bad ? 2 - i : i]);
    join(link);
}

/* Of two mappings, one is used twice. */
static void pull_two(struct link parent) {
    start(1);
    CUdeviceptr a = open_memory(get_handle(parent)), b = open_memory(get_handle(parent)); /* unused */
    CUdeviceptr own[2] = {allocate(), allocate()};
    OK(cuMemcpyDtoDAsync_v2(own[0], a, MANY, NULL));
    OK(cuMemcpyDtoDAsync_v2(own[1], bad ? a : b, MANY, NULL));
    OK(cuCtxSynchronize());
    EXPECT(word_at(own[0]) == 1 && word_at(own[1]) == 2);
    OK(cuIpcCloseMemHandle(a));
    OK(cuIpcCloseMemHandle(b));
}
static void unused(void) {
    struct link link = hire(pull_two);
    start(0);
    CUdeviceptr a = allocate(), b = allocate();
    set(a, 1), set(b, 2);
    put_handle(link, export(a));
    put_handle(link, export(b));
    join(link);
}

/* One of three parts is too small. */
static void part(struct link parent) {
    size_t size;
    get(parent, &size, sizeof size);
    start(0);
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, size));
    put_handle(parent, export(p)); /* size-differs */
    wait_for(parent);
}
static void size_differs(void) {
    struct link links[3];
    CUdeviceptr opened[3];
    for (int i = 0; i < 3; i++) links[i] = hire(part);
    start(0);
    for (int i = 0; i < 3; i++) {
        size_t size = bad && i == 1 ? SIZE / 2 : SIZE, its = 0;
        put(links[i], &size, sizeof size);
        opened[i] = open_memory(get_handle(links[i]));
        OK(cuMemGetAddressRange_v2(NULL, &its, opened[i]));
        EXPECT(its == SIZE);
    }
    for (int i = 0; i < 3; i++) OK(cuIpcCloseMemHandle(opened[i])), tell(links[i]), join(links[i]);
}

/* One of three workers leaves a step out. */
static void step(struct link parent) {
    unsigned count, done = 0;
    get(parent, &count, sizeof count);
    start(0);
    Handle handle = get_handle(parent);
    for (; done < count; done++) OK(cuIpcCloseMemHandle(open_memory(handle)));
    EXPECT(done == 4);
}
static void count_differs(void) {
    struct link links[3];
    for (int i = 0; i < 3; i++) links[i] = hire(step);
    start(0);
    Handle handle = export(allocate());
    for (int i = 0; i < 3; i++) {
        unsigned count = bad && i == 2 ? 3 : 4;
        put(links[i], &count, sizeof count);
        put_handle(links[i], handle);
    }
    for (int i = 0; i < 3; i++) join(links[i]);
}

int main(int argc, char **argv) {
    static const struct scene scenes[] = {
        {"result-ignored", result_ignored},
        {"exporter-ended", exporter_ended},
        {"read-of-nobody", read_of_nobody},
        {"read-elsewhere", read_elsewhere},
        {"read-first", read_first},
        {"overwritten", overwritten},
        {"exported-again", exported_again},
        {"not-opened/twice", opened_twice},
        {"not-opened/two", opened_by_two},
        {"not-opened", not_opened},
        {"opened-in-other-order", opened_in_other_order},
        {"written-by-importer", written_by_importer},
        {"unused", unused},
        {"size-differs", size_differs},
        {"count-differs", count_differs},
    };
    CHECK(argc == 3);
    bad = strcmp(argv[2], "bad") == 0;
    alarm(300);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        if (strcmp(scenes[i].rule, argv[1]) != 0) continue;
        scenes[i].play();
        return failed || strcmp(argv[2], "fails") == 0;
    }
    give_up(2, __FILE__, __LINE__, "no such scene");
}
