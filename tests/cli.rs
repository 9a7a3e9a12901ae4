//! The command's words: its options and messages, its lists, explanations and settings.

use crate::support::{
    assert_lines, compile_text, cupeer, done, install, plain, preload_library, refused, sim_dir, stdout, temp_dir, with,
};
use cupeer_spec::function::{FUNCTIONS, Library, alterable_functions};
use cupeer_spec::results::RESULTS;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::sync::OnceLock;

#[test]
fn wrong_command_lines_are_one_line_and_125() {
    let commands = "run, env, list, explain, report, top, why, ls, clean, pack, reduce, export, reproduce, replay, fault, release, sweep, doctor, demo, completions";
    refused(&[], &format!("a subcommand is missing; the commands are {commands}; see --help"));
    refused(&["rum"], "there is no command 'rum'; did you mean 'run'?");
    refused(&["rnu"], "there is no command 'rnu'; did you mean 'run'?");
    refused(
        &["explain", "ipc-freed"],
        "no function, result code, rule or key of fault plans is named 'ipc-freed'; did you mean 'ipc-freed-while-open'?",
    );
    refused(&["frobnicate"], &format!("there is no command 'frobnicate'; the commands are {commands}"));
    for program in ["./prog", "/no/such/program", "uname"] {
        let hint = format!("there is no command '{program}'; to run a program, write 'cupeer run -- {program}'");
        refused(&[program], &hint);
    }
    refused(&["run"], "the following required arguments were not provided: <PROGRAM> [ARGS]...; see --help");
    refused(
        &["run", "--log-fil", "x", "true"],
        "unexpected argument '--log-fil' found; a similar argument exists: '--log-file'; see --help",
    );
    refused(
        &["run", "--log", "xml", "true"],
        "invalid value 'xml' for '--log <FORMAT>' [possible values: text, json]; see --help",
    );
    refused(
        &["run", "--sim", "--driver", "/x", "true"],
        "the argument '--sim[=<TOPOLOGY>]' cannot be used with '--driver <PATH>'; see --help",
    );
    refused(
        &["env", "--format", "fish"],
        "invalid value 'fish' for '--format <FORMAT>' [possible values: sh, docker, k8s, mpirun, srun, ray]; see --help",
    );
    refused(
        &["list"],
        "the following required arguments were not provided: <WHAT> [possible values: functions, errors, topologies, environment, rules, faults]; see --help",
    );
    refused(
        &["run", "--error-exitcode", "many", "true"],
        "invalid value 'many' for '--error-exitcode <N>': it takes a number; see --help",
    );
    refused(&["list", "errors", "--all"], "--all works only with 'functions'; the other lists are complete");
}

/// A value that did not follow its option is the program, which is not there.
#[test]
fn options_whose_value_became_the_program_are_suggested() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    for (option, value) in [("--sim", "nvlink:2"), ("--sim", "none:4"), ("--check", "errors")] {
        let ended = done(with(&["run", "--out"]).arg(&record).args([option, value, "true"]));
        let said = format!("cupeer: '{value}': No such file or directory; did you mean {option}={value}?\n");
        assert_eq!((ended.status.code(), ended.stderr), (Some(127), said));
    }
    let ended = done(&mut with(&["run", "--record", "off", "--sim", "nvlink:0", "true"]));
    assert_eq!(ended.stderr, "cupeer: 'nvlink:0': No such file or directory\n");
}

/// The summary of a command promises what it takes.
#[test]
fn list_takes_the_words_of_its_summary() {
    let help = stdout(with(&["list", "--help"]).env("COLUMNS", "200"));
    let summary = help.lines().next().unwrap().strip_prefix("List the ").unwrap();
    let topics = summary.strip_suffix(" that cupeer knows").unwrap().replace(" or ", " ");
    let topics: Vec<&str> = topics.split(',').map(str::trim).collect();
    assert!(topics.len() == 6 && topics.contains(&"results"), "{topics:?}");
    for topic in topics {
        assert!(stdout(&mut with(&["list", topic])).lines().count() > 2, "{topic}");
    }
}

#[test]
fn shells_complete_recordings_rules_and_functions() {
    let state = temp_dir();
    for name in ["train-2", "train-10", "other-3"] {
        fs::create_dir_all(state.path().join("cupeer").join(name)).unwrap();
    }
    let asked = |shell: &str, words: &[&str]| {
        let mut command = with(&[&["--", "cupeer"], words].concat());
        command.env("_CUPEER_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", words.len().to_string());
        command.env("XDG_STATE_HOME", state.path()).current_dir(state.path()).env("_CLAP_IFS", "\n");
        let text = stdout(&mut command);
        // fish and zsh show a description behind a value.
        text.lines().map(|line| line.split(['\t', ':']).next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for shell in ["bash", "zsh", "fish"] {
        for (words, expected) in [
            (&["rel"][..], &["release"][..]),
            (&["run", "--deny"], &["--deny-peer"]),
            (&["report", "tr"], &["train-10", "train-2"]),
            (&["why", "other"], &["other-3"]),
            (&["explain", "ipc-freed"], &["ipc-freed-while-open"]),
            (&["run", "--ignore", "peer-flags,ipc-freed"], &["peer-flags,ipc-freed-while-open"]),
            (&["run", "--trace", "@ipc,^cuIpcCloseMem"], &["@ipc,^cuIpcCloseMemHandle"]),
            (&["run", "--inject", "cuIpcCloseM"], &["cuIpcCloseMemHandle"]),
            (&["run", "--log", "js"], &["json"]),
        ] {
            assert_eq!(asked(shell, words), expected, "{shell} {words:?}");
        }
        let script = stdout(&mut with(&["completions", shell]));
        assert!(script.contains("_CUPEER_COMPLETE") && script.contains("cupeer"), "{shell}: {script}");
    }
    let script = "source <(cupeer completions bash)\nCOMP_WORDS=(cupeer report tr) COMP_CWORD=2\n\
                  _clap_complete_cupeer cupeer tr report; printf '%s ' \"${COMPREPLY[@]}\"";
    let mut bash = plain("bash");
    let path = format!("{}:{}", install().join("bin").display(), std::env::var("PATH").unwrap());
    let ended = done(bash.args(["-c", script]).env("PATH", path).env("XDG_STATE_HOME", state.path()));
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("train-10 train-2 ", ""));
}

/// `-p`, as py-spy and strace have it.
#[test]
fn why_takes_a_pid_as_an_option_too() {
    let [plain, option] = [&["why", "4000000"][..], &["why", "-p", "4000000"]].map(|words| done(&mut with(words)));
    assert!(plain.stderr.contains("4000000") && !plain.status.success(), "{}", plain.stderr);
    assert_eq!((plain.status.code(), plain.stderr), (option.status.code(), option.stderr));
}

/// An option behind the program is the program's.
#[test]
fn an_option_behind_the_program_is_noticed() {
    let folder = temp_dir();
    let mut command = with(&["run", "-o", "record", "true", "--sim=nvlink:4"]);
    let ended = done(command.current_dir(folder.path()).env_remove(cupeer_spec::env::RECORD));
    let hint = "; --sim=nvlink:4 is an argument of the program here: put it before the program, as in \
                'cupeer run --sim=nvlink:4 -- true ...'\n";
    assert!(ended.stderr.ends_with(hint), "{}", ended.stderr);
}

fn commands() -> Vec<String> {
    let help = stdout(&mut with(&["--help"]));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty()).filter(|line| line.starts_with("  "));
    let names = commands.filter_map(|line| line.get(2..)?.split(' ').next()).filter(|name| !name.is_empty());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn a_short_help_is_short_and_a_long_one_has_examples_that_can_be_pasted() {
    let commands = commands();
    assert!(commands.len() > 12 && commands.contains(&"run".to_owned()), "{commands:?}");
    let mut examples = 0;
    for name in &commands {
        let short = stdout(with(&[name, "-h"]).env("COLUMNS", "100"));
        assert!(short.lines().count() <= 30, "{name}: {short}");
        assert!(short.ends_with(&format!("\nAll options, with examples: cupeer {name} --help\n")), "{short}");
        // A line that is broken on a narrow terminal runs the end of its comment.
        let [narrow, wide] = ["80", "1000"].map(|columns| stdout(with(&[name, "--help"]).env("COLUMNS", columns)));
        let lines = |help: &str| -> Vec<String> {
            let behind = help.lines().skip_while(|line| *line != "Examples:").skip(1);
            behind.filter(|line| line.starts_with("  ")).map(str::to_owned).collect()
        };
        assert_eq!(lines(&narrow), lines(&wide), "{name}");
        assert!(!narrow.contains('\u{a0}'), "{name}: a shell takes it for a letter");
        examples += lines(&narrow).len();
    }
    assert!(examples > 30, "{examples}");
    let run = stdout(&mut with(&["run", "-h"]));
    assert!(run.lines().filter(|line| line.trim_start().starts_with('-')).count() <= 15, "{run}");
    assert!(run.contains("--sim[=<TOPOLOGY>]") && run.contains("--inject <PLAN>"), "{run}");
}

#[test]
fn help_is_a_command_as_well() {
    let as_command = stdout(&mut with(&["help", "run"]));
    assert_eq!(as_command, stdout(&mut with(&["run", "--help"])));
    assert!(stdout(&mut with(&["help"])).contains("Run a program under cupeer"));
}

/// An option about the contents or the place of a log turns the log on.
#[test]
fn options_of_the_log_mean_a_log() {
    let user = crate::endings::program();
    let folder = temp_dir();
    let file = folder.path().join("log");
    for option in [&["--trace", "all"][..], &["--log-file", file.to_str().unwrap()]] {
        let mut command = with(&["run", "--sim", "--record", "off"]);
        let ended = done(command.args(option).arg(&user).args(["return", "0"]));
        let log = if option[0] == "--trace" { ended.stderr } else { fs::read_to_string(&file).unwrap() };
        assert!(log.contains("cuDeviceCanAccessPeer("), "{option:?}: {log}");
    }
    let ended = done(with(&["run", "--sim", "--record", "off", "--failed"]).arg(&user).args(["return", "0"]));
    assert!(!ended.stderr.contains("CUDA_SUCCESS"), "{}", ended.stderr);
}

#[test]
fn wrong_values_say_where_and_what_would_be_right() {
    let log = |args: &[&'static str]| [&["run", "--log", "text"], args, &["true"]].concat();
    refused(
        &log(&["--trace", "@ipc,cuIpcOpnMemHandle"]),
        "--trace '@ipc,cuIpcOpnMemHandle', column 6: no function is named 'cuIpcOpnMemHandle'; \
         did you mean 'cuIpcOpenMemHandle'?",
    );
    refused(
        &log(&["--log-file", "/no/such/directory/log"]),
        "failed to open the log file '/no/such/directory/log': No such file or directory (os error 2)",
    );
    refused(&log(&["--log-file", "/tmp"]), "failed to open the log file '/tmp': Is a directory (os error 21)");
    refused(&log(&["--log-file", "/tmp/%x"]), "--log-file '/tmp/%x': % must be followed by p, h, q{VAR} or %");
    refused(&["run", "--sim=nvlnk:2", "true"], "--sim: there is no topology 'nvlnk:2'; did you mean 'nvlink:2'?");
    refused(&["run", "--sim=./no.toml", "true"], "--sim: ./no.toml: No such file or directory (os error 2)");
}

#[test]
fn a_topology_file_is_checked_and_named_by_its_whole_path() {
    let directory = temp_dir();
    let at = directory.path().canonicalize().unwrap();
    fs::write(at.join("wrong.toml"), "\n\nwhat = is this\n").unwrap();
    let ended = done(with(&["run", "--sim=wrong.toml", "true"]).current_dir(&at));
    assert!(ended.stderr.starts_with("cupeer: --sim: wrong.toml:3: "), "{}", ended.stderr);
    assert_eq!((ended.status.code(), ended.stderr.lines().count()), (Some(125), 1));
}

#[test]
fn a_driver_that_is_none_is_refused() {
    let directory = temp_dir();
    let text = directory.path().join("text");
    fs::write(&text, "no library").unwrap();
    let no_driver = compile_text("nothing", "int nothing_at_all;", &["-shared", "-fPIC"]);
    let program = compile_text("program", "int main(void) { return 0; }", &["-no-pie"]);
    let mut foreign = fs::read(&no_driver).unwrap();
    foreign[18] = 0xf3;
    let other_machine = directory.path().join("foreign.so");
    fs::write(&other_machine, foreign).unwrap();
    let ours = directory.path().join("renamed.so");
    fs::copy(preload_library(), &ours).unwrap();
    let own = "this is cupeer's own preload library, which needs a driver behind it; name that driver";
    let arch = std::env::consts::ARCH;
    for (path, sentence) in [
        (directory.path().join("missing"), "No such file or directory (os error 2)".to_owned()),
        (text, "not a shared library; a driver is an ELF file".to_owned()),
        (program, "not a shared library; a driver is one, usually libcuda.so.1".to_owned()),
        (other_machine, format!("the library is for another machine; a driver is a 64-bit {arch} library")),
        (
            no_driver,
            "the library has no cuInit, so it is not a CUDA driver; a driver is usually libcuda.so.1".to_owned(),
        ),
        (preload_library(), own.to_owned()),
        (ours, own.to_owned()),
    ] {
        let path = path.to_str().unwrap();
        refused(&["run", "--driver", path, "true"], &format!("--driver '{path}': {sentence}"));
    }
}

#[test]
fn help_and_version_are_no_failures() {
    assert_eq!(stdout(&mut with(&["--version"])), format!("cupeer {}\n", env!("CARGO_PKG_VERSION")));
    for args in [&["--help"][..], &["run", "--help"], &["env", "-h"], &["list", "-h"], &["doctor", "--help"]] {
        let help = stdout(&mut with(args));
        assert!(help.contains("Usage: cupeer") && !help.contains("probe"), "{help}");
    }
}

#[test]
fn the_list_of_functions() {
    assert_lines(
        &stdout(&mut with(&["list", "functions"])),
        "\
FUNCTION                                SINCE  SIMULATED   GROUPS
cuDeviceCanAccessPeer                   4.0    recorded    @peer
cuDeviceGetP2PAttribute                 8.0    recorded    @peer
cuDeviceGetP2PAtomicCapabilities        13.0   recorded    @peer
cuCtxEnablePeerAccess                   4.0    recorded    @peer @enable
cuCtxDisablePeerAccess                  4.0    recorded    @peer @release
cuIpcGetMemHandle                       4.1    recorded    @ipc @ipc-mem @export
cuIpcOpenMemHandle                      4.1    recorded    @ipc @ipc-mem @open
cuIpcOpenMemHandle_v2                   11.0   recorded    @ipc @ipc-mem @open
cuIpcCloseMemHandle                     4.1    recorded    @ipc @ipc-mem
                                                           @release
cuIpcGetEventHandle                     4.1    recorded    @ipc @ipc-event
                                                           @export
cuIpcOpenEventHandle                    4.1    recorded    @ipc @ipc-event @open
cuGetProcAddress                        11.3   recorded    @lookup
cuGetProcAddress_v2                     12.0   recorded    @lookup
cuMemFree                               2.0    documented  @lifetime
cuMemFree_v2                            3.2    recorded    @lifetime
cuMemFreeAsync                          11.2   recorded    @lifetime
cuMemFreeAsync_ptsz                     11.2   documented  @lifetime
cuMemcpy                                4.0    recorded    @copy
cuMemcpy_ptds                           7.0    documented  @copy
cuMemcpyAsync                           4.0    documented  @copy
cuMemcpyAsync_ptsz                      7.0    documented  @copy
cuMemcpyDtoD_v2                         3.2    recorded    @copy
cuMemcpyDtoD_v2_ptds                    7.0    documented  @copy
cuMemcpyDtoDAsync_v2                    3.2    documented  @copy
cuMemcpyDtoDAsync_v2_ptsz               7.0    documented  @copy
cuMemcpyPeer                            4.0    recorded    @copy
cuMemcpyPeer_ptds                       7.0    documented  @copy
cuMemcpyPeerAsync                       4.0    documented  @copy
cuMemcpyPeerAsync_ptsz                  7.0    documented  @copy
cuEventDestroy                          2.0    documented  @lifetime
cuEventDestroy_v2                       4.0    recorded    @lifetime
cuCtxDestroy                            2.0    documented  @lifetime
cuCtxDestroy_v2                         4.0    recorded    @lifetime
cuCtxDetach                             2.0    recorded    @lifetime
cuDevicePrimaryCtxRelease               7.0    documented  @lifetime
cuDevicePrimaryCtxRelease_v2            11.0   recorded    @lifetime
cuDevicePrimaryCtxReset                 7.0    documented  @lifetime
cuDevicePrimaryCtxReset_v2              11.0   recorded    @lifetime
cuMemAddressReserve                     10.2   recorded    @vmm
cuMemAddressFree                        10.2   recorded    @lifetime @vmm
cuMemCreate                             10.2   recorded    @vmm
cuMemRelease                            10.2   recorded    @lifetime @vmm
cuMemMap                                10.2   recorded    @vmm
cuMemUnmap                              10.2   recorded    @lifetime @vmm
cuMemSetAccess                          10.2   recorded    @enable @vmm
cuMemGetAccess                          10.2   recorded    @vmm
cuMemExportToShareableHandle            10.2   recorded    @export @vmm
cuMemImportFromShareableHandle          10.2   recorded    @open @vmm
cuMemRetainAllocationHandle             11.0   recorded    @vmm
cuMemGetAllocationPropertiesFromHandle  10.2   recorded    @vmm
cuMemGetAllocationGranularity           10.2   recorded    @vmm
cuMemGetHandleForAddressRange           11.7   documented  @vmm
cuDeviceGetDefaultMemPool               11.2   recorded    @pool
cuMemPoolCreate                         11.2   recorded    @pool
cuMemPoolDestroy                        11.2   recorded    @lifetime @pool
cuMemPoolSetAccess                      11.2   recorded    @enable @pool
cuMemPoolGetAccess                      11.2   recorded    @pool
cuMemPoolExportToShareableHandle        11.2   recorded    @export @pool
cuMemPoolImportFromShareableHandle      11.2   recorded    @open @pool
cuMemPoolExportPointer                  11.2   recorded    @export @pool
cuMemPoolImportPointer                  11.2   recorded    @open @pool
cuMemAllocFromPoolAsync                 11.2   recorded    @pool @alloc
cuMemAllocFromPoolAsync_ptsz            11.2   documented  @pool @alloc
cuMulticastCreate                       12.1   documented  @vmm @multicast
cuMulticastAddDevice                    12.1   documented  @vmm @multicast
cuMulticastBindMem                      12.1   documented  @vmm @multicast
cuMulticastBindMem_v2                   13.1   documented  @vmm @multicast
cuMulticastBindAddr                     12.1   documented  @vmm @multicast
cuMulticastBindAddr_v2                  13.1   documented  @vmm @multicast
cuMulticastUnbind                       12.1   documented  @vmm @multicast
cuMulticastGetGranularity               12.1   documented  @vmm @multicast
cuInit                                  2.0    recorded    @init
cuDeviceGetAttribute                    2.0    recorded    @query
nvmlDeviceGetP2PStatus                  -      absent      @query
nvmlDeviceGetTopologyCommonAncestor     -      absent      @query
nvmlDeviceGetNvLinkState                -      absent      @query
nvmlDeviceGetNvLinkCapability           -      absent      @query
nvmlDeviceGetNvLinkRemotePciInfo        -      absent      @query
nvmlDeviceGetNvLinkRemotePciInfo_v2     -      absent      @query
nvmlDeviceGetNvLinkRemoteDeviceType     -      absent      @query
nvmlDeviceGetGpuFabricInfo              -      absent      @query
nvmlDeviceGetGpuFabricInfoV             -      absent      @query
nvmlDeviceGetFieldValues                -      absent      @query
cudaDeviceCanAccessPeer                 -      absent      @runtime
cudaDeviceGetP2PAttribute               -      absent      @runtime
cudaDeviceGetP2PAtomicCapabilities      -      absent      @runtime
cudaDeviceEnablePeerAccess              -      absent      @runtime
cudaDeviceDisablePeerAccess             -      absent      @runtime
cudaIpcGetMemHandle                     -      absent      @runtime
cudaIpcOpenMemHandle                    -      absent      @runtime
cudaIpcCloseMemHandle                   -      absent      @runtime
cudaIpcGetEventHandle                   -      absent      @runtime
cudaIpcOpenEventHandle                  -      absent      @runtime
cudaMemPoolExportToShareableHandle      -      absent      @runtime
cudaMemPoolImportFromShareableHandle    -      absent      @runtime
cudaMemPoolExportPointer                -      absent      @runtime
cudaMemPoolImportPointer                -      absent      @runtime
cuMemcpyHtoD_v2                         3.2    recorded    @copy
cuMemcpyHtoD_v2_ptds                    7.0    documented  @copy
cuMemcpyHtoDAsync_v2                    3.2    documented  @copy
cuMemcpyHtoDAsync_v2_ptsz               7.0    documented  @copy
cuMemcpyDtoH_v2                         3.2    recorded    @copy
cuMemcpyDtoH_v2_ptds                    7.0    documented  @copy
cuMemcpyDtoHAsync_v2                    3.2    recorded    @copy
cuMemcpyDtoHAsync_v2_ptsz               7.0    documented  @copy
cuMemsetD8_v2                           3.2    recorded    @copy
cuMemsetD8_v2_ptds                      7.0    documented  @copy
cuMemsetD8Async                         3.2    documented  @copy
cuMemsetD8Async_ptsz                    7.0    documented  @copy
cuMemsetD2D8_v2                         3.2    recorded    @copy
cuMemsetD2D8_v2_ptds                    7.0    documented  @copy
cuMemsetD2D8Async                       3.2    documented  @copy
cuMemsetD2D8Async_ptsz                  7.0    documented  @copy
cuMemsetD16_v2                          3.2    recorded    @copy
cuMemsetD16_v2_ptds                     7.0    documented  @copy
cuMemsetD16Async                        3.2    documented  @copy
cuMemsetD16Async_ptsz                   7.0    documented  @copy
cuMemsetD2D16_v2                        3.2    documented  @copy
cuMemsetD2D16_v2_ptds                   7.0    documented  @copy
cuMemsetD2D16Async                      3.2    documented  @copy
cuMemsetD2D16Async_ptsz                 7.0    documented  @copy
cuMemsetD32_v2                          3.2    recorded    @copy
cuMemsetD32_v2_ptds                     7.0    documented  @copy
cuMemsetD32Async                        3.2    documented  @copy
cuMemsetD32Async_ptsz                   7.0    documented  @copy
cuMemsetD2D32_v2                        3.2    documented  @copy
cuMemsetD2D32_v2_ptds                   7.0    documented  @copy
cuMemsetD2D32Async                      3.2    documented  @copy
cuMemsetD2D32Async_ptsz                 7.0    documented  @copy
cuMemcpy2D_v2                           3.2    recorded    @copy
cuMemcpy2D_v2_ptds                      7.0    documented  @copy
cuMemcpy2DAsync_v2                      3.2    documented  @copy
cuMemcpy2DAsync_v2_ptsz                 7.0    documented  @copy
cuMemcpy2DUnaligned_v2                  3.2    documented  @copy
cuMemcpy2DUnaligned_v2_ptds             7.0    documented  @copy
cuMemcpy3D_v2                           3.2    documented  @copy
cuMemcpy3D_v2_ptds                      7.0    documented  @copy
cuMemcpy3DAsync_v2                      3.2    documented  @copy
cuMemcpy3DAsync_v2_ptsz                 7.0    documented  @copy
cuMemcpy3DPeer                          4.0    documented  @copy
cuMemcpy3DPeer_ptds                     7.0    documented  @copy
cuMemcpy3DPeerAsync                     4.0    documented  @copy
cuMemcpy3DPeerAsync_ptsz                7.0    documented  @copy
cuMemcpyBatchAsync                      12.8   documented  @copy
cuMemcpyBatchAsync_ptsz                 12.8   documented  @copy
cuMemcpyBatchAsync_v2                   13.0   documented  @copy
cuMemcpyBatchAsync_v2_ptsz              13.0   documented  @copy
cuMemcpy3DBatchAsync                    12.8   documented  @copy
cuMemcpy3DBatchAsync_ptsz               12.8   documented  @copy
cuMemcpy3DBatchAsync_v2                 13.0   documented  @copy
cuMemcpy3DBatchAsync_v2_ptsz            13.0   documented  @copy
cuMemcpyDtoA_v2                         3.2    recorded    @copy
cuMemcpyDtoA_v2_ptds                    7.0    documented  @copy
cuMemcpyAtoD_v2                         3.2    recorded    @copy
cuMemcpyAtoD_v2_ptds                    7.0    documented  @copy
cuMemPrefetchAsync                      8.0    recorded    @copy
cuMemPrefetchAsync_ptsz                 8.0    documented  @copy
cuMemPrefetchAsync_v2                   12.2   documented  @copy
cuMemPrefetchAsync_v2_ptsz              12.2   documented  @copy
cuLaunchKernel                          4.0    inferred    @launch
cuLaunchKernel_ptsz                     7.0    inferred    @launch
cuLaunchCooperativeKernel               9.0    inferred    @launch
cuLaunchCooperativeKernel_ptsz          9.0    inferred    @launch
cuLaunchKernelEx                        11.6   inferred    @launch
cuLaunchKernelEx_ptsz                   11.6   inferred    @launch
cuModuleGetFunction                     2.0    inferred    @query
cuModuleEnumerateFunctions              12.4   inferred    @query
cuLibraryGetKernel                      12.0   inferred    @query
cuLibraryEnumerateKernels               12.4   inferred    @query
cuKernelGetFunction                     12.0   inferred    @query
cuModuleUnload                          2.0    inferred    @query
cuLibraryUnload                         12.0   inferred    @query
cuGraphInstantiate                      10.0   documented  @graph
cuGraphInstantiate_v2                   11.0   documented  @graph
cuGraphInstantiateWithFlags             11.4   documented  @graph
cuGraphInstantiateWithParams            12.0   documented  @graph
cuGraphInstantiateWithParams_ptsz       12.0   documented  @graph
cuGraphExecUpdate                       10.2   documented  @graph
cuGraphExecUpdate_v2                    12.0   documented  @graph
cuGraphLaunch                           10.0   documented  @graph
cuGraphLaunch_ptsz                      10.0   documented  @graph
cuGraphExecKernelNodeSetParams          10.1   documented  @graph
cuGraphExecKernelNodeSetParams_v2       12.0   documented  @graph
cuGraphExecMemcpyNodeSetParams          10.2   documented  @graph
cuGraphExecMemsetNodeSetParams          10.2   documented  @graph
cuGraphExecChildGraphNodeSetParams      11.1   documented  @graph
cuGraphExecNodeSetParams                12.2   documented  @graph
cuGraphNodeSetEnabled                   11.6   documented  @graph
cuGraphExecDestroy                      10.0   documented  @graph
cuEventRecord                           2.0    recorded    @event
cuEventRecord_ptsz                      7.0    documented  @event
cuEventRecordWithFlags                  11.1   documented  @event
cuEventRecordWithFlags_ptsz             11.1   documented  @event
cuCtxCreate_v2                          3.2    recorded    @query
cuCtxCreate_v3                          11.4   documented  @query
cuCtxCreate_v4                          12.5   recorded    @query
cuDevicePrimaryCtxRetain                7.0    recorded    @query
cuMemAlloc                              2.0    documented  @alloc
cuMemAlloc_v2                           3.2    recorded    @alloc
cuMemAllocPitch                         2.0    documented  @alloc
cuMemAllocPitch_v2                      3.2    recorded    @alloc
cuMemAllocManaged                       6.0    recorded    @alloc
cuMemAllocAsync                         11.2   recorded    @pool @alloc
cuMemAllocAsync_ptsz                    11.2   documented  @pool @alloc
cuStreamSynchronize                     2.0    recorded    @order
cuStreamSynchronize_ptsz                7.0    documented  @order
cuStreamQuery                           2.0    recorded    @order
cuStreamQuery_ptsz                      7.0    documented  @order
cuStreamWaitEvent                       3.2    recorded    @order
cuStreamWaitEvent_ptsz                  7.0    documented  @order
cuStreamDestroy                         2.0    documented  @order
cuStreamDestroy_v2                      4.0    recorded    @order
cuEventSynchronize                      2.0    recorded    @order
cuEventQuery                            2.0    recorded    @order
cuCtxSynchronize                        2.0    recorded    @order
cuCtxSynchronize_v2                     13.0   documented  @order
cuStreamWaitValue32                     8.0    documented  @order
cuStreamWaitValue32_ptsz                8.0    documented  @order
cuStreamWaitValue32_v2                  11.7   documented  @order
cuStreamWaitValue32_v2_ptsz             11.7   documented  @order
cuStreamWriteValue32                    8.0    documented  @order
cuStreamWriteValue32_ptsz               8.0    documented  @order
cuStreamWriteValue32_v2                 11.7   documented  @order
cuStreamWriteValue32_v2_ptsz            11.7   documented  @order
cuStreamWaitValue64                     9.0    documented  @order
cuStreamWaitValue64_ptsz                9.0    documented  @order
cuStreamWaitValue64_v2                  11.7   documented  @order
cuStreamWaitValue64_v2_ptsz             11.7   documented  @order
cuStreamWriteValue64                    9.0    documented  @order
cuStreamWriteValue64_ptsz               9.0    documented  @order
cuStreamWriteValue64_v2                 11.7   documented  @order
cuStreamWriteValue64_v2_ptsz            11.7   documented  @order
cuStreamBatchMemOp                      8.0    documented  @order
cuStreamBatchMemOp_ptsz                 8.0    documented  @order
cuStreamBatchMemOp_v2                   11.7   documented  @order
cuStreamBatchMemOp_v2_ptsz              11.7   documented  @order
cuLaunchHostFunc                        10.0   recorded    @order
cuLaunchHostFunc_ptsz                   10.0   documented  @order
cuStreamAddCallback                     5.0    documented  @order
cuStreamAddCallback_ptsz                7.0    documented  @order
",
    );
    let all = stdout(&mut with(&["list", "functions", "--all"]));
    assert!(all.lines().any(|l| l.starts_with("cuMemAlloc_v2 ")), "{all}");
    assert!(all.lines().all(|l| l.len() <= 80), "{all}");
}

#[test]
fn the_list_of_functions_as_json() {
    let list: Value = serde_json::from_str(&stdout(&mut with(&["list", "functions", "--format", "json"]))).unwrap();
    let list = list.as_array().unwrap();
    let names: Vec<&str> = list.iter().map(|f| f["function"].as_str().unwrap()).collect();
    assert_eq!(names, FUNCTIONS.iter().map(|f| f.name()).collect::<Vec<_>>());
    let open = &list[7];
    assert_eq!(
        open["prototype"],
        "CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)"
    );
    assert_eq!((&open["lookup"], &open["since"]), (&"cuIpcOpenMemHandle".into(), &"11.0".into()));
    assert_eq!(open["groups"], serde_json::json!(["ipc", "ipc-mem", "open"]));
    assert_eq!(
        open["args"][2],
        serde_json::json!({"name": "Flags", "type": "unsigned int", "direction": "in", "count": null})
    );
    assert_eq!(open["results"][1], "CUDA_ERROR_INVALID_CONTEXT");
    assert_eq!(open["simulated"], "recorded");
    let all: Value =
        serde_json::from_str(&stdout(&mut with(&["list", "functions", "--all", "--format", "json"]))).unwrap();
    let all = all.as_array().unwrap();
    assert!(all.len() > 400 && all.iter().filter(|f| f["intercepted"] == true).count() == FUNCTIONS.len());
}

#[test]
fn the_list_of_topologies_and_of_errors() {
    assert_lines(
        &stdout(&mut with(&["list", "topologies"])),
        "\
TOPOLOGY          MACHINE
nvlink:N          N devices, NVLink between all: peer access, native atomics,
                  multicast
pcie:N            N devices, PCI Express between all: peer access, no native
                  atomics
none:N            N devices that cannot reach each other
...,kernels=skip  any of these; modules load, kernels launch and do nothing
...,graphs=check  any of these; a graph that uses memory that is gone is
                  refused, not run
...,reuse=early   any of these; handles are given out again as early as
                  documentation allows
...,late:SEED     any of these, also a file; asynchronous work is done as late
                  as the rules allow
",
    );
    let errors = stdout(&mut with(&["list", "errors"]));
    let expected = "\
CODE  NAME                                       STRING
0     CUDA_SUCCESS                               no error
1     CUDA_ERROR_INVALID_VALUE                   invalid argument
2     CUDA_ERROR_OUT_OF_MEMORY                   out of memory
3     CUDA_ERROR_NOT_INITIALIZED                 initialization error
4     CUDA_ERROR_DEINITIALIZED                   driver shutting down
5     CUDA_ERROR_PROFILER_DISABLED               profiler disabled while using
                                                 external profiling tool
";
    let start: String = errors.split_inclusive('\n').take(8).collect();
    assert_lines(&start, expected);
    let json: Value = serde_json::from_str(&stdout(&mut with(&["list", "errors", "--format", "json"]))).unwrap();
    let known = RESULTS.len() + Library::Nvml.results().len();
    assert_eq!(json.as_array().unwrap().len(), known);
    assert_eq!(json[1]["name"], "CUDA_ERROR_INVALID_VALUE");
}

#[test]
fn the_list_of_variables_has_them_all() {
    let list = stdout(&mut with(&["list", "environment"]));
    let json: Value = serde_json::from_str(&stdout(&mut with(&["list", "environment", "--format", "json"]))).unwrap();
    for (i, variable) in cupeer_spec::env::VARIABLES.iter().enumerate() {
        assert!(list.lines().any(|line| line.starts_with(&format!("{} ", variable.name))), "{}", variable.name);
        assert_eq!(json[i]["name"], variable.name);
    }
}

#[test]
fn tables_fit_the_terminal() {
    for topic in ["functions", "errors", "topologies", "environment", "rules", "faults"] {
        for (columns, width) in [("80", 80), ("1", 80), ("120", 120)] {
            let table = stdout(with(&["list", topic]).env("COLUMNS", columns));
            let widest = table.lines().map(str::len).max().unwrap();
            assert!(widest <= width, "{topic} at {columns}: {widest}\n{table}");
        }
    }
    // A pipe has no end of the line.
    let whole = stdout(with(&["list", "errors"]).env_remove("COLUMNS"));
    assert!(whole.lines().skip(1).all(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())), "{whole}");
    let wide = stdout(with(&["list", "errors"]).env("COLUMNS", "240"));
    assert!(wide.lines().next().unwrap().ends_with("MEANING"), "{wide}");
    let wide = stdout(with(&["list", "functions"]).env("COLUMNS", "600"));
    assert!(wide.lines().next().unwrap().ends_with("SEEN RESULTS"), "{wide}");
}

#[test]
fn explains_a_function() {
    let text = stdout(&mut with(&["explain", "cuDeviceGetP2PAtomicCapabilities"]));
    assert_lines(
        text.split("\nRULE ").next().unwrap(),
        "\
CUresult cuDeviceGetP2PAtomicCapabilities(
    unsigned int *capabilities,
    const CUatomicOperation *operations,
    unsigned int count,
    CUdevice srcDevice,
    CUdevice dstDevice
);

Queries which atomic operations the link between two devices supports natively.

library       libcuda.so.1
looked up as  cuDeviceGetP2PAtomicCapabilities, from version 13.0 on
groups        @peer
simulated     recorded: its answers are compared with those recorded on a real
              driver

ARGUMENT      DIRECTION  TYPE
capabilities  out        unsigned int *, an array with count elements
operations    in         const CUatomicOperation *, an array with count elements
count         in         unsigned int
srcDevice     in         CUdevice
dstDevice     in         CUdevice

CODE  DOCUMENTED RESULT          MEANING
0     CUDA_SUCCESS               The API call returned with no errors.
101   CUDA_ERROR_INVALID_DEVICE  The device ordinal supplied by the user does
                                 not correspond to a valid CUDA device or that
                                 the action requested is invalid for the
                                 specified device.
1     CUDA_ERROR_INVALID_VALUE   One or more of the parameters passed to the API
                                 call is not within an acceptable range of
                                 values.

CODE  SEEN, NOT DOCUMENTED        MEANING
3     CUDA_ERROR_NOT_INITIALIZED  The CUDA driver has not been initialized with
                                  cuInit() or that initialization has failed.
",
    );
    for function in alterable_functions() {
        let text = stdout(&mut with(&["explain", function.name()]));
        assert!(text.contains(&*function.doc()) || text.replace('\n', " ").contains(&*function.doc()), "{text}");
        // A name that is longer than its column is not broken.
        let fits = |line: &str| line.len() <= 80 || !line.trim().contains(' ');
        assert!(text.lines().all(fits), "{text}");
    }
}

#[test]
fn explains_a_result_code_by_all_its_names() {
    let expected = "\
CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217: peer access is not supported between
these two devices

Peer access is not supported across the given devices.

Documented for
    cuCtxEnablePeerAccess
    cuIpcOpenEventHandle

Seen from real drivers, though not documented, for
    cuIpcOpenMemHandle
    cuIpcOpenMemHandle_v2
";
    for name in
        ["217", "0xd9", "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "PEER_ACCESS_UNSUPPORTED", "peer_access_unsupported"]
    {
        let text = stdout(&mut with(&["explain", name]));
        assert_lines(text.split("\ncuCtxEnablePeerAccess returns it if\n").next().unwrap(), expected);
    }
    assert!(
        stdout(&mut with(&["explain", "SUCCESS"]))
            .ends_with("All functions of libcuda.so.1 that cupeer intercepts document it.\n")
    );
    assert!(stdout(&mut with(&["explain", "919"])).ends_with("No function that cupeer intercepts documents it.\n"));
}

/// A line that says what it stands for, then what is said of that.
#[test]
fn explains_names_of_the_runtime() {
    let open = stdout(&mut with(&["explain", "cudaIpcOpenMemHandle"]));
    let said = "cudaIpcOpenMemHandle is a function of the runtime, and stands for\n\
                cuIpcOpenMemHandle and cuIpcOpenMemHandle_v2 of the driver.\n\n";
    let newest = stdout(&mut with(&["explain", "cuIpcOpenMemHandle_v2"]));
    assert_lines(&open, &(said.to_owned() + &newest));
    let result = stdout(&mut with(&["explain", "cudaErrorPeerAccessUnsupported"]));
    let said = "cudaErrorPeerAccessUnsupported is the runtime's name of\n\
                CUDA_ERROR_PEER_ACCESS_UNSUPPORTED (217), as of CUDA 10.1.\n\n";
    assert_lines(&result, &(said.to_owned() + &stdout(&mut with(&["explain", "217"]))));
    refused(
        &["explain", "cudaIpcOpenMemHandel"],
        "no function, result code, rule or key of fault plans is named 'cudaIpcOpenMemHandel'; did you mean 'cudaIpcOpenMemHandle'?",
    );
    for name in ["cudaErrorInsufficientDriver", "35"] {
        let only = stdout(&mut with(&["explain", name]));
        assert!(only.starts_with("cudaErrorInsufficientDriver = 35: CUDA driver version is insufficient"), "{only}");
    }
    let list = |what: &str| -> Vec<Value> {
        serde_json::from_str(&stdout(&mut with(&["list", what, "--format", "json"]))).unwrap()
    };
    let open = list("functions").into_iter().find(|f| f["function"] == "cuIpcOpenMemHandle_v2").unwrap();
    let failed = list("errors").into_iter().find(|r| r["name"] == "CUDA_ERROR_MAP_FAILED").unwrap();
    assert_eq!(
        (&open["runtime"], &failed["runtime"]),
        (&"cudaIpcOpenMemHandle".into(), &"cudaErrorMapBufferObjectFailed".into())
    );
    let wide = stdout(with(&["list", "functions"]).env("COLUMNS", "240"));
    assert!(
        wide.lines()
            .any(|line| line.starts_with("cuCtxEnablePeerAccess ") && line.contains(" cudaDeviceEnablePeerAccess ")),
        "{wide}"
    );
}

/// Names of the runtime stand for functions of the driver in all options, and cupeer explains them once.
#[test]
fn options_take_names_of_the_runtime() {
    let text = "#include <stdio.h>\nint cuInit(unsigned); int cuDeviceCanAccessPeer(int *, int, int);\n\
        int main(void) { int can; printf(\"%d %d\\n\", cuInit(0), cuDeviceCanAccessPeer(&can, 0, 1)); return 0; }";
    let driver = sim_dir().join("libcuda.so");
    let program = compile_text("named-by-the-runtime", text, &[driver.to_str().unwrap()]);
    let directory = temp_dir();
    let record = directory.path().join("record");
    let rule = "cudaDeviceCanAccessPeer:error=cudaErrorInvalidDevice";
    let mut command = with(&["run", "--sim", "--log", "text", "--trace", "cudaDeviceCan*", "--inject", rule, "--out"]);
    let ended = done(command.arg(&record).arg("--").arg(&program));
    assert_eq!(ended.stdout, "0 101\n", "{}", ended.stderr);
    let said = "cupeer: cudaDeviceCanAccessPeer is a function of the runtime, and stands for cuDeviceCanAccessPeer of the driver\n";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert!(
        ended.stderr.contains(
            "cupeer: cudaErrorInvalidDevice is the runtime's name of CUDA_ERROR_INVALID_DEVICE (101), as of CUDA 10.1\n"
        ),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("cuDeviceCanAccessPeer("), "it is logged: {}", ended.stderr);
    let shown = done(with(&["report", "--function", "cudaDeviceCanAccessPeer", "--format", "json"]).arg(&record));
    let report: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert!(shown.stderr.contains(said) && report.to_string().contains("cuDeviceCanAccessPeer"), "{}", shown.stderr);
}

#[test]
fn explains_no_more_than_it_knows() {
    let lists = "'cupeer list' with functions, errors, rules or faults lists them all";
    for (name, hint) in [
        ("cuIpcOpnMemHandle", "did you mean 'cuIpcOpenMemHandle'?"),
        ("MAP_FALED", "did you mean 'MAP_FAILED'?"),
        ("printf", lists),
        ("", lists),
    ] {
        let none = format!("no function, result code, rule or key of fault plans is named '{name}'");
        refused(&["explain", name], &format!("{none}; {hint}"));
    }
    for number in ["99999", "-5", "5000000000"] {
        refused(
            &["explain", number],
            &format!("no result code has the number {number}; 'cupeer list errors' lists them all"),
        );
    }
}

/// The options that make every variable, with values that every format has to quote.
fn hard() -> Vec<&'static str> {
    let log = LOG.get_or_init(|| {
        // Beside the libraries: the mount of a directory above them would also show them.
        let directory = install().with_file_name("job's log");
        fs::create_dir_all(&directory).unwrap();
        directory.join("it's \"$HOME\" %p").into_os_string().into_string().unwrap()
    });
    let options = ["--log", "json", "--log-file", log, "--trace", "@ipc,cuIpc*,^*Event*"];
    [&options[..], &["--failed", "--sim=pcie:3"]].concat()
}

static LOG: OnceLock<String> = OnceLock::new();

/// Returns the variables that `cupeer run` sets, as `env -0` prints them in a program.
fn set_by_run(options: &[&str], before: &[(&str, &str)]) -> Vec<String> {
    let shown = stdout(cupeer().arg("run").args(options).args(["env", "-0"]).envs(before.iter().copied()));
    ours(&shown)
}

fn ours(shown: &str) -> Vec<String> {
    let is_ours = |line: &&str| line.starts_with("CUPEER_") || line.starts_with("LD_");
    let mut lines: Vec<String> = shown.split('\0').filter(is_ours).map(str::to_owned).collect();
    lines.retain(|line| !line.starts_with("CUPEER_STATUS="));
    lines.sort();
    lines
}

const KEY: (&str, &str) = ("CUPEER_JOB", "0123456789abcdef0123456789abcdef");

#[test]
fn settings_for_a_shell_are_those_of_run() {
    for before in [&[KEY][..], &[KEY, ("LD_LIBRARY_PATH", "/a b:/c"), ("LD_PRELOAD", "")]] {
        let text = stdout(with(&["env", "--format", "sh"]).args(hard()).envs(before.iter().copied()));
        // Twice, since a profile may be read twice.
        let line = format!("set -eu; {text}{text} exec env -0");
        let shown = stdout(plain("sh").arg("-c").arg(line).envs(before.iter().copied()));
        assert_eq!(ours(&shown), set_by_run(&hard(), before));
    }
}

/// The words that a shell makes of what a format prints.
fn words(format: &str, options: &[&str]) -> Vec<String> {
    let text = stdout(with(&["env", "--format", format]).args(options).env(KEY.0, KEY.1));
    let line = r#"eval "printf '%s\\0' $TEXT""#;
    let shown = stdout(plain("sh").arg("-c").arg(line).env("TEXT", text));
    shown.trim_end_matches('\0').split('\0').map(str::to_owned).collect()
}

#[test]
fn settings_for_docker_and_mpirun_survive_the_shell() {
    let expected = set_by_run(&hard(), &[KEY]);
    for (format, option) in [("docker", "-e"), ("mpirun", "-x")] {
        let words = words(format, &hard());
        let mut set: Vec<String> =
            words.chunks(2).filter(|pair| pair[0] == option).map(|pair| pair[1].clone()).collect();
        set.sort();
        assert_eq!(set, expected, "{format}");
        if format == "docker" {
            let lib = install().join("lib/cupeer");
            let mount = format!("{0}:{0}:ro", lib.display());
            let log = format!("{0}:{0}", lib.ancestors().nth(3).unwrap().join("job's log").display());
            assert_eq!(words[words.len() - 4..], ["-v".to_owned(), mount, "-v".to_owned(), log]);
        }
    }
}

/// A rank that finds its libraries by a module's path must still find them, as under `cupeer run`.
#[test]
fn launchers_keep_the_paths_that_the_loader_has() {
    let of = |format: &str| {
        let mut command = cupeer();
        command.args(["env", "--sim=nvlink:2", "--record=off", "--format", format]);
        stdout(command.env("LD_LIBRARY_PATH", "/opt/module/lib").env("LD_PRELOAD", "libm.so.6"))
    };
    let library = install().join("lib/cupeer/libcupeer.so").display().to_string();
    for format in ["mpirun", "srun"] {
        let printed = of(format);
        assert!(printed.contains(&format!("LD_PRELOAD=libm.so.6:{library}")), "{printed}");
        assert!(printed.contains(":/opt/module/lib"), "{printed}");
    }
    let printed = of("ray");
    assert!(printed.contains(&format!("\"${{LD_PRELOAD}}:{library}\"")), "{printed}");
    assert!(printed.contains(":${LD_LIBRARY_PATH}\""), "{printed}");
}

/// A log is of use where somebody reads it: outside.
#[test]
fn containers_see_the_directory_of_the_log() {
    let lib = install().join("lib/cupeer").display().to_string();
    let folder = temp_dir();
    let at = |path: &str| folder.path().join(path).display().to_string();
    fs::create_dir(at("logs")).unwrap();
    let mounts = |log: &str, more: &[&str]| -> Vec<String> {
        let words = words("docker", &[&["--log", "text", "--log-file", log], more].concat());
        let mounts = words.chunks(2).filter(|pair| pair[0] == "-v").map(|pair| pair[1].clone());
        mounts.collect()
    };
    let (ours, logs) = (format!("{lib}:{lib}:ro"), format!("{0}:{0}", at("logs")));
    assert_eq!(mounts(&at("logs/%h.%p"), &[]), [ours.clone(), logs.clone()]);
    assert_eq!(mounts(&at("logs/%h/%p"), &[]), [ours.clone(), logs.clone()]);
    // A path below another mount needs no mount of its own.
    let (out, all) = (at("logs/record"), &["--record", "full", "--out"][..]);
    assert_eq!(mounts(&at("logs/log"), &[all, &[&out]].concat()), [ours.clone(), logs]);
    // A device is the container's own.
    assert_eq!(mounts("/dev/stderr", &[]), [ours]);
    refused(
        &["env", "--format", "docker", "--log", "text", "--log-file", "/%h/%p.log"],
        "--log-file '/%h/%p.log': a container cannot see it, because / cannot be mounted; name a file in a directory",
    );
}

#[test]
fn settings_for_srun_keep_commas_together() {
    let options = ["--log", "json", "--trace", "@ipc,cuIpc*"];
    assert_eq!(
        words("srun", &options),
        [format!(
            "--export=ALL,CUPEER_LOG=json,\"CUPEER_TRACE=@ipc,cuIpc*\",CUPEER_RECORD=off,{}={},LD_PRELOAD={}",
            KEY.0,
            KEY.1,
            preload_library().display()
        )]
    );
    refused(
        &["env", "--format", "srun", "--log", "json", "--log-file", "/tmp/it's,%p"],
        "srun's --export cannot carry CUPEER_LOG_FILE: it contains quotes",
    );
}

#[test]
fn settings_for_ray_and_kubernetes_are_their_formats() {
    let options = [&["env"], &hard()[..], &["--format"]].concat();
    let text = stdout(with(&options).arg("ray").env(KEY.0, KEY.1));
    let ray: Value = serde_json::from_str(&text).unwrap();
    let mut set: Vec<String> = ray["env_vars"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap()))
        // Nothing of the worker's is in them here.
        .map(|set| set.replace("${LD_PRELOAD}:", "").replace(":${LD_LIBRARY_PATH}", ""))
        .collect();
    set.sort();
    assert_eq!(set, set_by_run(&hard(), &[KEY]));

    let text = stdout(with(&options).arg("k8s").env(KEY.0, KEY.1));
    let quoted = |path: &str| serde_json::to_string(path).unwrap();
    let lib = quoted(install().join("lib/cupeer").to_str().unwrap());
    let log = LOG.get().unwrap();
    let (directory, _) = log.rsplit_once('/').unwrap();
    let (directory, log) = (quoted(directory), quoted(log));
    assert_lines(
        &text,
        &format!(
            r#"env:
- name: CUPEER_LOG
  value: "json"
- name: CUPEER_LOG_FILE
  value: {log}
- name: CUPEER_TRACE
  value: "@ipc,cuIpc*,^*Event*"
- name: CUPEER_FAILED
  value: "1"
- name: CUPEER_SIM
  value: "pcie:3"
- name: CUPEER_RECORD
  value: "off"
- name: CUPEER_JOB
  value: "{}"
- name: LD_PRELOAD
  value: "{}"
- name: LD_LIBRARY_PATH
  value: "{}"
volumeMounts:
- name: cupeer-0
  mountPath: {lib}
  readOnly: true
- name: cupeer-1
  mountPath: {directory}
  readOnly: false
# These belong to the pod, not to the container:
volumes:
- name: cupeer-0
  hostPath:
    path: {lib}
- name: cupeer-1
  hostPath:
    path: {directory}
"#,
            KEY.1,
            preload_library().display(),
            sim_dir().display()
        ),
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for args in [&["list", "errors"][..], &["list", "functions", "--format", "json"], &["--help"]] {
        let mut child = with(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut words = String::new();
        child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert_eq!((child.wait().unwrap().code(), words.as_str()), (Some(0), ""), "{args:?}");
    }
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = with(&["list", "errors"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(ended.status.code(), Some(125));
    let words = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(words, "cupeer: failed to write to stdout: No space left on device (os error 28)\n");
}

#[test]
fn explains_what_it_does_not_intercept() {
    let text = stdout(&mut with(&["explain", "cuMemAllocHost_v2"]));
    assert!(text.contains("does not intercept it") && text.contains("cuMemAllocHost, from version 3.2 on"), "{text}");
}

/// The page about launchers shows the variables as `cupeer env` prints them, but for the key and for where it is installed.
#[test]
fn the_page_about_launchers_shows_what_env_prints() {
    let page = include_str!("../docs/guides/launchers.md");
    let shown = page.split_once("$ cupeer env -o /tmp/job1 --format docker\n").expect("the command").1;
    let folder = crate::support::temp_dir();
    let job = folder.path().join("job1");
    let printed = crate::support::stdout(crate::support::cupeer().args(["env", "--format", "docker", "-o"]).arg(&job));
    let variables = |line: &str| -> Vec<String> {
        let words = line.split_whitespace().filter(|word| word.contains('='));
        let named = words.map(|word| word.split_once('=').expect("it has one"));
        let is_own = |name: &str| ["CUPEER_OUT", "CUPEER_JOB", "LD_PRELOAD"].contains(&name);
        named.map(|(name, value)| if is_own(name) { name.to_owned() } else { format!("{name}={value}") }).collect()
    };
    let [shown, printed] = [shown, &printed].map(|text| variables(text.lines().next().unwrap_or_default()));
    assert_eq!(shown, printed);
}
