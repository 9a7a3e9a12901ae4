/* staged RULE bad|good: data that goes to another device through host memory. */
#include "rules.h"

enum { BYTES = 1 << 20 };
static unsigned buffer[BYTES / sizeof(unsigned)];

static CUdeviceptr allocated(void) {
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, BYTES));
    return p;
}

static void make(unsigned first) {
    for (unsigned i = 0; i < BYTES / sizeof *buffer; i++) buffer[i] = first + i;
}

static void load_into(CUdeviceptr p) { OK(cuMemcpyHtoD_v2(p, buffer, BYTES)); }
static void read_from(CUdeviceptr p) { OK(CALL(cuMemcpyDtoH_v2, (buffer, p, BYTES))); }

static void copy_directly(CUdeviceptr to, CUdeviceptr from) {
    OK(CALL(cuMemcpyDtoDAsync_v2, (to, from, BYTES, NULL)));
    OK(cuCtxSynchronize());
}

/* On another device: opens memory, works with it, and closes it. */
static void (*use)(struct link parent, CUdeviceptr opened, CUdeviceptr own);

static void import(struct link parent) {
    start(1);
    CUdeviceptr opened = open_memory(get_handle(parent)), own = allocated();
    use(parent, opened, own);
    tell(parent);
    OK(cuIpcCloseMemHandle(opened));
    OK(cuMemFree_v2(own));
}

/* Exports memory, and does its part of the work. */
static void play_with(void (*of_importer)(struct link, CUdeviceptr, CUdeviceptr),
                      void (*of_exporter)(struct link, CUdeviceptr)) {
    use = of_importer;
    struct link importer = employ(import);
    start(0);
    CUdeviceptr p = allocated();
    put_handle(importer, export(p));
    of_exporter(importer, p);
    wait_for(importer);
    ended(importer);
    OK(cuMemFree_v2(p));
}

/* The importer has data for the exporter. In the right job, it copies them, reads them back, and the exporter loads others. */
static void send(struct link parent, CUdeviceptr opened, CUdeviceptr own) {
    make(1);
    load_into(own);
    if (bad) read_from(own);
    else copy_directly(opened, own);
    if (!bad) read_from(opened);
    put(parent, buffer, BYTES);
}

static void receive(struct link importer, CUdeviceptr p) {
    get(importer, buffer, BYTES);
    if (!bad) make(2);
    load_into(p);
}

static void sent(void) { play_with(send, receive); }

/* The importer fetches data. In the right job, its device has what the host loads once more. */
static void fetch(struct link parent, CUdeviceptr opened, CUdeviceptr own) {
    wait_for(parent);
    make(1);
    if (!bad) load_into(own);
    read_from(opened);
    load_into(own);
}

static void offer(struct link importer, CUdeviceptr p) {
    make(1);
    load_into(p);
    tell(importer);
}

static void fetched(void) { play_with(fetch, offer); }

/* Data that repeat one word: in the wrong job, half of them are copied directly. */
static void send_ones(struct link parent, CUdeviceptr opened, CUdeviceptr own) {
    OK(cuMemsetD32_v2(own, 1, BYTES / 4));
    if (bad) OK(cuMemcpyDtoDAsync_v2(opened, own, BYTES, NULL));
    read_from(own);
    put(parent, buffer, BYTES);
}

static void receive_ones(struct link importer, CUdeviceptr p) {
    get(importer, buffer, BYTES);
    load_into(p);
}

static void of_ones(void) { play_with(send_ones, receive_ones); }

/* Opens memory, and gets its data through the host if that failed; in the wrong job, because the thread has no context. */
static void open_or_get(struct link parent) {
    CUdeviceptr p;
    start(0);
    CUcontext own = retain(0);
    Handle handle = get_handle(parent);
    if (bad) OK(cuCtxSetCurrent(NULL));
    CUresult result = CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    OK(cuCtxSetCurrent(own));
    put(parent, &result, sizeof result);
    if (result) get(parent, buffer, BYTES);
    else OK(cuIpcCloseMemHandle(p));
}

static void falls_back(void) {
    CUresult result;
    struct link importer = employ(open_or_get);
    start(0);
    CUdeviceptr p = allocated();
    make(3);
    load_into(p);
    put_handle(importer, export(p));
    get(importer, &result, sizeof result);
    if (result) {
        OK(cuMemcpyDtoH_v2(buffer, p, BYTES));
        put(importer, buffer, BYTES);
    }
    ended(importer);
    OK(cuMemFree_v2(p));
}

SCENES({"host-after-failed-open", falls_back}, {"copy-through-host", sent}, {"copy-through-host/fetched", fetched}, {"copy-through-host/ones", of_ones})
