// Streams, events, and the driver's log.
#include "driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void streams(void) {
    start();
    CUstream stream = NULL;
    unsigned flags = 77;
    int priority = 77, capturing = 77;
    unsigned long long id = 0, other = 0;
    CASE("stream.nocurrent", cuStreamCreate(&stream, 0), 0);
    CASE("stream.query.nocurrent", cuStreamQuery(0), 0);
    cuCtxSetCurrent(c0);
    CASE("stream.null", cuStreamCreate(NULL, 0), 0);
    CASE("stream.flags2", cuStreamCreate(&stream, 2), 0);
    CASE("stream.create", cuStreamCreate(&stream, 1), 0);
    CASE("stream.flags", cuStreamGetFlags(stream, &flags), "\"v\":%u", flags);
    CASE("stream.flags.0", cuStreamGetFlags(0, &flags), "\"v\":%u", flags);
    CASE("stream.flags.1", cuStreamGetFlags((CUstream)1, &flags), "\"v\":%u", flags);
    CASE("stream.flags.2", cuStreamGetFlags((CUstream)2, &flags), "\"v\":%u", flags);
    CASE("stream.priority", cuStreamGetPriority(stream, &priority), "\"v\":%d", priority);
    CASE("stream.priority.0", cuStreamGetPriority(0, &priority), "\"v\":%d", priority);
    CASE("stream.id", cuStreamGetId(stream, &id), 0);
    note("{\"id\":%llu}", id);
    CASE("stream.id.0", cuStreamGetId(0, &id), 0);
    note("{\"id\":%llu}", id);
    CASE("stream.id.1", cuStreamGetId((CUstream)1, &other), "\"same\":%d", id == other);
    CASE("stream.id.2", cuStreamGetId((CUstream)2, &other), "\"same\":%d", id == other);
    note("{\"id\":%llu}", other);
    CASE("stream.query", cuStreamQuery(stream), 0);
    CASE("stream.query.0", cuStreamQuery(0), 0);
    CASE("stream.query.1", cuStreamQuery((CUstream)1), 0);
    CASE("stream.query.2", cuStreamQuery((CUstream)2), 0);
    CASE("stream.sync", cuStreamSynchronize(stream), 0);
    CASE("stream.capturing", cuStreamIsCapturing(stream, &capturing), "\"v\":%d", capturing);
    CASE("stream.capturing.0", cuStreamIsCapturing(0, &capturing), "\"v\":%d", capturing);
    CASE("stream.destroy", cuStreamDestroy_v2(stream), 0);
    CASE("stream.destroy.0", cuStreamDestroy_v2(0), 0);
    CASE("stream.destroy.1", cuStreamDestroy_v2((CUstream)1), 0);
    static const int some[] = {-99, -5, -6, 0, 3};
    for (unsigned i = 0; i < sizeof some / sizeof *some; i++) {
        char name[64];
        snprintf(name, sizeof name, "stream.priority.%d.create", some[i]);
        CUresult result = cuStreamCreateWithPriority(&stream, 0, some[i]);
        cuStreamGetPriority(stream, &priority);
        report(name, result, "\"v\":%d", priority);
    }
    CASE("stream.launch.null", cuLaunchHostFunc(stream, NULL, NULL), 0);
}

static void *destroyed_stream;
static void stream_destroyed(void) {
    start();
    cuCtxSetCurrent(c0);
    CUstream stream;
    cuStreamCreate(&stream, 0);
    cuStreamDestroy_v2(stream);
    destroyed_stream = stream;
    CASE("stream.destroyed.query", cuStreamQuery(stream), 0);
}
static void stream_bogus(void) {
    start();
    cuCtxSetCurrent(c0);
    CASE("stream.bogus.query", cuStreamQuery((CUstream)0x1234), 0);
}
static void event_bogus(void) {
    start();
    cuCtxSetCurrent(c0);
    CASE("event.bogus.query", cuEventQuery((CUevent)0x1234), 0);
}
static void event_destroyed(void) {
    start();
    cuCtxSetCurrent(c0);
    CUevent event;
    cuEventCreate(&event, 0);
    cuEventDestroy_v2(event);
    CASE("event.destroyed.query", cuEventQuery(event), 0);
}

static void events(void) {
    start();
    CUevent a = NULL, b = NULL, untimed = NULL, on1 = NULL;
    CUstream stream;
    float ms = -7;
    CASE("event.nocurrent", cuEventCreate(&a, 0), 0);
    cuCtxSetCurrent(c0);
    CASE("event.null", cuEventCreate(NULL, 0), 0);
    CASE("event.flags8", cuEventCreate(&a, 8), 0);
    CASE("event.flags7", cuEventCreate(&untimed, 7), 0);
    CASE("event.create", cuEventCreate(&a, 0), 0);
    cuEventCreate(&b, 1);
    cuEventCreate(&untimed, 2);
    cuStreamCreate(&stream, 1);
    CASE("event.query.unrecorded", cuEventQuery(a), 0);
    CASE("event.sync.unrecorded", cuEventSynchronize(a), 0);
    CASE("event.wait.unrecorded", cuStreamWaitEvent(stream, a, 0), 0);
    CASE("event.elapsed.unrecorded", cuEventElapsedTime(&ms, a, b), 0);
    CASE("event.record", cuEventRecord(a, stream), 0);
    cuStreamSynchronize(stream);
    CASE("event.elapsed.half", cuEventElapsedTime(&ms, a, b), 0);
    cuEventRecord(b, stream);
    cuEventRecord(untimed, stream);
    cuStreamSynchronize(stream);
    CASE("event.elapsed", cuEventElapsedTime(&ms, a, b), "\"positive\":%d", ms >= 0);
    CASE("event.elapsed.reverse", cuEventElapsedTime(&ms, b, a), "\"negative\":%d", ms <= 0);
    CASE("event.elapsed.same", cuEventElapsedTime(&ms, a, a), "\"v\":%g", ms);
    CASE("event.elapsed.untimed", cuEventElapsedTime(&ms, a, untimed), 0);
    CASE("event.elapsed.null", cuEventElapsedTime(NULL, a, b), 0);
    CASE("event.query", cuEventQuery(a), 0);
    CASE("event.query.null", cuEventQuery(NULL), 0);
    CASE("event.record.null", cuEventRecord(NULL, 0), 0);
    CASE("event.destroy.null", cuEventDestroy_v2(NULL), 0);
    CASE("event.wait.flags", cuStreamWaitEvent(stream, a, 9), 0);
    if (devices > 1) {
        cuCtxSetCurrent(c1);
        cuEventCreate(&on1, 0);
        CASE("event.record.otherstream", cuEventRecord(on1, stream), 0);
        CASE("event.record.othercurrent", cuEventRecord(a, 0), 0);
        CASE("event.record.othercurrent.ownstream", cuEventRecord(a, stream), 0);
        CASE("event.wait.otherdevice", cuStreamWaitEvent(0, a, 0), 0);
        CASE("event.query.othercurrent", cuEventQuery(a), 0);
        cuCtxSetCurrent(c0);
    }
    cuCtxSetCurrent(NULL);
    CASE("event.query.nocurrent", cuEventQuery(a), 0);
    CASE("event.destroy.nocurrent", cuEventDestroy_v2(a), 0);
}

static int calls;
static void count_call(void *data, int level, char *text, size_t length) {
    (void)data, (void)level;
    calls += strlen(text) == length ? 1 : 100;
    // The first line in full, for people: its beginning is not compared.
    if (calls == 1 || calls == 100) note("{\"log\":\"%.200s\"}", text);
}

static void logs(void) {
    start();
    void *a = NULL, *b = NULL;
    unsigned at = 77, begin;
    char buffer[25600];
    CASE("log.register", cuLogsRegisterCallback(count_call, NULL, &a), "\"null\":%d", !a);
    CASE("log.register.again", cuLogsRegisterCallback(count_call, NULL, &b), "\"same\":%d", a == b);
    CASE("log.register.null", cuLogsRegisterCallback(NULL, NULL, &b), 0);
    CASE("log.current", cuLogsCurrent(&begin, 0), 0);
    CASE("log.current.null", cuLogsCurrent(NULL, 0), 0);
    CASE("log.current.flags", cuLogsCurrent(&at, 1), 0);
    calls = 0;
    cuDeviceGetP2PAttribute(&(int){0}, 2, 0, 0);
    CASE("log.calls", 0, "\"v\":%d", calls);
    size_t size = sizeof buffer;
    at = begin;
    CASE("log.dump", cuLogsDumpToMemory(&at, buffer, &size, 0), "\"size\":%d,\"moved\":%d", size == strlen(buffer),
         at != begin);
    note("{\"size\":%zu,\"dump\":\"%.*s\"}", size, (int)strcspn(buffer, "\n"), buffer);
    size = sizeof buffer;
    CASE("log.dump.nothing", cuLogsDumpToMemory(&at, buffer, &size, 0), "\"size\":%zu", size);
    size = 10;
    CASE("log.dump.short", cuLogsDumpToMemory(NULL, buffer, &size, 0), "\"size\":%zu,\"strlen\":%zu", size,
         strnlen(buffer, sizeof buffer));
    size = 0;
    CASE("log.dump.0", cuLogsDumpToMemory(NULL, buffer, &size, 0), "\"size\":%zu", size);
    CASE("log.dump.null", cuLogsDumpToMemory(NULL, NULL, &size, 0), 0);
    CASE("log.unregister", cuLogsUnregisterCallback(a), 0);
    calls = 0;
    cuDeviceGetP2PAttribute(&(int){0}, 2, 0, 0);
    CASE("log.calls.after", 0, "\"v\":%d", calls);
}
static void log_twice(void) {
    void *a = NULL;
    cuLogsRegisterCallback(count_call, NULL, &a);
    cuLogsUnregisterCallback(a);
    CASE("log.unregister.twice", cuLogsUnregisterCallback(a), 0);
}
static void log_file(void) {
    char path[] = "/tmp/conformance-XXXXXX", line[512] = "";
    close(mkstemp(path));
    setenv("CUDA_LOG_FILE", path, 1);
    start();
    cuDeviceGetP2PAttribute(&(int){0}, 2, 0, 0);
    FILE *file = fopen(path, "r");
    const char *got = file ? fgets(line, sizeof line, file) : NULL;
    line[strcspn(line, "\n")] = 0;
    unlink(path);
    CASE("log.file", 0, "\"written\":%d,\"message\":\"%s\"", got != NULL, got && strrchr(line, ']') ? strrchr(line, ']') + 2 : "");
    note("{\"file\":\"%s\"}", line);
}

void work_groups(void) {
    in_child("streams", streams);
    in_child("stream.destroyed", stream_destroyed);
    in_child("stream.bogus", stream_bogus);
    in_child("events", events);
    in_child("event.bogus", event_bogus);
    in_child("event.destroyed", event_destroyed);
    in_child("logs", logs);
    in_child("log.twice", log_twice);
    in_child("log.filegroup", log_file);
}
