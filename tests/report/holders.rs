//! Programs that find no device memory left: the holder that the finding names, and the rows, which add up to the device's memory.

use crate::support::{self, cupeer, temp_dir};
use serde_json::Value;
use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// Two devices of 1 GiB.
const MACHINE: &str = "links = \"nvlink\"\n[[device]]\nmemory = \"1GiB\"\n[[device]]\nmemory = \"1GiB\"\n";

/// Each scene, with the argument `bad` or `good`. Its exit status is 0 only if it gets all memory.
const SCENES: &str = r#"
#include "vmm.h"
#include <dlfcn.h>
#include <sys/resource.h>
#define MIB ((size_t)1 << 20)
typedef struct { int type, types; Location location; void *windows; size_t most; unsigned char rest[56]; } AllocProps;
int cuMemPoolCreate(void **, const AllocProps *), cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, void *, void *);
int cuMemRetainAllocationHandle(Allocation *, void *);
static int bad, pair[2];
static char byte = 'x';

static void tell(int end) { IS(write(pair[end], &byte, 1), 1); }
static void wait_for(int end) { IS(read(pair[end], &byte, 1), 1); }

static int want(size_t size) {
    CUdeviceptr at;
    return cuMemAlloc_v2(&at, size);
}

static int unreleased(void) {
    for (int i = 0; i < 20; i++) {
        Allocation h, again;
        if (create(&h, 0, 64 * MIB)) return 1;
        CUdeviceptr at = map(h, 64 * MIB, 0);
        if (!bad) IS(cuMemRelease(h), 0);
        IS(cuMemRetainAllocationHandle(&again, (void *)at), 0);
        IS(cuMemUnmap(at, 64 * MIB), 0);
        IS(cuMemAddressFree(at, 64 * MIB), 0);
        IS(cuMemRelease(again), 0);
    }
    return 0;
}

static int abandoned(void) {
    for (int i = 0; i < 12; i++) {
        Allocation h;
        int fd;
        IS(create(&h, 0, 64 * MIB), 0);
        CUdeviceptr at = map(h, 64 * MIB, 0);
        IS(cuMemExportToShareableHandle(&fd, h, 1, 0), 0);
        IS(close(fd), 0);
        if (bad) continue;
        IS(cuMemUnmap(at, 64 * MIB), 0);
        IS(cuMemAddressFree(at, 64 * MIB), 0);
        IS(cuMemRelease(h), 0);
    }
    return want(512 * MIB);
}

static void fill(void) {
    CUdeviceptr at;
    start(1);
    IS(cuMemAlloc_v2(&at, 900 * MIB), 0);
    tell(1);
    wait_for(1);
    _exit(0);
}

static int elsewhere(void) {
    CUdeviceptr own;
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    if (!fork()) fill();
    wait_for(0);
    start(0);
    IS(cuMemAlloc_v2(&own, 700 * MIB), 0);
    if (!bad) IS(cuMemFree_v2(own), 0);
    int result = want(700 * MIB);
    tell(0);
    wait(NULL);
    return result;
}

static void keep(void) {
    Handle handle;
    CUdeviceptr at;
    start(0);
    IS(read(pair[1], &handle, sizeof handle), sizeof handle);
    IS(cuIpcOpenMemHandle_v2(&at, handle, 1), 0);
    if (!bad) IS(cuIpcCloseMemHandle(at), 0);
    tell(1);
    wait_for(1);
    _exit(0);
}

static size_t wanted = 600 * MIB;
static int share(void) {
    Handle handle;
    CUdeviceptr at;
    IS(cuMemAlloc_v2(&at, 600 * MIB), 0);
    IS(cuIpcGetMemHandle(&handle, at), 0);
    IS(write(pair[0], &handle, sizeof handle), sizeof handle);
    wait_for(0);
    IS(cuMemFree_v2(at), 0);
    int result = want(wanted);
    tell(0);
    wait(NULL);
    return result;
}

static int kept(void) {
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    if (!fork()) keep();
    start(0);
    return share();
}

/* Half of it is never freed. */
static int in_part(void) {
    for (int i = 0; i < 40; i++) {
        CUdeviceptr at;
        if (cuMemAlloc_v2(&at, 100 * MIB)) return 1;
        if (!bad || i % 2) IS(cuMemFree_v2(at), 0);
    }
    return 0;
}

/* A trainer keeps what its tensors had: so does PyTorch's allocator. */
static void train(void) {
    CUdeviceptr at;
    void *library = dlopen(getenv("ALLOCATOR"), RTLD_NOW);
    IS(library != NULL, 1);
    int (*allocate)(CUdeviceptr *, size_t) = (int (*)(CUdeviceptr *, size_t))dlsym(library, "allocate");
    start(0);
    IS(allocate(&at, 600 * MIB), 0);
    if (!bad) IS(cuMemFree_v2(at), 0);
    tell(1);
    wait_for(1);
    _exit(0);
}

static int cached(void) {
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    if (!fork()) train();
    wait_for(0);
    start(0);
    int result = want(600 * MIB);
    tell(0);
    wait(NULL);
    return result;
}

/* What the importer keeps is less than what lacks. */
static int kept_in_part(void) {
    wanted = 900 * MIB;
    CUdeviceptr own;
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    if (!fork()) keep();
    start(0);
    IS(cuMemAlloc_v2(&own, 200 * MIB), 0);
    return share();
}

/* No memory of the device: it works in that of the host. */
static int without(void) { return want(2048 * MIB) != 2; }

static int large(void) { return want(bad ? 2048 * MIB : 512 * MIB); }

/* The simulated driver has no longer range of memory than a file may have: as where what is free is in pieces. */
static int fragmented(void) {
    struct rlimit most = {256 * MIB, 256 * MIB};
    if (bad) IS(setrlimit(RLIMIT_FSIZE, &most), 0);
    start(0);
    return want(400 * MIB);
}

static int limited(void) {
    AllocProps wanted = {.type = 1, .location = {1, 0}, .most = bad ? 64 * MIB : 0};
    void *pool;
    CUdeviceptr at;
    IS(cuMemPoolCreate(&pool, &wanted), 0);
    return cuMemAllocFromPoolAsync(&at, 128 * MIB, pool, NULL);
}

/* Not enough, until it has freed its own: as an allocator that empties its cache. */
static int retried(void) {
    CUdeviceptr cache;
    IS(cuMemAlloc_v2(&cache, 700 * MIB), 0);
    if (!want(700 * MIB)) return 1;
    IS(cuMemFree_v2(cache), 0);
    return want(700 * MIB);
}

/* Less and less, until it fits. */
static int probed(void) {
    size_t size = 3000 * MIB;
    while (want(size)) size /= 2;
    return 0;
}

int main(int argc, char **argv) {
    struct { const char *name; int (*run)(void); int starts; } scenes[] = {
        {"unreleased", unreleased, 1}, {"abandoned", abandoned, 1}, {"elsewhere", elsewhere, 0},
        {"in part", in_part, 1}, {"cached", cached, 0}, {"kept in part", kept_in_part, 0}, {"without", without, 1},
        {"kept", kept, 0}, {"large", large, 1}, {"fragmented", fragmented, 0}, {"limited", limited, 1},
        {"retried", retried, 1}, {"probed", probed, 1}};
    bad = !strcmp(argv[argc - 1], "bad");
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        if (strcmp(scenes[i].name, argv[1])) continue;
        if (scenes[i].starts) start(0);
        return scenes[i].run() != 0;
    }
    return 9;
}
"#;

/// A library that allocates.
const ALLOCATOR: &str = r#"
#include <stddef.h>
int cuMemAlloc_v2(unsigned long long *, size_t);
int allocate(unsigned long long *at, size_t size);
int allocate(unsigned long long *at, size_t size) {
    int result = cuMemAlloc_v2(at, size);
    return result;
}
"#;

/// A run of a scene: its summary, and its report.
struct Ran {
    summary: String,
    report: Value,
}

fn program() -> PathBuf {
    support::compile_linked("holders", SCENES)
}

fn run(scene: &str, how: &str) -> Ran {
    let folder = temp_dir();
    // Its name makes it PyTorch's.
    let (built, library) = (support::compile_text("allocator", ALLOCATOR, &["-shared", "-fPIC"]), "libc10_cuda.so");
    std::fs::copy(built, folder.path().join(library)).expect("a file");
    let (machine, record) = (folder.path().join("machine.toml"), folder.path().join("r"));
    std::fs::write(&machine, MACHINE).expect("a file");
    let mut run = cupeer();
    run.env("ALLOCATOR", folder.path().join(library))
        .args(["run", "-o"])
        .arg(&record)
        .arg(format!("--sim={}", machine.display()));
    let ran = run.arg("--").arg(program()).args([scene, how]).output().expect("it runs");
    let (out, summary) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(out.is_empty(), "{out}{summary}");
    let expected = i32::from(how == "bad");
    assert_eq!(ran.status.code(), Some(expected), "{scene} {how}: {summary}");
    let text = support::stdout(cupeer().arg("report").arg(&record).args(["--format", "json"]));
    Ran { summary: summary.into_owned(), report: serde_json::from_str(&text).expect("it is JSON") }
}

impl Ran {
    fn findings(&self) -> impl Iterator<Item = &Value> {
        self.report["findings"].as_array().expect("rows").iter()
    }

    /// Checks the only finding above note, and that the summary has it. Returns the rows at its call.
    #[track_caller]
    fn names(&self, rule: &str, confidence: &str, words: &[&str]) -> &Value {
        let above: Vec<&Value> = self.findings().filter(|finding| finding["severity"] != "note").collect();
        let only = above.first().unwrap_or_else(|| panic!("{}", self.summary));
        let message = only["message"].as_str().expect("a text");
        assert_eq!((&only["rule"], &only["confidence"]), (&rule.into(), &confidence.into()), "{message}");
        for word in words {
            assert!(message.contains(word), "{word} is not in: {message}");
        }
        let [first, found] = [message.split("; ").next().unwrap_or(message), "\ncupeer:   error "];
        assert!(self.summary.contains(first), "{}", self.summary);
        let shown = self.summary.split(found).nth(1).unwrap_or_default();
        assert!(shown.starts_with(&format!("{rule}: ")), "it is not the first: {}", self.summary);
        let hint = only["hint"].as_str().expect("a text");
        assert!(self.summary.contains(hint), "{hint}\n{}", self.summary);
        let memory = self.report["memory"].as_array().expect("rows");
        let [at_call] = &memory.iter().filter(|one| !one["at_ns"].is_null()).collect::<Vec<_>>()[..] else {
            panic!("{memory:#?}")
        };
        adds_up(at_call);
        at_call
    }

    /// Checks that nothing above a note is found.
    #[track_caller]
    fn is_quiet(&self) {
        let above: Vec<&Value> = self.findings().filter(|finding| finding["severity"] != "note").collect();
        assert!(above.is_empty(), "{above:#?}");
    }
}

/// Bytes of a number in JSON.
#[track_caller]
fn bytes(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// All rows, and what has none, are the memory of the device.
#[track_caller]
fn adds_up(memory: &Value) {
    let rows = memory["rows"].as_array().expect("rows").iter().map(|row| bytes(&row["bytes"])).sum::<u64>();
    let others = memory["other_processes"].as_array().expect("rows");
    let others = others.iter().map(|row| bytes(&row["bytes"])).sum::<u64>();
    let all = rows + others + bytes(&memory["unaccounted"]) + bytes(&memory["free"]);
    assert_eq!((all, bytes(&memory["total"])), (1024 * MIB, 1024 * MIB), "{memory:#}");
}

/// The state, the number of allocations, and the MiB of the first row.
fn first(memory: &Value) -> (&str, u64, u64) {
    let row = &memory["rows"][0];
    (row["state"].as_str().expect("a text"), bytes(&row["count"]), bytes(&row["bytes"]) / MIB)
}

#[test]
fn handles_that_were_never_released_are_named_with_their_place() {
    let ran = run("unreleased", "bad");
    let words =
        ["16 allocations (1 GiB) made at ", "in unreleased", "have no mapping, and their handles were not released"];
    let memory = ran.names("memory-exhausted", "certain", &words);
    assert_eq!(first(memory), ("unmapped", 16, 1024));
    run("unreleased", "good").is_quiet();
}

#[test]
fn exports_that_no_process_imported_are_named() {
    let ran = run("abandoned", "bad");
    let words = [
        "12 allocations (768 MiB) made at ",
        "were exported, and no process imported them",
        "256 MiB of 1 GiB were free",
    ];
    let memory = ran.names("memory-exhausted", "certain", &words);
    assert_eq!(first(memory), ("exported, never imported", 12, 768));
    assert_eq!(bytes(&memory["wanted"]), 512 * MIB);
    run("abandoned", "good").is_quiet();
}

#[test]
fn memory_of_another_device_is_not_blamed() {
    let ran = run("elsewhere", "bad");
    let memory = ran.names("memory-exhausted", "certain", &["1 allocation (700 MiB) made at ", "is still in use"]);
    assert_eq!(memory["rows"].as_array().expect("rows").len(), 1, "{memory:#}");
    assert_eq!(memory["rows"][0]["proc"], memory["proc"]);
    run("elsewhere", "good").is_quiet();
}

#[test]
fn an_importer_that_keeps_freed_memory_is_named() {
    let ran = run("kept", "bad");
    let memory =
        ran.names("memory-kept-by-importers", "certain", &[" still kept 600 MiB that this process had released"]);
    assert_eq!(first(memory), ("freed, kept by importers", 1, 600));
    assert_eq!(memory["rows"][0]["proc"], memory["proc"]);
    assert_ne!(memory["rows"][0]["holders"][0], memory["proc"]);
    run("kept", "good").is_quiet();
}

#[test]
fn memory_of_importers_is_not_a_cause_if_more_was_missing() {
    let ran = run("kept in part", "bad");
    let words =
        ["1 allocation (600 MiB) made at ", "was released, and importers keep it", "this process has 200 MiB in use"];
    ran.names("memory-exhausted", "inferred", &words);
}

#[test]
fn the_holder_says_how_much_of_what_its_place_made_is_alive() {
    let ran = run("in part", "bad");
    ran.names("memory-exhausted", "certain", &["10 of 19 allocations (1 GiB) made at ", "are still in use"]);
    run("in part", "good").is_quiet();
}

#[test]
fn memory_that_pytorch_caches_in_another_process_has_its_remedy() {
    let ran = run("cached", "bad");
    ran.names(
        "memory-exhausted",
        "certain",
        &[" holds 600 MiB in 1 allocation: 600 MiB made at ", "in train (through "],
    );
    assert!(ran.summary.contains("call torch.cuda.empty_cache() there before this call"), "{}", ran.summary);
    run("cached", "good").is_quiet();
}

#[test]
fn a_call_that_can_never_succeed_is_told_apart() {
    let ran = run("large", "bad");
    ran.names("memory-exhausted", "certain", &["the call asked for 2 GiB", "has 1 GiB in all"]);
    run("large", "good").is_quiet();
}

#[test]
fn free_memory_in_pieces_is_told_apart() {
    let ran = run("fragmented", "bad");
    ran.names(
        "memory-exhausted",
        "inferred",
        &["the call asked for 400 MiB", "is fragmented", "1 GiB of 1 GiB were free"],
    );
    run("fragmented", "good").is_quiet();
}

#[test]
fn a_pool_with_a_limit_is_told_apart() {
    let ran = run("limited", "bad");
    ran.names(
        "memory-exhausted",
        "certain",
        &["its pool has 0 bytes of at most 64 MiB in use, and the call asked for 128 MiB", "in limited"],
    );
    run("limited", "good").is_quiet();
}

#[test]
fn a_process_that_gets_memory_after_all_has_a_note() {
    for scene in ["retried", "probed", "without"] {
        let ran = run(scene, "good");
        ran.is_quiet();
        let notes = ran.findings().filter(|finding| finding["rule"] == "memory-exhausted").count();
        assert!(notes > 0, "{scene}: {}", ran.summary);
    }
}
