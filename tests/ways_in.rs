//! Every way in which a program can reach the driver's functions is caught, changes nothing, and is seen
//! once; and what cannot be caught is named.
//!
//! Each test runs a program of `tests/programs` without cupeer, with it, and with its log, and compares
//! output, end, and what the fake driver saw with what was logged: see [`Scene::compare`].

mod counted;

use crate::programs::{
    Cupeer, EITHER, ESCAPES, Outcome, Scene, driver, library, linked, linked_library, old_driver, patchable_driver,
    program, second_driver,
};
use crate::support;
use cupeer_spec::env;
use cupeer_spec::function::{FUNCTIONS, FnSpec, Group, Library, alterable_functions};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns true if a function of the driver has a row in table.h: it is not a look-up, and has an argument for a mark.
fn is_plain(f: &&FnSpec) -> bool {
    f.library == Library::Cuda && !f.is_in(Group::Lookup) && !f.args().is_empty()
}

/// Number of functions that a program calls in one go.
fn plain_functions() -> usize {
    FUNCTIONS.iter().filter(is_plain).count()
}

/// Returns the output of `patched.c`: it calls each function linked and through a handle, and those that a look-up by name finds
/// there as well.
fn all_patched() -> String {
    let has_newer = |f: &FnSpec| FUNCTIONS.iter().any(|newer| newer.name() == format!("{}_v2", f.name()));
    let is_named = |f: &&FnSpec| is_plain(f) && f.name() == f.lookup();
    let found = FUNCTIONS.iter().filter(is_named).filter(|f| !has_newer(f)).count();
    let called = 2 * plain_functions() + found;
    format!("patched: {called} called, {called} hooked")
}

fn plain_host(base: u64, libraries: &[(&str, &Path)]) -> Scene {
    libraries.iter().fold(Scene::new(program("host.c", &[])).arg(base.to_string()), |scene, (mode, path)| {
        scene.arg(*mode).arg(*path)
    })
}

#[test]
fn the_c_programs_know_the_whole_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let header = ["table.h", "nvml_table.h", "uses_table.h", "graphs_table.h", "order_table.h"]
        .map(|name| fs::read_to_string(folder.join(name)).unwrap())
        .concat();
    let rows = header.lines().filter_map(|l| l.trim_start().strip_prefix("X(")).filter(|l| !l.starts_with("name"));
    let known: BTreeSet<&str> = rows.map(|l| l.split(',').next().unwrap()).collect();
    let table: BTreeSet<&str> = alterable_functions().filter(|f| !f.args().is_empty()).map(|f| f.name()).collect();
    assert_eq!(known, table, "tests/programs/table.h (left) differs from src/spec/functions.rs");
}

// Linked to the driver.

#[test]
fn linked_lazily() {
    Scene::new(linked("linked.c", &["-Wl,-z,lazy"])).compare();
}

#[test]
fn linked_at_once() {
    Scene::new(linked("linked.c", &["-Wl,-z,now"])).compare();
}

#[test]
fn linked_with_addresses_in_the_program() {
    Scene::new(linked("linked.c", &["-no-pie", "-fno-pie"])).compare();
}

#[test]
fn linked_without_plt() {
    Scene::new(linked("linked.c", &["-fno-plt"])).compare();
}

// Opened by the program.

#[test]
fn opened_by_each_name_and_scope() {
    for name in ["libcuda.so.1", "libcuda.so", driver().join("libcuda.so.1").to_str().unwrap()] {
        for scope in ["local", "global"] {
            Scene::new(program("opened.c", &[])).args(&[name, scope]).compare();
        }
    }
}

#[test]
fn found_without_a_handle_where_the_driver_is_linked() {
    Scene::new(linked("default.c", &[])).compare();
}

#[test]
fn not_found_without_a_handle_where_there_is_no_driver() {
    let outcome = Scene::new(program("default.c", &[])).compare();
    assert!(outcome.driver.is_empty() && !outcome.log_exists);
}

#[test]
fn found_without_a_handle_where_the_driver_was_opened_for_all() {
    let keeper = driver().join("libcuda.so.1");
    let asks = library("plugin.c", &["-DBY_DEFAULT"]);
    plain_host(100, &[("keep", &keeper), ("local", &asks), ("global", &asks)]).compare();
}

#[test]
fn closed_and_opened_again() {
    Scene::new(program("closed.c", &[])).compare();
    let other = old_driver().join("libcuda.so.1");
    escapes(Scene::new(program("closed.c", &[])).arg(&other), &other, "second driver");
}

// Libraries that patch functions in place.

#[test]
fn patched_in_place() {
    // As compiled, hooks call on, or jump on to what does.
    for patcher in ["-O1", "-O2"].map(|how| library("patcher.c", &[how])) {
        for at in ["linked", "handle"] {
            for (jump, when) in [("near", "before"), ("near", "after"), ("far", "before"), ("far", "after")] {
                let scene = Scene::new(linked("patched.c", &[])).args(&[at, jump, when]).arg(&patcher);
                let outcome = scene.libraries(patchable_driver()).compare();
                let hooked = outcome.stdout.lines().find(|line| line.starts_with("patched: "));
                let numbers: Vec<&str> = hooked.unwrap().split(' ').collect();
                assert!(numbers[1] == numbers[3] && numbers[1] != "0", "{}", outcome.stdout);
                called_by_the_program(&outcome);
            }
        }
    }
}

/// A patched call comes from the program, not from the hook.
fn called_by_the_program(outcome: &Outcome) {
    let callers = outcome.log.lines.iter().filter_map(|line| line["caller"].as_str());
    let hooks: Vec<&str> = callers.filter(|caller| !caller.contains("patched-")).collect();
    assert!(hooks.is_empty(), "{hooks:?}");
}

#[test]
fn patched_at_both_addresses() {
    let [first, second] = ["-O1", "-O2"].map(|how| library("patcher.c", &[how]));
    let scene = Scene::new(linked("patched.c", &[])).args(&["linked", "near", "after"]).arg(first).arg(second);
    let outcome = scene.libraries(patchable_driver()).run(Cupeer::Logging);
    assert!(outcome.status.success(), "{outcome:#?}");
    assert!(outcome.stdout.contains(&all_patched()), "{}", outcome.stdout);
    outcome.assert_log_complete();
    called_by_the_program(&outcome);
}

// A second tool that wraps the same functions.

fn stacked(scene: impl Fn() -> Scene, wrapper: &Path, passes_wrapper: bool) {
    // The oracle without cupeer has the wrapper's lines too, so that being passed over would be seen.
    for outcome in [scene().preload_before(wrapper.into()).compare(), scene().preload_after(wrapper.into()).compare()] {
        assert_eq!(outcome.driver.iter().any(|c| c.seen_by == "wrapper"), passes_wrapper);
    }
}

#[test]
fn stacked_with_a_wrapper_that_asks_for_the_next() {
    let wrapper = library("wrapper.c", &[]);
    stacked(|| Scene::new(linked("threads.c", &[])), &wrapper, true);
    stacked(|| Scene::new(linked("linked.c", &[])), &wrapper, true);
    stacked(|| Scene::new(program("threads.c", &[])), &wrapper, false);
}

#[test]
fn stacked_with_a_wrapper_that_asks_the_driver() {
    let wrapper = library("wrapper.c", &["-DBY_HANDLE"]);
    stacked(|| Scene::new(linked("threads.c", &[])), &wrapper, true);
    stacked(|| Scene::new(linked("forks.c", &[])), &wrapper, true);
    stacked(|| Scene::new(program("threads.c", &[])), &wrapper, false);
}

#[test]
fn stacked_with_a_wrapper_in_a_program_that_finds_it_without_a_handle() {
    let asks = library("plugin.c", &["-DBY_DEFAULT"]);
    for wrapper in [library("wrapper.c", &[]), library("wrapper.c", &["-DBY_HANDLE"])] {
        let keeper = driver().join("libcuda.so.1");
        stacked(|| plain_host(100, &[("keep", &keeper), ("local", &asks)]), &wrapper, true);
    }
}

#[test]
fn stacked_with_a_tool_that_wraps_dlsym_too() {
    let tool = library("wrapper.c", &["-DWRAP_DLSYM"]);
    stacked(|| Scene::new(program("threads.c", &[])), &tool, true);
}

/// The tool asks libc for dlsym by its version, and has a table of its own.
#[test]
fn stacked_with_a_tool_that_replaces_dlsym() {
    let tool = library("wrapper.c", &["-DREPLACE_DLSYM"]);
    stacked(|| Scene::new(program("opened.c", &[])).args(&["libcuda.so.1", "local"]), &tool, true);
    for source in ["linked.c", "default.c", "forks.c"] {
        stacked(|| Scene::new(linked(source, &[])), &tool, true);
    }
    let outcome = Scene::new(linked("linked.c", &[])).preload_after(tool).run(Cupeer::Logging);
    assert!(outcome.log.escaped.is_empty(), "{:?}", outcome.log.escaped);
}

/// Two tools, of which the one that we call has the other's function for the driver's, which comes to us again.
#[test]
fn a_call_that_comes_back_through_two_tools_is_seen_once() {
    let by_handle = library("wrapper.c", &["-DBY_HANDLE"]);
    let replaces = library("wrapper.c", &["-DREPLACE_DLSYM", "-DSECRET"]);
    let scene = || Scene::new(linked("threads.c", &[])).preload_after(by_handle.clone());
    scene().preload_before(replaces).compare();
    scene().preload_before(library("wrapper.c", &[])).compare();
    let asks_next = Scene::new(linked("threads.c", &[])).preload_after(library("wrapper.c", &[]));
    asks_next.preload_after(by_handle.clone()).compare();
}

/// Functions that such a tool behind cupeer does not export cannot be reached through cupeer.
#[test]
fn a_tool_that_replaces_dlsym_by_what_it_keeps_for_itself_is_named() {
    let tool = library("wrapper.c", &["-DREPLACE_DLSYM", "-DSECRET"]);
    let scene = || Scene::new(program("opened.c", &[])).args(&["libcuda.so.1", "local"]);
    scene().preload_before(tool.clone()).compare();
    let scene = scene().preload_after(tool.clone());
    let outcome = scene.run(Cupeer::Logging);
    outcome.assert_same(&scene.run(Cupeer::Absent), "behind us");
    assert!(outcome.log.names_escape(&tool, "dlsym replaced"), "{:?}", outcome.log.escaped);
}

/// A driver in front of us has the linked calls. Whatever is looked up comes to us.
#[test]
fn a_driver_that_lies_before_us() {
    let real = driver().join("libcuda.so.1");
    for program in [program("default.c", &[]), program("opened.c", &[])] {
        let scene = Scene::new(program).preload_before(real.clone());
        scene.args(&["libcuda.so.1", "local"]).compare();
    }
    let by_default = library("plugin.c", &["-DBY_DEFAULT"]);
    plain_host(100, &[("local", &by_default)]).preload_before(real.clone()).compare();
    let linked = linked("default.c", &[]);
    let scene = Scene::new(linked.clone()).preload_before(real);
    let outcome = scene.run(Cupeer::Logging);
    outcome.assert_same(&scene.run(Cupeer::Absent), "a driver before us");
    assert!(outcome.log.names_escape(&linked, "driver before cupeer"), "{:?}", outcome.log.escaped);
    assert_eq!(outcome.log.calls.len() + 1, outcome.driver.len(), "all but the linked call");
}

// Libraries of a program.

#[test]
fn called_by_a_library() {
    let plugin = linked_library("plugin.c", &[]);
    let outcome = plain_host(100, &[("local", &plugin), ("global", &plugin)]).compare();
    assert_eq!(outcome.log.calls.len(), 2 * plain_functions());
    let callers: BTreeSet<&str> = outcome.log.lines.iter().filter_map(|l| l["caller"].as_str()).collect();
    for caller in callers {
        assert!(caller.starts_with(&format!("{}+0x", plugin.display())), "{caller}");
    }
}

#[test]
fn called_by_a_library_that_binds_lazily() {
    let plugin = linked_library("plugin.c", &["-Wl,-z,lazy"]);
    plain_host(100, &[("local", &plugin)]).compare();
}

#[test]
fn functions_of_a_librarys_own_are_reached() {
    let own = library("plugin.c", &["-DOWN"]);
    for modes in [&["local"][..], &["global"], &["local", "global"]] {
        let libraries: Vec<_> = modes.iter().map(|mode| (*mode, own.as_path())).collect();
        let outcome = plain_host(EITHER, &libraries).compare();
        assert!(outcome.stdout.contains(&format!("own functions called: {}", plain_functions())));
        assert!(outcome.driver.is_empty());
    }
    // Beside a driver, opened before and after.
    let real = driver().join("libcuda.so.1");
    plain_host(EITHER, &[("keep", &real), ("local", &own)]).compare();
    plain_host(EITHER, &[("local", &own), ("keep", &real), ("local", &own)]).compare();
    let plugin = linked_library("plugin.c", &[]);
    plain_host(EITHER, &[("local", &own), ("local", &plugin), ("local", &own)]).compare();
}

/// One library takes the place of another in memory, with other functions.
#[test]
fn functions_of_libraries_that_come_and_go_are_reached() {
    let own = library("plugin.c", &["-DOWN"]);
    let another = library("plugin.c", &["-DOWN", "-DANOTHER"]);
    let plugin = linked_library("plugin.c", &[]);
    let weak = library("plugin.c", &["-DWEAK"]);
    let real = driver().join("libcuda.so.1");
    plain_host(EITHER, &[("once", &own), ("once", &another), ("once", &own), ("once", &another)]).compare();
    plain_host(EITHER, &[("once", &own), ("once", &plugin), ("once", &another), ("once", &plugin)]).compare();
    plain_host(EITHER, &[("once", &plugin), ("once", &another), ("keep", &real), ("once", &weak)]).compare();
}

#[test]
fn functions_of_libraries_that_many_threads_open_and_close_are_reached() {
    let own = library("plugin.c", &["-DOWN"]);
    let another = library("plugin.c", &["-DOWN", "-DANOTHER"]);
    let plugin = linked_library("plugin.c", &[]);
    Scene::new(program("churn.c", &[])).args(&["1000"]).arg(&plugin).arg(&plugin).compare();
    let scene = Scene::new(program("churn.c", &[])).env("QUIET", "1");
    scene.arg(EITHER.to_string()).arg(&own).arg(&plugin).arg(&another).compare();
}

#[test]
fn functions_of_a_linked_librarys_own_are_reached() {
    let own = library("plugin.c", &["-DOWN", "-DEARLY=60500", "-DLATE=60600"]);
    plain_host_linking(&own).compare();
}

/// host.c with a library linked, which opens a harmless one.
fn plain_host_linking(linked: &Path) -> Scene {
    let flags = ["-Wl,--no-as-needed,--allow-shlib-undefined", linked.to_str().unwrap()];
    let host = program("host.c", &flags);
    Scene::new(host).arg("100").arg("keep").arg(library("plugin.c", &["-DBY_DEFAULT"]))
}

#[test]
fn weak_references() {
    let weak = library("plugin.c", &["-DWEAK"]);
    plain_host(100, &[("keep", &driver().join("libcuda.so.1")), ("local", &weak)]).compare();
    let weak_linked = linked_library("plugin.c", &["-DWEAK"]);
    plain_host(100, &[("local", &weak_linked)]).compare();
}

/// A weak reference without a driver finds our export, which the ELF rules leave no way around. It answers
/// as a driver that is not there, and nothing crashes.
#[test]
fn weak_references_without_a_driver() {
    let weak = library("plugin.c", &["-DWEAK"]);
    let scene = plain_host(100, &[("local", &weak)]).no_driver();
    assert!(scene.run(Cupeer::Absent).stdout.contains("local: 0"));
    for mode in [Cupeer::Off, Cupeer::Logging] {
        let outcome = scene.run(mode);
        assert!(outcome.status.success(), "{outcome:#?}");
        assert!(outcome.stdout.contains("local: 0"), "{outcome:#?}");
    }
}

#[test]
fn pointer_variables_named_like_functions() {
    let pointers = library("plugin.c", &["-DPOINTERS"]);
    for mode in ["local", "global"] {
        let outcome = plain_host(EITHER, &[(mode, &pointers)]).compare();
        assert_eq!(outcome.driver.len(), plain_functions());
        assert!(outcome.log.names_escape(&pointers, "data symbol"), "{:?}", outcome.log.escaped);
    }
    let host = program("host.c", &["-Wl,--no-as-needed", pointers.to_str().unwrap()]);
    let outcome = Scene::new(host).arg(EITHER.to_string()).arg("local").arg(&pointers).compare();
    assert_eq!(outcome.driver.len(), plain_functions());
    assert!(outcome.log.names_escape(&pointers, "data symbol"), "{:?}", outcome.log.escaped);
}

#[test]
fn pointer_variables_in_the_program_itself() {
    // -rdynamic makes them symbols that libraries see.
    for flags in [&["-DPOINTERS", "-DMAIN"][..], &["-DPOINTERS", "-DMAIN", "-rdynamic"]] {
        let outcome = Scene::new(program("plugin.c", flags)).compare();
        assert_eq!(outcome.driver.len(), plain_functions());
    }
}

// Look-ups.

#[test]
fn looked_up_in_every_form() {
    for way in ["handle4", "handle5", "self4", "self5"] {
        let outcome = Scene::new(program("lookup.c", &[])).arg(way).compare();
        for function in FUNCTIONS.iter().filter(is_plain) {
            let is_reached = outcome.log.calls.iter().any(|c| c.function == function.name());
            assert!(is_reached, "{way}: {} is not handed out, or not seen", function.name());
        }
    }
    for way in ["linked4", "linked5", "handle5"] {
        Scene::new(linked("lookup.c", &[])).arg(way).compare();
    }
}

#[test]
fn look_ups_ends_and_questions_are_not_logged_unless_asked_for() {
    let looks_up = |name: &str| name.starts_with("cuGetProcAddress");
    let shares = |name: &str| name.starts_with("cuIpc");
    let ends = |name: &str| {
        let words = ["Free", "Destroy", "Detach", "Release", "Reset", "Unmap"];
        !name.starts_with("cuGraph") && !name.starts_with("cuStream") && words.iter().any(|word| name.contains(word))
    };
    let is_virtual = |name: &str| FUNCTIONS.iter().any(|f| f.name() == name && f.is_virtual_memory_call());
    let asks = |name: &str| FUNCTIONS.iter().any(|f| f.name() == name && f.is_in(Group::Query));
    let allocates = |name: &str| FUNCTIONS.iter().any(|f| f.name() == name && f.is_in(Group::Alloc));
    let works = |name: &str| {
        ["cuMemcpy", "cuMemset", "cuMemPrefetch", "cuLaunch", "cuGraph", "cuEvent", "cuStream", "cuCtxSync"]
            .iter()
            .any(|word| name.starts_with(word))
    };
    let is_wanted = |set: &str, name: &str| match set {
        // An empty variable is as good as none.
        "" if is_virtual(name) => name.contains("Shareable"),
        "" if allocates(name) => false,
        "" => !looks_up(name) && !ends(name) && !asks(name) && !works(name) && name != "cuInit",
        "@alloc" => allocates(name),
        "@query" => asks(name),
        "@ipc" => shares(name),
        "@lifetime" => ends(name),
        _ => !looks_up(name),
    };
    for set in ["", "@ipc", "@lifetime", "@query", "@alloc", "^@lookup", "^@lookup,^@lifetime,@lifetime"] {
        let scene = Scene::new(program("lookup.c", &[])).arg("handle5").env(env::TRACE, set);
        let outcome = scene.run(Cupeer::Logging);
        let names = |calls: &[crate::programs::Call]| {
            let mut names: Vec<String> = calls.iter().map(|c| c.function.clone()).collect();
            names.sort();
            names
        };
        let mut wanted = names(&outcome.driver);
        wanted.retain(|name| is_wanted(set, name));
        assert!(!wanted.is_empty() && wanted.len() < outcome.driver.len());
        assert_eq!(names(&outcome.log.calls), wanted, "{set:?}");
    }
}

#[test]
fn an_older_driver_lacks_names() {
    for scope in ["local", "global"] {
        let outcome =
            Scene::new(program("opened.c", &[])).libraries(old_driver()).args(&["libcuda.so.1", scope]).compare();
        assert!(outcome.stdout.contains("cuDeviceGetP2PAtomicCapabilities: not found"));
    }
    Scene::new(program("lookup.c", &[])).libraries(old_driver()).arg("handle4").compare();
    let others = library("others_library.c", &[]);
    Scene::new(program("others.c", &[])).libraries(old_driver()).arg(&others).compare();
    Scene::new(linked("default.c", &[])).libraries(old_driver()).compare();
}

#[test]
fn names_that_only_look_like_the_drivers() {
    let others = library("others_library.c", &[]);
    Scene::new(program("others.c", &[])).arg(&others).compare();
    Scene::new(linked("others.c", &[])).arg(&others).compare();
}

// When.

#[test]
fn before_main_and_after_it() {
    for program in [linked("late.c", &[]), program("late.c", &[])] {
        Scene::new(program).compare();
    }
}

#[test]
fn in_constructors_and_destructors_of_libraries() {
    let odd = linked_library("plugin.c", &["-DEARLY=1000", "-DLATE=2000"]);
    let plugin = library("plugin.c", &["-DBY_DEFAULT"]);
    // A preloaded library's constructor runs before ours or after it, as it stands; so do destructors.
    let scene = || Scene::new(linked("threads.c", &[]));
    scene().preload_before(odd.clone()).compare();
    scene().preload_after(odd.clone()).compare();
    plain_host(100, &[("keep", &plugin)]).preload_before(odd.clone()).compare();
    plain_host(100, &[("keep", &plugin)]).preload_after(odd.clone()).compare();
    // A linked library's constructor runs before ours, its destructor after ours.
    plain_host_linking(&odd).compare();
    // An opened library's run in the middle.
    let outcome = plain_host(3000, &[("local", &odd)]).compare();
    assert_eq!(outcome.log.calls.len(), 3 * plain_functions());
}

#[test]
fn in_children() {
    for program in [linked("forks.c", &[]), program("forks.c", &[])] {
        Scene::new(program).compare();
    }
}

#[test]
fn from_many_threads_at_once() {
    for program in [linked("threads.c", &[]), program("threads.c", &[])] {
        for _ in 0..5 {
            let outcome = Scene::new(program.clone()).compare();
            assert_eq!(outcome.log.calls.len(), 16 * 200);
        }
    }
}

fn interrupted(how: &str) {
    for build in [linked, program] {
        Scene::new(build("interrupted.c", &[])).arg(how).compare();
    }
}

#[test]
fn left_by_the_end_of_the_thread() {
    interrupted("cancel");
    interrupted("exit");
}

#[test]
fn left_by_a_jump() {
    interrupted("jump");
}

#[test]
fn left_by_an_exception() {
    Scene::new(linked("exception.cpp", &["-lstdc++"])).compare();
}

#[test]
fn within_another_call() {
    interrupted("signal");
    interrupted("nested");
}

#[test]
fn in_signal_handlers() {
    let scene = Scene::new(linked("signals.c", &[]));
    for mode in [Cupeer::Absent, Cupeer::Off, Cupeer::Logging] {
        let outcome = scene.run(mode);
        assert!(outcome.status.success() && outcome.stdout == "done\n", "{:?} {}", outcome.status, outcome.stdout);
        assert!(outcome.stderr.is_empty(), "{}", outcome.stderr);
        if mode == Cupeer::Logging {
            outcome.assert_log_complete();
        }
    }
}

/// Wherever the handler comes in between, a call is not said to come from where the handler called.
#[test]
fn behind_each_instruction_of_a_call() {
    if !cfg!(target_arch = "x86_64") {
        left_out!("a trap behind each instruction");
        return;
    }
    let outcome = Scene::new(linked("stepped.c", &["-mno-red-zone"])).run(Cupeer::Logging);
    assert!(outcome.status.success() && outcome.stdout == "done\n", "{outcome:#?}");
    outcome.assert_log_complete();
    let callers = |function: &str| {
        let lines = outcome.log.lines.iter().filter(|line| line["function"] == function);
        // A handler hides the caller of some.
        let callers = lines.filter_map(|line| line["caller"].as_str().filter(|caller| caller.contains("stepped")));
        callers.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let (outer, inner) = (callers("cuCtxEnablePeerAccess"), callers("cuCtxDisablePeerAccess"));
    assert!(outer.len() == 1 && inner.len() == 1 && outer != inner, "{outer:?} {inner:?}");
}

/// The smallest stack that libc promises is enough in every mode. An alternate stack of 8 KiB is enough for a recording, and one
/// of 16 KiB for fault plans. Without optimization, the library's part of a stack is several KiB, so the test allows twice as
/// much.
#[test]
fn on_small_stacks() {
    const PLAN: &str =
        "all,^@lookup:site=new:caller=*:thread=*:dev=^7:delay=1us;cuIpcOpen*:stack=^1:handle=^1:delay-after=1us";
    let folder = support::temp_dir();
    let faults = folder.path().to_str().unwrap();
    let log = folder.path().join("%h.%p.log");
    let (plan, deny) =
        ([(env::INJECT, PLAN), (env::FAULTS, faults)], [(env::DENY_PEER, "all"), (env::PEER_LIMIT, "4")]);
    let text = [(env::TRACE, "all"), (env::LOG, "text"), (env::LOG_FILE, log.to_str().unwrap())];
    let json = [(env::TRACE, "all"), (env::LOG, "json"), (env::LOG_FILE, log.to_str().unwrap())];
    let check = [(env::CHECK, "notes")];
    let unoptimized = cfg!(debug_assertions);
    let record = if unoptimized { ("PTHREAD_STACK_MIN", "16384") } else { ("PTHREAD_STACK_MIN", "8192") };
    let faults_too = if unoptimized { ("32768", "32768") } else { ("PTHREAD_STACK_MIN", "16384") };
    type Mode<'a> = (&'a str, Cupeer, Vec<(&'a str, &'a str)>, (&'a str, &'a str));
    let modes: [Mode; 10] = [
        ("off", Cupeer::Off, vec![], ("PTHREAD_STACK_MIN", "8192")),
        ("recorded", Cupeer::Recording, vec![], record),
        ("in a ring", Cupeer::Recording, vec![(env::RECORD, "ring:1048576")], record),
        ("checked", Cupeer::Recording, check.to_vec(), record),
        ("text", Cupeer::Off, text.to_vec(), record),
        ("json", Cupeer::Off, json.to_vec(), record),
        ("a plan", Cupeer::Off, plan.to_vec(), faults_too),
        ("a plan, recorded", Cupeer::Recording, plan.to_vec(), faults_too),
        ("denied", Cupeer::Off, deny.to_vec(), faults_too),
        ("all", Cupeer::Recording, [&plan[..], &deny, &json, &check].concat(), faults_too),
    ];
    for (mode, cupeer, variables, (stack, alternate)) in &modes {
        for first in ["threads", "handler"] {
            let scene = Scene::new(linked("small_stack.c", &[])).args(&[first, stack, alternate]);
            let scene = variables.iter().fold(scene, |scene, (name, value)| scene.env(name, *value));
            let outcome = scene.run(*cupeer);
            if variables.contains(&check[0]) {
                // It says what it finds.
                assert_eq!(
                    (outcome.stdout.as_str(), outcome.status.code()),
                    ("done\n", Some(0)),
                    "{mode}, {first} first"
                );
            } else {
                outcome.assert_same(&scene.run(Cupeer::Absent), &format!("{mode}, {first} first"));
            }
        }
    }
    // Reading a library that the program opens is the loader's business, and needs more.
    Scene::new(program("small_stack.c", &[])).args(&["threads", "65536", "65536"]).compare();
}

#[test]
fn errno_and_dlerror_are_what_they_would_be() {
    for program in [linked("errors.c", &[]), program("errors.c", &[])] {
        Scene::new(program).compare();
    }
}

// Bypasses that cannot be prevented are named.

fn escapes(scene: Scene, escaped: &Path, way: &str) {
    let outcome = scene.compare();
    assert!(outcome.driver.iter().any(|c| c.number() >= ESCAPES), "the driver saw nothing: {outcome:#?}");
    assert!(outcome.log.names_escape(escaped, way), "{way}, {}: {:?}", escaped.display(), outcome.log.escaped);
    let named: BTreeSet<_> = outcome.log.escaped.iter().collect();
    assert_eq!(named.len(), outcome.log.escaped.len(), "a library is named twice: {:?}", outcome.log.escaped);
}

#[test]
fn deeply_bound_libraries_are_named() {
    let plugin = linked_library("plugin.c", &[]);
    escapes(plain_host(ESCAPES, &[("deepbind", &plugin)]), &plugin, "RTLD_DEEPBIND");
    // Beside one whose calls are caught, which must not be named.
    let caught = linked_library("plugin.c", &["-DANOTHER"]);
    let scene = plain_host(ESCAPES - 500, &[("local", &caught), ("deepbind", &plugin)]);
    let outcome = scene.compare();
    assert!(outcome.log.names_escape(&plugin, "RTLD_DEEPBIND"), "{:?}", outcome.log.escaped);
    assert!(!outcome.log.names_escape(&caught, "RTLD_DEEPBIND"), "{:?}", outcome.log.escaped);
}

/// Such a library's dlsym is libc's own, until we see it: with and without lazy binding.
#[test]
fn lookups_of_deeply_bound_libraries_are_seen() {
    for binding in ["-Wl,-z,now,-z,relro", "-Wl,-z,lazy"] {
        let opens = library("plugin.c", &["-DOPENS", binding]);
        let outcome = plain_host(100, &[("deepbind", &opens)]).compare();
        assert_eq!(outcome.log.calls.len(), plain_functions());
        assert!(outcome.log.escaped.is_empty(), "{:?}", outcome.log.escaped);
    }
}

#[test]
fn libraries_in_a_namespace_of_their_own_are_named() {
    let plugin = linked_library("plugin.c", &[]);
    escapes(plain_host(ESCAPES, &[("namespace", &plugin)]), &plugin, "dlmopen");
}

#[test]
fn the_next_definition_of_an_opened_library_is_named() {
    let plugin = linked_library("plugin.c", &["-DBY_NEXT"]);
    escapes(plain_host(ESCAPES, &[("local", &plugin)]), &plugin, "RTLD_NEXT");
}

#[test]
fn a_second_driver_is_reached_and_named() {
    let (first, second) = (driver().join("libcuda.so.1"), second_driver().join("libcuda.so.1"));
    let scene = Scene::new(program("second.c", &[])).arg(&first).arg(&second);
    escapes(scene, &second, "second driver");
    let linked = Scene::new(linked("second.c", &[])).arg(&first).arg(&second);
    escapes(linked, &second, "second driver");
}

#[test]
fn nothing_is_named_where_nothing_escapes() {
    for scene in [
        Scene::new(linked("linked.c", &[])),
        Scene::new(program("opened.c", &[])).args(&["libcuda.so.1", "local"]),
        Scene::new(linked("threads.c", &[])).preload_before(library("wrapper.c", &[])),
        Scene::new(linked("threads.c", &[])).preload_after(library("wrapper.c", &[])),
        Scene::new(linked("default.c", &[])),
    ] {
        let outcome = scene.run(Cupeer::Logging);
        assert!(outcome.log.escaped.is_empty(), "{:?}", outcome.log.escaped);
    }
}

// No driver.

fn driverless(answer: u32) -> Scene {
    let library = library("driverless.c", &[]);
    Scene::new(program("host.c", &[])).no_driver().arg(answer.to_string()).arg("local").arg(library)
}

#[test]
fn without_a_driver_linked_calls_say_so() {
    for mode in [Cupeer::Off, Cupeer::Logging] {
        let outcome = driverless(303).run(mode);
        assert!(outcome.status.success() && outcome.stdout.starts_with("all answered"), "{outcome:#?}");
        assert_eq!(outcome.stderr, "");
    }
}

#[test]
fn a_driver_can_be_named_for_calls_that_have_none() {
    let named = driver().join("libcuda.so.1");
    for mode in [Cupeer::Off, Cupeer::Logging] {
        let outcome = driverless(0).env(env::DRIVER, &named).run(mode);
        assert!(outcome.status.success(), "{outcome:#?}");
        assert_eq!(outcome.driver.len(), 2 * plain_functions() + 2);
        if mode == Cupeer::Logging {
            outcome.assert_log_complete();
        }
    }
}

#[test]
fn a_bad_driver_path_is_said_once_and_harms_nothing() {
    let folder = support::temp_dir();
    let text = folder.path().join("text.so");
    fs::write(&text, "no library").unwrap();
    let bad: [PathBuf; 4] =
        [folder.path().join("missing.so"), text, support::preload_library(), folder.path().to_owned()];
    for path in bad {
        let outcome = driverless(303).env(env::DRIVER, &path).run(Cupeer::Off);
        assert!(outcome.status.success() && outcome.stdout.starts_with("all answered"), "{outcome:#?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
        assert!(outcome.stderr.contains(path.to_str().unwrap()), "{outcome:#?}");
        // A program with a driver of its own never asks for it.
        let outcome = Scene::new(linked("threads.c", &[])).env(env::DRIVER, &path).run(Cupeer::Off);
        assert!(outcome.status.success() && outcome.stderr.is_empty(), "{outcome:#?}");
    }
}
