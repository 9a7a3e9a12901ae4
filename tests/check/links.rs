//! Failed calls that no rule explains: the finding, the table, or the driver's words that do are named with them.

use crate::support::{compile_linked, cupeer, done, temp_dir, with};
use std::path::Path;

/// Returns the output of a program's run, in the order of its options, and its report.
fn said(name: &str, text: &str, arguments: &[&str]) -> String {
    let program = compile_linked(name, text);
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut command = cupeer();
    command.args(["run", "--sim=nvlink:2", "--check=notes", "-o"]).arg(&record).arg("--");
    let ended = done(command.arg(program).args(arguments));
    ended.stderr + &report(&record)
}

fn report(record: &Path) -> String {
    let shown = done(with(&["report"]).arg(record)).stdout;
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// No hint follows causes that there are not, and nothing is unknown of which something is known.
fn is_linked(said: &str) {
    assert!(!said.contains("no cause is known") && !said.contains("most likely cause"), "{said}");
}

const COPIES: &str = r#"#include "common.h"
static CUdeviceptr pool(int device, int all) {
    CUdeviceptr start;
    Allocation made;
    Properties properties = {.type = 1, .location = {1, device}};
    Access access[2] = {{{1, device}, 3}, {{1, !device}, 3}};
    IS(cuMemAddressReserve(&start, 4 << 20, 0, 0, 0), 0);
    IS(cuMemCreate(&made, 2 << 20, &properties, 0), 0);
    IS(cuMemMap(start, 2 << 20, 0, made, 0), 0);
    IS(cuMemRelease(made), 0);
    IS(cuMemSetAccess(start, 2 << 20, access, all ? 2 : 1), 0);
    return start;
}
int main(int count, char **args) {
    void *contexts[2];
    CUdeviceptr pools[2];
    int failed = 0;
    (void)args;
    IS(cuInit(0), 0);
    for (int i = 0; i < 2; i++) {
        IS(cuDevicePrimaryCtxRetain(&contexts[i], i), 0);
        IS(cuCtxSetCurrent(contexts[i]), 0);
        pools[i] = pool(i, count > 1);
    }
    for (int i = 0; i < 2; i++) {
        IS(cuCtxSetCurrent(contexts[i]), 0);
        IS(cuCtxEnablePeerAccess(contexts[!i], 0), 0);
        failed |= cuMemcpyDtoD_v2(pools[!i] + (1 << 20), pools[i], 1 << 20);
    }
    return failed;
}
"#;

/// A device copies to memory to which only the other one has access.
#[test]
fn a_copy_that_fails_for_want_of_access_names_the_finding_about_its_memory() {
    let wrong = said("copies", COPIES, &[]);
    is_linked(&wrong);
    let cause = "cuMemSetAccess gave access to another device only";
    let place = "access enabled: process ";
    let parts = ["error use-without-access: cuMemcpyDtoD_v2", cause, place, "warning vmm-access"];
    assert!(parts.iter().all(|part| wrong.contains(part)), "{wrong}");
    let right = said("copies", COPIES, &["all"]);
    assert!(!right.contains("vmm-access") && !right.contains("call-failed"), "{right}");
}

#[test]
fn a_failure_whose_cause_only_the_driver_gives_has_its_words() {
    let text = r#"#include "common.h"
typedef struct { int type, handles; Location location; void *security; size_t most; unsigned char rest[56]; } Pool;
int cuMemPoolCreate(void **, const Pool *), cuMemPoolSetAccess(void *, const Access *, size_t);
int main(void) {
    void *context, *pool;
    Pool properties = {.type = 1, .location = {1, 0}};
    Access access = {{1, 0}, 0};
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&context, 0), 0);
    IS(cuCtxSetCurrent(context), 0);
    IS(cuMemPoolCreate(&pool, &properties), 0);
    return cuMemPoolSetAccess(pool, &access, 1) == 0;
}
"#;
    let said = said("pool-access", text, &[]);
    is_linked(&said);
    assert!(said.contains("; the driver says: Modifying accessibility of memory pool"), "{said}");
}

#[test]
fn an_allocation_that_finds_the_device_full_names_who_has_its_memory() {
    let text = r#"#include "common.h"
int main(void) {
    Allocation made;
    void *context;
    Properties properties = {.type = 1, .location = {1, 0}};
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&context, 0), 0);
    IS(cuCtxSetCurrent(context), 0);
    IS(cuMemCreate(&made, 84ull << 30, &properties, 0), 0);
    return cuMemCreate(&made, 84ull << 30, &properties, 0) == 0;
}
"#;
    let said = said("full", text, &[]);
    let holder = "note memory-exhausted: cuMemCreate, once in process ";
    assert!(said.contains(holder) && said.contains("1 allocation (84 GiB) made at full-"), "{said}");
}

/// The second of two ranks has a context on the device that CUDA uses by default.
#[test]
fn a_rank_on_the_device_of_another_is_a_warning_if_the_job_fails() {
    let text = r#"#include "common.h"
int main(int count, char **args) {
    (void)args;
    for (int rank = 0; rank < 2; rank++) {
        if (fork()) continue;
        void *context;
        Handle handle;
        CUdeviceptr memory;
        setenv("RANK", rank ? "1" : "0", 1);
        IS(cuInit(0), 0);
        for (int device = 0; device <= rank; device++) {
            IS(cuDevicePrimaryCtxRetain(&context, device), 0);
            IS(cuCtxSetCurrent(context), 0);
        }
        IS(cuMemAlloc_v2(&memory, 1 << 21), 0);
        IS(cuIpcGetMemHandle(&handle, memory), 0);
        _exit(count > 1 && rank ? 3 : 0);
    }
    while (wait(0) > 0) {}
    return 0;
}
"#;
    for (arguments, severity) in [(&[][..], "note"), (&["fails"], "warning")] {
        let said = said("beside", text, arguments);
        assert!(said.contains(&format!("{severity} ranks-hold-another-device")), "{arguments:?}: {said}");
    }
}
