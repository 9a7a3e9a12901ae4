//! The simulated driver: against what a real one answered, and where programs put their weight on it.

use crate::support::{self, Done, compile_c, compile_text, done, plain, sim_dir, sim_library, stdout, temp_dir};
use object::{Object, ObjectSymbol};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

mod late;
mod pools;
mod processes;
mod vmm;

/// The answers of a real driver.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/h200-580.159.04.jsonl");

/// The program that asks. It is compiled anew where any of its files changed.
fn conformance() -> PathBuf {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance"));
    let mut sources: Vec<PathBuf> = fs::read_dir(directory)
        .expect("the conformance cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "c") && !path.ends_with("main.c"))
        .collect();
    sources.sort();
    let mut key = DefaultHasher::new();
    for source in &sources {
        fs::read(source).expect("a source").hash(&mut key);
    }
    let key = format!("-DSOURCES={}", key.finish());
    let mut args = vec![key.as_str()];
    args.extend(sources.iter().map(|path| path.to_str().expect("UTF-8")));
    args.extend(["-fstack-protector-all", "-ldl"]);
    compile_c("conformance/main.c", &args)
}

/// A driver may take the length -1 as unsigned, and most GPUs have longer names than the one of the recording.
#[test]
fn the_cases_have_room_for_what_a_driver_writes_beyond_the_length() {
    let text = r#"
        #include <string.h>
        int cuDeviceGetName(char *name, unsigned length, int device) {
            (void)device, (void)length;
            memcpy(name, "NVIDIA H100 80GB HBM3", 22);
            return 0;
        }"#;
    let sim = sim_library();
    let library = ["-shared", "-fPIC", "-Wl,--no-as-needed", sim.to_str().expect("UTF-8")];
    let driver = compile_text("long_name", text, &library);
    for group in ["name.empty", "name.negative"] {
        let mut command = plain(conformance());
        command.arg("--driver").arg(&driver).args(["--only", group]).env("CUPEER_SIM", "nvlink:2");
        command.env("LD_LIBRARY_PATH", sim_dir());
        let answers = stdout(&mut command);
        assert!(answers.contains("\"result\":\"CUDA_SUCCESS\""), "{answers}");
    }
}

#[test]
fn it_answers_as_was_recorded() {
    let mut command = plain(conformance());
    command.arg("--driver").arg(sim_library()).args(["--compare", RECORDED]).env("CUPEER_SIM", "nvlink:2");
    let done = done(&mut command);
    assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
}

#[test]
fn its_answers_and_its_own_log_are_the_same_under_cupeer() {
    for option in ["--record=full", "--check=notes"] {
        let folder = temp_dir();
        let mut command = support::cupeer();
        command.args(["run", "--sim=nvlink:2", option, "--out"]).arg(folder.path()).arg("--").arg(conformance());
        let done = done(command.args(["--driver", "libcuda.so.1", "--compare", RECORDED]));
        assert!(done.status.success(), "{option}\n{}{}", done.stdout, done.stderr);
        assert!(!done.stderr.contains("asked the simulated driver"), "{}", done.stderr);
        let report = stdout(support::cupeer().arg("report").arg(folder.path()).args(["--format", "json"]));
        assert!(report.contains("\"ipc-flags\""), "{option}: cupeer was there: {report}");
    }
}

#[test]
fn it_survives_every_case() {
    let mut command = plain(conformance());
    let answers = stdout(command.arg("--driver").arg(sim_library()).env("CUPEER_SIM", "nvlink:2"));
    let died: Vec<&str> =
        answers.lines().filter(|line| line.contains("\"signal\":") || line.contains("\"exit\":")).collect();
    assert!(died.is_empty(), "{died:#?}");
    let id = |line: &str| line.split('"').nth(3).map(str::to_owned);
    let ids: Vec<String> = answers.lines().filter(|l| l.starts_with("{\"case\"")).filter_map(id).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "two cases have one name");
}

#[test]
fn recorded_questions_are_still_asked() {
    let asked = include_str!("conformance/driver.h");
    let recorded = cupeer_spec::function::Fidelity::Recorded;
    for function in cupeer_spec::others::OTHERS.iter().filter(|f| f.simulated == recorded) {
        assert!(asked.contains(&format!("F({}, ", function.symbol)), "{}", function.symbol);
    }
    for function in cupeer_spec::function::FUNCTIONS.iter().filter(|f| f.simulated == recorded) {
        assert!(asked.contains(&format!("F({}, ", function.name())), "{}", function.name());
    }
}

/// The functions that a library exports, with their addresses.
fn exported(library: &Path) -> HashMap<String, u64> {
    let bytes = fs::read(library).expect("the library");
    let file = object::File::parse(bytes.as_slice()).expect("an ELF file");
    let defined = file.dynamic_symbols().filter(|s| s.is_definition() && s.is_global());
    defined.map(|s| (s.name().expect("a name").to_owned(), s.address())).collect()
}

#[test]
fn each_name_has_an_address_of_its_own() {
    let symbols = exported(&sim_library());
    let names = cupeer_spec::function::FUNCTIONS
        .iter()
        .filter(|f| f.library == cupeer_spec::function::Library::Cuda)
        .map(|f| f.name())
        .chain(cupeer_spec::others::OTHERS.iter().map(|f| f.symbol));
    for name in names {
        assert!(symbols.contains_key(name), "{name} is not exported");
    }
    let mut by_address: HashMap<u64, Vec<&str>> = HashMap::new();
    for (name, address) in &symbols {
        assert!(name.starts_with("cu"), "{name} is exported");
        by_address.entry(*address).or_default().push(name);
    }
    for names in by_address.values() {
        assert_eq!(names.len(), 1, "{names:?} are one function");
    }
}

#[test]
fn writes_to_a_multicast_object_reach_all_processes() {
    let driver = sim_dir().join("libcuda.so");
    let program = compile_c("programs/multicast.c", &[driver.to_str().expect("UTF-8")]);
    for (machine, wanted) in
        [("nvlink:2", "create=0 add=0,0 again=1 bind=0,0 holds=7,7 unbound=1 write=1\n"), ("pcie:2", "create=801\n")]
    {
        let mut command = plain(&program);
        command.args(["0", "1"]).env("LD_LIBRARY_PATH", sim_dir()).env("CUPEER_SIM", machine);
        assert_eq!(stdout(&mut command), wanted, "{machine}");
    }
}

#[test]
fn a_machine_that_cannot_be_read_is_named_once() {
    let program = compile_text(
        "init",
        "#include <stdio.h>\nint cuInit(unsigned);\nint main(void) { printf(\"%d\\n\", cuInit(0)); return 0; }\n",
        &[&format!("-L{}", sim_dir().display()), "-lcuda"],
    );
    let directory = temp_dir();
    let file = directory.path().join("machine.toml");
    fs::write(&file, "count = 2\nlinx = 'pcie'\n").expect("a file");
    let file = file.to_str().expect("UTF-8");
    for (text, said) in [
        ("nvlnk:2", "there is no topology 'nvlnk:2'; did you mean 'nvlink:2'?".to_owned()),
        (file, format!("{file}:2: unknown key 'linx'; did you mean 'link'?")),
        ("/no/such.toml", "/no/such.toml: No such file or directory (os error 2)".to_owned()),
    ] {
        let done = done(plain(&program).env("LD_LIBRARY_PATH", sim_dir()).env("CUPEER_SIM", text));
        assert_eq!(done.stderr, format!("cupeer: simulated driver: {said}\n"));
        assert_eq!(done.stdout, "100\n");
    }
}

/// Runs a program of `tests/conformance/programs` linked to the simulated driver: it says what is wrong, or
/// nothing.
#[track_caller]
fn holds(name: &str, machine: &str) {
    holds_with(name, machine, &[]);
}

/// The same with arguments.
#[track_caller]
fn holds_with(name: &str, machine: &str, arguments: &[&str]) {
    let played = played(name, machine, arguments);
    assert!(played.status.success(), "{}{}", played.stdout, played.stderr);
    support::assert_lines(&played.stdout, "");
}

/// Runs a program of tests/conformance/programs, which is linked to the driver.
fn played(name: &str, machine: &str, arguments: &[&str]) -> Done {
    let source = format!("conformance/programs/{name}.c");
    let search = format!("-L{}", sim_dir().display());
    let program = compile_c(&source, &[&search, "-lcuda"]);
    let mut command = plain(program);
    done(command.args(arguments).env("LD_LIBRARY_PATH", sim_dir()).env("CUPEER_SIM", machine))
}

#[test]
fn it_works_without_threads_own_storage() {
    holds("late_storage", "nvlink:2");
}

#[test]
fn functions_of_the_program_run_in_stream_order() {
    holds("callbacks", "nvlink:2");
}

#[test]
fn values_in_memory_hold_the_streams_that_wait_for_them() {
    for machine in ["nvlink:2", "nvlink:2,late:1", "nvlink:2,late:2"] {
        holds("values", machine);
    }
}

#[test]
fn functions_do_as_their_attributes_say() {
    holds("promises", "nvlink:2");
    holds("promises", "nvlink:2,kernels=skip");
}

#[test]
fn kernels_are_skipped_where_the_machine_says_so_and_that_is_said_once() {
    let program = compile_c("conformance/programs/kernels.c", &[&format!("-L{}", sim_dir().display()), "-lcuda"]);
    let run = |machine: &str| done(plain(&program).env("LD_LIBRARY_PATH", sim_dir()).env("CUPEER_SIM", machine));
    let directory = temp_dir();
    let file = directory.path().join("machine.toml");
    fs::write(&file, "count = 1\nkernels = \"skip\"\n").expect("a file");
    for machine in ["pcie:2,kernels=skip", file.to_str().expect("UTF-8")] {
        let done = run(machine);
        assert_eq!(done.stdout, "skipped\n", "{}", done.stderr);
        let said = "cupeer: simulated driver: kernels = \"skip\": kernels launch here and do nothing\n";
        assert_eq!(done.stderr, said);
    }
    let done = run("pcie:2");
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("not supported\n", ""));
}

#[test]
fn arrays_have_a_shape_of_their_own() {
    holds("arrays", "nvlink:2");
}

#[test]
fn captured_work_is_done_at_its_launch() {
    holds("capture", "nvlink:2");
}

#[test]
fn nodes_of_graphs_are_what_the_program_gave_them() {
    holds("graph_nodes", "nvlink:2");
}

#[test]
fn threads_use_it_at_once() {
    holds("crowd", "nvlink:2");
}

#[test]
fn a_call_of_a_cancelled_thread_runs_to_its_end() {
    holds("cancelled", "nvlink:2");
}

#[test]
fn nothing_is_left_behind_and_bad_pointers_are_errors() {
    holds("wild", "nvlink:2");
}

#[test]
fn without_a_link_memory_cannot_be_opened() {
    holds("unlinked", "none:2");
}

#[test]
fn one_direction_can_be_closed() {
    let directory = temp_dir();
    let file = directory.path().join("oneway.toml");
    fs::write(&file, "count = 2\n[[link]]\nfrom = 0\nto = 1\nkind = 'none'\n").expect("a file");
    holds("one_way", file.to_str().expect("UTF-8"));
}

#[test]
fn few_open_files_and_small_files_are_enough() {
    holds("poor", "nvlink:2");
}
