//! Meanings of rules.

use super::rule;
use crate::fault::parse::keys::KEYS;
use crate::fault::*;
use crate::function::{FnId, FnSpec, alterable_functions};
use crate::record::faults;

fn numbers(text: &str) -> (ConditionKey, bool, Vec<(u64, u64)>) {
    let rule = rule(text);
    assert_eq!(rule.conditions.len(), 1, "{text}");
    let ConditionValues::Numbers(ranges) = rule.conditions[0].values.clone() else { panic!("{text}: no numbers") };
    (rule.conditions[0].key.clone(), rule.conditions[0].not, ranges)
}

fn patterns(text: &str) -> (ConditionKey, bool, Vec<String>) {
    let rule = rule(text);
    let ConditionValues::Patterns(patterns) = rule.conditions[0].values.clone() else { panic!("{text}: no patterns") };
    (rule.conditions[0].key.clone(), rule.conditions[0].not, patterns)
}

#[test]
fn omitted_keys_have_defaults() {
    let rule = rule("@ipc:delay=0s");
    assert_eq!((rule.when, rule.per, rule.together), (CallSelection::ALWAYS, CounterScope::Process, false));
    assert_eq!((rule.probability, rule.seed, rule.times, rule.conditions.len()), (1.0, 0, None, 0));
}

#[test]
fn numbers_are_lists_of_ranges() {
    let max = u64::MAX;
    for (clause, key, not, ranges) in [
        ("dev=0,2..3", ConditionKey::Dev, false, &[(0, 0), (2, 3)][..]),
        ("dev=^1", ConditionKey::Dev, true, &[(1, 1)]),
        ("dev=-1", ConditionKey::Dev, false, &[(0xffff_ffff, 0xffff_ffff)]),
        ("peer=0x1f..", ConditionKey::Peer, false, &[(31, max)]),
        ("ctx=0xdeadbeefdeadbeef", ConditionKey::Ctx, false, &[(0xdead_beef_dead_beef, 0xdead_beef_dead_beef)]),
        ("size=..64K,1M..2G,0x10", ConditionKey::Size, false, &[(0, 65536), (1 << 20, 2 << 30), (16, 16)]),
        ("handle=^3f,0x40", ConditionKey::Handle, true, &[(0x3f, 0x3f), (0x40, 0x40)]),
        ("rank=0..3", ConditionKey::Rank, false, &[(0, 3)]),
        ("local-rank=0", ConditionKey::LocalRank, false, &[(0, 0)]),
        ("pid=4711", ConditionKey::Pid, false, &[(4711, 4711)]),
        ("process=2..", ConditionKey::Process, false, &[(2, max)]),
        ("thread=17..19", ConditionKey::Thread, false, &[(17, 19)]),
        ("stack=00000000000000ff", ConditionKey::Stack, false, &[(255, 255)]),
        ("prev=SUCCESS,cuda_error_map_failed,700..", ConditionKey::Prev, false, &[(0, 0), (205, 205), (700, max)]),
        ("prev=NVML_ERROR_NOT_SUPPORTED", ConditionKey::Prev, false, &[(3, 3)]),
        ("prev=NOT_SUPPORTED", ConditionKey::Prev, false, &[(801, 801)]),
        ("prev=^0", ConditionKey::Prev, true, &[(0, 0)]),
        ("after=2s", ConditionKey::Time, false, &[(2_000_000_000, max)]),
        ("until=1m", ConditionKey::Time, false, &[(0, 60_000_000_000)]),
        ("site=new", ConditionKey::NewSite, false, &[]),
        ("site=25%", ConditionKey::SomeSites, false, &[(0, 249_999)]),
        ("site=1", ConditionKey::SomeSites, false, &[(0, 999_999)]),
    ] {
        assert_eq!(numbers(&format!("@ipc:{clause}:delay=1ms")), (key, not, ranges.to_vec()), "{clause}");
    }
}

#[test]
fn names_are_patterns() {
    for (clause, key, not, wanted) in [
        ("program=python*,a.out", ConditionKey::Program, false, &["python*", "a.out"][..]),
        ("thread=main", ConditionKey::Thread, false, &["main"]),
        ("thread=^pt_?ata*", ConditionKey::Thread, true, &["pt_?ata*"]),
        ("caller=libnccl*", ConditionKey::Caller, false, &["libnccl*"]),
        ("mark=epoch?2", ConditionKey::Mark, false, &["epoch?2"]),
    ] {
        let wanted = wanted.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(patterns(&format!("@ipc:{clause}:delay=1ms")), (key, not, wanted), "{clause}");
    }
}

#[test]
fn arguments_are_named_as_in_the_header_in_any_case() {
    for (text, key, ranges) in [
        ("cuIpcOpenMemHandle*:flags=1", "Flags", (1, 1)),
        ("cuIpcOpenMemHandle*:FLAGS=LAZY_ENABLE_PEER_ACCESS", "Flags", (1, 1)),
        ("cuDeviceGetP2PAttribute:attrib=ACCESS_SUPPORTED", "attrib", (2, 2)),
        ("cuDeviceGetP2PAttribute:attrib=CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED", "attrib", (2, 2)),
        ("cuDeviceGetP2PAttribute:attrib=P2P_ATTRIBUTE_ACCESS_SUPPORTED", "attrib", (2, 2)),
        ("cuDeviceGetP2PAttribute:attrib=access_supported", "attrib", (2, 2)),
        ("cuDeviceGetP2PAttribute:attrib=2..", "attrib", (2, u64::MAX)),
        ("cuDeviceGetP2PAttribute:srcDevice=-2", "srcDevice", (0xffff_fffe, 0xffff_fffe)),
        ("@ipc:dptr=-1", "dptr", (u64::MAX, u64::MAX)),
        ("cuGetProcAddress*:cudaVersion=..12000", "cudaVersion", (0, 12000)),
        ("all:peerContext=0", "peerContext", (0, 0)),
        ("cuMemImport*:osHandle=57", "osHandle", (57, 57)),
        ("cuMemExport*:handleType=POSIX_FILE_DESCRIPTOR", "handleType", (1, 1)),
        ("@vmm:shHandleType=fabric", "shHandleType", (8, 8)),
    ] {
        let wanted = (ConditionKey::Argument(key), false, vec![ranges]);
        assert_eq!(numbers(&format!("{text}:delay=1ms")), wanted, "{text}");
    }
    let symbol = patterns("@lookup:symbol=^cuIpc*,cuCtx*:delay=1ms");
    assert_eq!(symbol, (ConditionKey::Argument("symbol"), true, vec!["cuIpc*".into(), "cuCtx*".into()]));
}

#[test]
fn every_argument_that_can_be_compared_is_a_key_and_no_other() {
    for function in alterable_functions() {
        for arg in function.args() {
            let value = if arg.type_word() == "c_char" { "x" } else { "1" };
            let text = format!("{}:{}={value}:delay=1ms", function.name(), arg.name());
            let own = KEYS.iter().any(|key| key.name == arg.name() && (key.name != "handle" || arg.is_ipc_handle()));
            let is_in = matches!(arg.direction, crate::function::Direction::In | crate::function::Direction::String);
            let is_structure = arg.arg_type().name.starts_with('*')
                && arg.handle_kind_argument().is_none()
                && is_in
                && arg.type_word() != "c_char";
            let compared = own || is_in && arg.count_argument().is_none() && !arg.is_ipc_handle() && !is_structure;
            assert_eq!(FaultPlan::parse("plan", &text).is_ok(), compared, "{text}");
        }
    }
}

#[test]
fn when_is_as_in_strace() {
    let max = u64::MAX;
    for (text, first, last, step) in [
        ("3", 3, 3, 1),
        ("3+", 3, max, 1),
        ("3+2", 3, max, 2),
        ("3..5", 3, 5, 1),
        ("3..3", 3, 3, 1),
        ("3..5+", 3, 5, 1),
        ("3..9+2", 3, 9, 2),
        ("0x10", 16, 16, 1),
    ] {
        assert_eq!(rule(&format!("@ipc:when={text}:delay=1ms")).when, CallSelection { first, last, step }, "{text}");
    }
}

#[test]
fn shares_and_times_have_units() {
    for (text, wanted) in [("10%", 0.1), ("0.1", 0.1), ("1", 1.0), ("100%", 1.0), ("0.5%", 0.005), ("0.25", 0.25)] {
        assert_eq!(rule(&format!("@ipc:p={text}:delay=1ms")).probability, wanted, "{text}");
    }
    for (text, wanted) in [
        ("7ns", 7),
        ("5us", 5_000),
        ("5ms", 5_000_000),
        ("1.5s", 1_500_000_000),
        ("0.000000001s", 1),
        ("1.500ms", 1_500_000),
        ("2m", 120_000_000_000),
        ("0.5h", 1_800_000_000_000),
        ("0.0000000000025h", 9),
        ("100000h", 360_000_000_000_000_000),
    ] {
        let delay = rule(&format!("@ipc:delay-after={text}")).action.delay_after;
        assert_eq!(delay, Some(FaultDelay { time: wanted, jitter: 0 }), "{text}");
    }
    let delay = rule("@ipc:delay=5ms~1.5ms").action.delay;
    assert_eq!(delay, Some(FaultDelay { time: 5_000_000, jitter: 1_500_000 }));
}

#[test]
fn counters_have_scopes() {
    for (per, word) in CounterScope::ALL {
        assert_eq!(rule(&format!("@ipc:per={word}:delay=1ms")).per, *per);
        assert!(rule(&format!("@ipc:per={word}/rule:delay=1ms")).together);
    }
    let rule = rule("@ipc:p=10%:seed=0x7:times=3:delay=1ms");
    assert_eq!((rule.seed, rule.times), (7, Some(3)));
}

#[test]
fn results_are_documented_or_seen_or_forced() {
    let error = |text: &str| rule(text).action.error;
    assert_eq!(error("cuIpcOpenMemHandle:error=205"), Some(FaultResult::Code(205)));
    assert_eq!(error("cuIpcOpenMemHandle:error=cuda_error_map_failed"), Some(FaultResult::Code(205)));
    assert_eq!(error("cudaIpcOpenMemHandle:error=cudaErrorMapBufferObjectFailed"), Some(FaultResult::Code(205)));
    assert_eq!(error("cuIpcOpenMemHandle:error=any"), Some(FaultResult::Any));
    assert_eq!(error("cuIpcOpenMemHandle:error=NO_DEVICE:force"), Some(FaultResult::Code(100)));
    assert_eq!(error("cuIpcOpenMemHandle:force:error=12345"), Some(FaultResult::Code(12345)));
    assert_eq!(error("cuIpcOpenMemHandle:force:error=-1"), Some(FaultResult::Code(-1)));
    assert_eq!(error("cuIpcCloseMemHandle:force:error=any"), Some(FaultResult::Any));
    assert_eq!(error("nvmlDeviceGetNvLinkState:error=NOT_SUPPORTED"), Some(FaultResult::Code(3)));
    assert_eq!(error("cuGetProcAddress*:error=NOT_SUPPORTED"), Some(FaultResult::Code(801)));
    // Real drivers were seen to return these, although the documentation of the function does not list them.
    for (code, number) in [("PEER_ACCESS_UNSUPPORTED", 217), ("NOT_PERMITTED", 800), ("INVALID_DEVICE", 101)] {
        let wanted = Some(FaultResult::Code(number));
        assert_eq!(error(&format!("cuIpcOpenMemHandle*:error={code}")), wanted);
    }
    // Documented and observed results need no `force`. All others do.
    for function in alterable_functions() {
        let releases =
            function.is_in(crate::function::Group::Release) || function.is_in(crate::function::Group::Lifetime);
        for code in (1..1000).filter(|code| function.result_name(*code).is_some()) {
            // A name without its version means all versions.
            let is_named = |f: &&FnSpec| f.name() == function.name() || f.lookup() == function.name();
            let known = alterable_functions().filter(is_named).all(|f| f.failures().any(|known| known == code));
            let parsed = |force: &str| FaultPlan::parse("plan", &format!("{}:error={code}{force}", function.name()));
            assert_eq!(parsed("").is_ok(), known && !releases, "{} {code}", function.name());
            assert!(parsed(":force").is_ok(), "{} {code}", function.name());
        }
    }
}

#[test]
fn stages() {
    let stage = |word: &str| rule(&format!("cuCtxEnable*:error=TOO_MANY_PEERS:stage={word}")).action.stage;
    assert_eq!(
        [stage("instead"), stage("after"), stage("undo")],
        [RealCallTreatment::Instead, RealCallTreatment::After, RealCallTreatment::Undo]
    );
    for id in FnId::all().filter(|id| id.spec().is_alterable()) {
        let text = format!("{}:error=any:force:stage=undo", id.spec().name());
        assert_eq!(FaultPlan::parse("plan", &text).is_ok(), id.spec().undone_by().is_some(), "{text}");
    }
}

#[test]
fn outputs() {
    let outs = |text: &str| rule(text).action.outs;
    let one = |argument, value| vec![OutputChange { argument, value }];
    assert_eq!(outs("cuIpcOpenMemHandle*:out=pdptr=null"), one("pdptr", OutputValue::Zero));
    // A descriptor has four bytes.
    let descriptor = OutputValue::Number(0xffff_ffff);
    assert_eq!(outs("cuMemExport*:out=shareableHandle=-1"), one("shareableHandle", descriptor));
    assert_eq!(outs("cuIpcOpenMemHandle*:out=PDPTR=0x7f00"), one("pdptr", OutputValue::Number(0x7f00)));
    assert_eq!(outs("@peer:out=canaccesspeer=-1"), one("canAccessPeer", OutputValue::Number(0xffff_ffff)));
    assert_eq!(outs("@peer:out=capabilities=3"), one("capabilities", OutputValue::Number(3)));
    assert_eq!(outs("cuIpcGet*:out=pHandle=zero"), one("pHandle", OutputValue::Zero));
    assert_eq!(outs("cuIpcGet*:out=pHandle=flip/63"), one("pHandle", OutputValue::Flip(63)));
    assert_eq!(outs("cuIpcGet*:out=pHandle=other"), one("pHandle", OutputValue::Other));
    assert_eq!(outs("nvmlDeviceGetNvLinkRemotePciInfo*:out=pci=zero"), one("pci", OutputValue::Zero));
    assert_eq!(outs("nvmlDeviceGetP2PStatus:out=p2pStatus=5"), one("p2pStatus", OutputValue::Number(5)));
    let status = "cuGetProcAddress_v2:out=pfn=null,symbolStatus=SYMBOL_NOT_FOUND";
    let wanted = [("pfn", OutputValue::Zero), ("symbolStatus", OutputValue::Number(1))];
    assert_eq!(outs(status), wanted.map(|(argument, value)| OutputChange { argument, value }));
}

#[test]
fn ends() {
    let action = |text: &str| rule(text).action;
    assert_eq!(action("@ipc:hang").hang.as_deref(), Some("hang"));
    assert_eq!(action("@ipc:hang=a.b_c-1").hang.as_deref(), Some("a.b_c-1"));
    for (text, number) in [("SEGV", 11), ("SIGSEGV", 11), ("sigkill", 9), ("SYS", 31), ("USR1", 10), ("64", 64)] {
        assert_eq!(action(&format!("@ipc:signal={text}")).signal, Some(number), "{text}");
    }
    assert_eq!(action("@ipc:exit=255").exit, Some(255));
    let all = action("@enable:delay=1ms:delay-after=2ms:hang:signal=USR1:error=any");
    assert!(all.delay.is_some() && all.delay_after.is_some() && all.hang.is_some() && all.signal == Some(10));
}

#[test]
fn rules_are_separated_and_named() {
    let plan =
        FaultPlan::parse("p", " @ipc:delay=1ms ;;\n\r\n@ipc:delay=2ms:name=b\r\n;@ipc:hang:name=other/7;\t").unwrap();
    let names: Vec<&str> = plan.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["p/1", "p/b", "other/7"]);
    assert_eq!(plan.rules[0].text, "@ipc:delay=1ms");
    for empty in ["", ";", " \n\n;; \r\n"] {
        assert_eq!(FaultPlan::parse("p", empty), Ok(FaultPlan::default()));
    }
}

#[test]
fn handed_down_rules_have_a_name_and_a_seed() {
    for (text, wanted) in [
        ("@ipc:delay=1ms", "@ipc:delay=1ms:name=plan/1"),
        ("@ipc:p=10%:name=a:delay=1ms", "@ipc:p=10%:delay=1ms:seed=9:name=plan/a"),
        ("@ipc:seed=3:delay=2ms~1ms", "@ipc:seed=3:delay=2ms~1ms:name=plan/1"),
        ("@enable:error=any", "@enable:error=any:seed=9:name=plan/1"),
        ("@ipc:site=5%:delay=1ms:name=x/y", "@ipc:site=5%:delay=1ms:seed=9:name=x/y"),
        ("@ipc:site=new:p=1:delay=1ms~0s", "@ipc:site=new:p=1:delay=1ms~0s:name=plan/1"),
    ] {
        assert_eq!(rule(text).self_contained_text(9), wanted);
    }
}

#[test]
fn a_plan_is_written_and_read() {
    let plan = FaultPlan::parse("p", "@ipc:p=10%:delay=1ms\ncuIpcGetMemHandle:name=n:hang=x").expect("a plan");
    let text = faults::format_plan_lines(plan.rules.iter().map(|rule| (&*rule.name, rule.self_contained_text(7))));
    let again =
        FaultPlan::parse("armed", &faults::plan_without_names(text.as_bytes()).expect("its text")).expect("a plan");
    let names: Vec<&str> = again.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!((names, again.rules[0].seed), (vec!["p/1", "p/n"], 7));
    for wrong in [&b"word"[..], b"a b\nword\n", b"a \xff"] {
        assert_eq!(faults::plan_without_names(wrong), None);
    }
}
