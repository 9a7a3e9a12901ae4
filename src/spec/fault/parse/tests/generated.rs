//! Generated rules: all of them are accepted, and rules that are written in another form have the same
//! meaning.

use super::rule;
use crate::fault::*;
use crate::function::{Direction, FUNCTIONS, FnSpec, alterable_functions};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// Formats a parsed rule in its canonical form.
pub fn canonical(rule: &PlannedFault, force: bool) -> String {
    let selected = FUNCTIONS.iter().enumerate().filter(|(index, _)| rule.functions.contains(*index));
    let mut text = selected.map(|(_, function)| function.name()).collect::<Vec<_>>().join(",");
    for condition in &rule.conditions {
        text += &format!(":{}", clause(condition));
    }
    let CallSelection { first, last, step } = rule.when;
    if rule.when != CallSelection::ALWAYS {
        let last = if last == u64::MAX { String::new() } else { format!("..{last}") };
        text += &format!(":when={first}{last}+{step}");
    }
    let per = CounterScope::ALL.iter().find(|(per, _)| *per == rule.per).unwrap().1;
    text += &format!(":per={per}{}", if rule.together { "/rule" } else { "" });
    text += &format!(":p={}:seed={}", rule.probability, rule.seed);
    rule.times.iter().for_each(|times| text += &format!(":times={times}"));
    let action = &rule.action;
    match action.error {
        Some(FaultResult::Code(code)) => text += &format!(":error={code}"),
        Some(FaultResult::Any) => text += ":error=any",
        None => {}
    }
    if action.error.is_some() {
        text += match action.stage {
            RealCallTreatment::Instead => ":stage=instead",
            RealCallTreatment::After => ":stage=after",
            RealCallTreatment::Undo => ":stage=undo",
        };
    }
    let outs: Vec<String> = action.outs.iter().map(|out| format!("{}={}", out.argument, value(out.value))).collect();
    if !outs.is_empty() {
        text += &format!(":out={}", outs.join(","));
    }
    for (key, wait) in [("delay", action.delay), ("delay-after", action.delay_after)] {
        wait.iter().for_each(|wait| text += &format!(":{key}={}ns~{}ns", wait.time, wait.jitter));
    }
    action.hang.iter().for_each(|label| text += &format!(":hang={label}"));
    action.signal.iter().for_each(|signal| text += &format!(":signal={signal}"));
    action.exit.iter().for_each(|exit| text += &format!(":exit={exit}"));
    text + if force { ":force" } else { "" } + ":name=" + &rule.name
}

fn value(value: OutputValue) -> String {
    match value {
        OutputValue::Number(number) => number.to_string(),
        OutputValue::Zero => "zero".into(),
        OutputValue::Flip(byte) => format!("flip/{byte}"),
        OutputValue::Other => "other".into(),
    }
}

fn clause(condition: &FaultCondition) -> String {
    let not = if condition.not { "^" } else { "" };
    let key = match condition.key {
        ConditionKey::Dev => "dev",
        ConditionKey::Peer => "peer",
        ConditionKey::Ctx => "ctx",
        ConditionKey::Size => "size",
        ConditionKey::Handle => "handle",
        ConditionKey::Rank => "rank",
        ConditionKey::LocalRank => "local-rank",
        ConditionKey::Pid => "pid",
        ConditionKey::Process => "process",
        ConditionKey::Program => "program",
        ConditionKey::Thread => "thread",
        ConditionKey::Caller => "caller",
        ConditionKey::Stack => "stack",
        ConditionKey::Prev => "prev",
        ConditionKey::Argument(name) => name,
        ConditionKey::Time | ConditionKey::NewSite | ConditionKey::SomeSites => "",
        ConditionKey::Mark => "mark",
    };
    let values: Vec<String> = match (&condition.key, &condition.values) {
        (ConditionKey::NewSite, _) => return "site=new".into(),
        (ConditionKey::SomeSites, ConditionValues::Numbers(ranges)) => {
            return format!("site={}.{:04}%", (ranges[0].1 + 1) / 10_000, (ranges[0].1 + 1) % 10_000);
        }
        (ConditionKey::Time, ConditionValues::Numbers(ranges)) => match ranges[0] {
            (from, u64::MAX) => return format!("after={from}ns"),
            (_, to) => return format!("until={to}ns"),
        },
        (_, ConditionValues::Patterns(patterns)) => patterns.clone(),
        (ConditionKey::Handle | ConditionKey::Stack, ConditionValues::Numbers(ranges)) => {
            ranges.iter().map(|(number, _)| format!("{number:016x}")).collect()
        }
        (_, ConditionValues::Numbers(ranges)) => ranges.iter().map(range).collect(),
    };
    format!("{key}={not}{}", values.join(","))
}

fn range((from, to): &(u64, u64)) -> String {
    match (from, to) {
        (from, to) if from == to => from.to_string(),
        (from, &u64::MAX) => format!("{from}.."),
        (0, to) => format!("..{to}"),
        (from, to) => format!("{from}..{to}"),
    }
}

/// Returns true if two rules have the same meaning, even if they are written differently.
pub fn same(one: &PlannedFault, other: &PlannedFault) -> bool {
    let bare = |rule: &PlannedFault| {
        let mut rule = PlannedFault { text: String::new(), ..rule.clone() };
        rule.conditions.sort_by_key(|condition| format!("{condition:?}"));
        rule
    };
    bare(one) == bare(other)
}

/// Parses a text, writes the rule, and checks that the written rule is parsed as the same rule.
pub fn proven(text: &str) -> PlannedFault {
    let rule = rule(text);
    let again = super::rule(&canonical(&rule, rule.has_clause("force")));
    assert!(same(&rule, &again), "{text}\n{rule:?}\n{again:?}");
    rule
}

fn list(item: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    (any::<bool>(), proptest::collection::vec(item, 1..4))
        .prop_map(|(not, items)| format!("{}{}", if not { "^" } else { "" }, items.join(",")))
        .boxed()
}

fn numbers(most: u64) -> BoxedStrategy<String> {
    let number = move || (1..=most).prop_flat_map(|n| select(vec![n.to_string(), format!("{n:#x}")]));
    let range = (1..most).prop_flat_map(move |from| (Just(from), from..=most));
    list(prop_oneof![
        number(),
        number().prop_map(|n| format!("{n}..")),
        number().prop_map(|n| format!("..{n}")),
        range.prop_map(|(from, to)| format!("{from}..{to}")),
    ])
}

fn time() -> impl Strategy<Value = u64> {
    1u64..1_000_000
}

/// The clauses that choose calls.
fn choices() -> Vec<BoxedStrategy<String>> {
    let named =
        |key: &'static str, values: BoxedStrategy<String>| values.prop_map(move |v| format!("{key}={v}")).boxed();
    let hex = || list("[0-9a-f]{1,16}");
    let glob = || list("[a-zA-Z_*?][a-zA-Z0-9._*?-]{0,8}");
    vec![
        named("dev", numbers(7)),
        named("peer", numbers(0xffff_ffff)),
        named("ctx", numbers(u64::MAX - 1)),
        named("size", list("[1-9][0-9]{0,3}[KMG]?")),
        named("handle", hex()),
        named("rank", numbers(100)),
        named("local-rank", numbers(8)),
        named("pid", numbers(99999)),
        named("process", numbers(16)),
        named("program", glob()),
        named("thread", prop_oneof![glob(), numbers(9999)].boxed()),
        named("caller", glob()),
        named("stack", hex()),
        named(
            "prev",
            list(select(vec!["SUCCESS", "map_failed", "700..719", "CUDA_ERROR_UNKNOWN", "-1"]).prop_map(Into::into)),
        ),
        named("after", time().prop_map(|t| format!("{t}us")).boxed()),
        named("until", time().prop_map(|t| format!("{t}.5s")).boxed()),
        named("mark", glob()),
        named("site", prop_oneof![Just("new".to_owned()), (1..=100u32).prop_map(|p| format!("{p}%"))].boxed()),
        named("Flags", list(select(vec!["0", "1", "-1", "LAZY_ENABLE_PEER_ACCESS", "2.."]).prop_map(Into::into))),
        named("when", "[1-9][0-9]?([.][.][1-9][0-9]{2})?([+][1-9]?)?".boxed()),
        named("p", prop_oneof![(1..=100u32).prop_map(|p| format!("{p}%")), "0[.][0-9]{0,3}[1-9]"].boxed()),
        named("seed", any::<u64>().prop_map(|seed| seed.to_string()).boxed()),
        named("times", (1..=u64::MAX).prop_map(|times| times.to_string()).boxed()),
        named("per", "(process|thread|ctx|rank|job)(/rule)?".boxed()),
        named("name", "[A-Za-z0-9._-]{1,40}".boxed()),
        Just("force".to_owned()).boxed(),
    ]
}

/// Actions that can be combined.
fn effects() -> BoxedStrategy<Vec<String>> {
    let wait = |key: &'static str| {
        time().prop_flat_map(|time| (Just(time), 0..=time)).prop_flat_map(move |(time, jitter)| {
            select(vec![format!("{key}={time}ms"), format!("{key}={time}.25us~{jitter}us")])
        })
    };
    let result = || {
        let code = select(vec!["MAP_FAILED", "any", "205", "cuda_error_invalid_handle", "TOO_MANY_PEERS", "1"]);
        let stage = select(vec!["", ":stage=instead", ":stage=after", ":stage=undo"]);
        (code, stage).prop_map(|(code, stage)| format!("error={code}{stage}"))
    };
    let out = || {
        prop_oneof![Just("null".to_owned()), any::<u64>().prop_map(|n| n.to_string())]
            .prop_map(|v| format!("out=pdptr={v}"))
    };
    let early = || {
        subsequence(vec![0, 1, 2], 0..=3).prop_flat_map(move |which| {
            let all = [
                wait("delay").boxed(),
                "hang(=[a-zA-Z0-9._-]{1,9})?".boxed(),
                "signal=(SIG(SEGV|KILL)|usr1|[1-9])".boxed(),
            ];
            which.into_iter().map(|at| all[at].clone()).collect::<Vec<_>>()
        })
    };
    let last = prop_oneof![
        (0..=255u32).prop_map(|status| vec![format!("exit={status}")]),
        (result(), wait("delay-after")).prop_map(|(result, wait)| vec![result, wait]),
        result().prop_map(|result| vec![result]),
        (out(), wait("delay-after")).prop_map(|(out, wait)| vec![out, wait]),
        out().prop_map(|out| vec![out]),
    ];
    (early(), last)
        .prop_map(|(mut early, last)| {
            early.extend(last);
            early
        })
        .boxed()
}

/// A rule by the grammar.
pub fn rules() -> BoxedStrategy<String> {
    let count = choices().len();
    let chosen = subsequence((0..count).collect::<Vec<_>>(), 0..6).prop_flat_map(|which| {
        let all = choices();
        which.into_iter().map(|at| all[at].clone()).collect::<Vec<_>>()
    });
    let functions =
        select(vec!["cuIpcOpenMemHandle", "cuIpcOpenMemHandle*", "cuIpcOpenMem*", "@ipc-mem,^@export,^@release"]);
    (functions, chosen, effects())
        .prop_map(|(functions, chosen, effects)| (functions, [chosen, effects].concat()))
        .prop_flat_map(|(functions, clauses)| (Just(functions), Just(clauses).prop_shuffle()))
        .prop_map(|(functions, clauses)| format!("{functions}:{}", clauses.join(":")))
        .boxed()
}

/// Rules about any function of the table: conditions on arguments, and a failure, an undone call, or other
/// outputs.
fn rules_of_the_table() -> impl Strategy<Value = String> {
    let all: Vec<&'static FnSpec> = alterable_functions().collect();
    let numbers = || proptest::collection::vec(any::<u32>(), 8);
    (select(all), any::<u8>(), numbers(), 0..4).prop_map(|(function, chosen, numbers, action)| {
        let mut text = function.name().to_owned();
        for (index, (arg, number)) in function.args().iter().zip(&numbers).enumerate() {
            if chosen >> index & 1 != 0 && is_comparable(arg) && arg.direction == Direction::In {
                let most = u32::MAX >> (32 - 8 * arg.value_size().min(4));
                text += &format!(":{}={:#x}", arg.name(), number & most);
            }
        }
        let out =
            function.args().iter().zip(&numbers).find(|(arg, _)| describe_output_values(arg).starts_with("a number"));
        text + &match (action, out) {
            (0, Some((arg, number))) => format!(":out={}={number}", arg.name()),
            (1, _) if function.undone_by().is_some() => ":stage=undo:error=any:force".to_owned(),
            (2, _) => ":error=any:force".to_owned(),
            _ => ":delay=1ms".to_owned(),
        }
    })
}

proptest! {
    #[test]
    fn a_rule_about_any_function_is_read_and_means_what_it_says(text in rules_of_the_table()) {
        proven(&text);
    }

    #[test]
    fn a_rule_by_the_grammar_is_read_and_means_what_it_says(text in rules()) {
        proven(&text);
    }

    #[test]
    fn handed_down_rules_keep_their_meaning(
        texts in proptest::collection::vec(rules(), 1..4),
        seed: u64,
    ) {
        let named = |(at, text): (usize, &String)| {
            let bare = text.split(':').filter(|clause| !clause.starts_with("name=")).collect::<Vec<_>>().join(":");
            format!("{bare}:name=r{at}")
        };
        let text = texts.iter().enumerate().map(named).collect::<Vec<_>>().join("\n");
        let plan = FaultPlan::parse("plan", &text).unwrap();
        let whole = plan.rules.iter().map(|rule| rule.self_contained_text(seed)).collect::<Vec<_>>().join(";");
        let handed = FaultPlan::parse("env", &whole).unwrap();
        for (mut rule, other) in plan.rules.into_iter().zip(&handed.rules) {
            if rule.is_random() && !rule.has_clause("seed") {
                rule.seed = seed;
            }
            assert!(same(&rule, other), "{rule:?}\n{other:?}");
            assert_eq!(other.self_contained_text(1), other.text, "handed on once more");
        }
    }

    #[test]
    fn any_text_is_read_or_refused_within_itself(text in "[ -~\n]{0,60}|\\PC{0,30}|[@a-zA-Z:=,.;^*0-9]{0,60}") {
        super::mutated::refused_or_proven(&text);
    }

    #[test]
    fn a_rule_with_anything_behind_it_is_read_or_refused_within_itself(rule in rules(), rest in "[ -~\\PC]{0,12}") {
        super::mutated::refused_or_proven(&(rule + &rest));
    }
}
