//! The deciders and the table: all functions of a rule have the arguments that it needs.

use super::*;
use crate::RuleSpec;
use crate::reason::{Ago, Device, Process};
use cupeer_model::{BareEntry, Pool};
use cupeer_spec::effect::Object;
use cupeer_spec::function::FUNCTIONS;
use cupeer_spec::record::slot::MOST_ARGS;

/// A world in which nothing is known, or in which all that calls are about is there, and was there before.
struct Knowing(bool);

impl Knowing {
    fn some<T>(&self, fact: T) -> Option<T> {
        self.0.then_some(fact)
    }
}

const OWNER: Process = Process { pid: 7, rank: None };

fn exported() -> Export<()> {
    Export {
        fingerprint: 1,
        owner: OWNER,
        exporter_id: 1,
        pid_ns: 0,
        is_own: false,
        address: 1,
        device: Device { ordinal: 0, uuid: [1; 16] },
        pointer_offset: 1,
        ago: None,
        ended: Some(ObjectEnd { is_before: true, ago: None, with_context: false }),
        object: (),
    }
}

impl World for Knowing {
    type Object = ();

    fn pid_and_namespace(&self) -> (u32, u64) {
        (OWNER.pid, 0)
    }
    fn current_context(&self) -> Option<(i32, u64)> {
        self.some((0, 2))
    }
    fn current_device(&self) -> i32 {
        0
    }
    fn device_count(&self) -> Option<i32> {
        self.some(1)
    }
    fn uuid(&self, _ordinal: i32) -> [u8; 16] {
        [1; 16]
    }
    fn ordinal(&self, _uuid: [u8; 16]) -> i32 {
        0
    }
    fn with_variable(&self, _name: &str, work: &mut dyn FnMut(Option<&str>)) {
        work(None);
    }
    fn has_all_exports(&self) -> bool {
        self.0
    }
    fn pointer_attributes(&self, _address: u64) -> Option<PointerAttributes> {
        self.some(PointerAttributes { is_known: true, ..PointerAttributes::default() })
    }
    fn find_export(&self, _object: Object, _fingerprint: u64) -> Option<Export<()>> {
        self.some(exported())
    }
    fn opening_at(&self, _object: Object, _address: u64) -> Option<Opening<()>> {
        self.some(Opening { fingerprint: 1, address: 1, context: 1, device: 0, object: () })
    }
    fn each_opening(&self, object: Object, work: &mut dyn FnMut(&Opening<()>)) {
        self.opening_at(object, 1).iter().for_each(work);
    }
    fn enabled_access(&self, _from: u64, _to: u64) -> Option<(Option<Ago>, ())> {
        self.some((None, ()))
    }
    fn can_access(&self, _from: i32, _to: i32) -> Option<bool> {
        self.some(false)
    }
    fn pool(&self, handle: u64) -> Option<BareEntry<Pool>> {
        self.some(BareEntry { name: handle, ..BareEntry::default() })
    }
    fn allocation_of_call(&self) -> Option<(u64, u64)> {
        self.some((2, 2))
    }
    fn is_open_already(&self, work: &mut dyn FnMut(OpenerLibraries<()>)) -> bool {
        let opener =
            |opening: Opening<()>| OpenerLibraries { first: "a", second: "b", count: 2, opening: opening.object };
        self.opening_at(Object::Memory, 1).map(opener).into_iter().for_each(work);
        self.0
    }
}

/// The failures that a rule may explain.
fn failures(rule: &'static RuleSpec) -> impl Iterator<Item = (FnId, i32)> {
    let all = rule.functions().iter().flat_map(|id| rule.results().iter().map(|code| (*id, *code as i32)));
    all.filter(|(function, result)| rule.explains(*function, *result))
}

#[test]
fn a_rule_about_arguments_asks_nothing_of_the_world() {
    for rule in RULES.iter().filter(|rule| rule.scope == Scope::Arguments) {
        for (function, result) in failures(rule) {
            for args in [[0; MOST_ARGS], [1; MOST_ARGS]] {
                let call = Call { function, result, args: &args, shape: !0, elements: &[] };
                let [one, other] = [false, true].map(|knows| check_rule(rule.id, &call, &Knowing(knows)));
                assert_eq!(one, other, "{} at {}", rule.name(), function.spec().name());
            }
        }
    }
}

/// `expect_in_table` fails if the effects of a function lack an argument that a rule needs.
#[test]
fn functions_of_a_rule_have_the_arguments_that_it_needs() {
    for (byte, knows) in [(0, false), (0, true), (1, false), (1, true)] {
        let (args, world) = ([byte; MOST_ARGS], Knowing(knows));
        let judge = |function: FnId, result: i32, rule: Option<Rule>| {
            let spec = function.spec();
            let call = Call { function, result, args: &args, shape: !0, elements: &[] };
            let mut report = |found: &Violation<()>| {
                let is_there = found.argument.is_none_or(|argument| argument < spec.args().len());
                assert!(is_there, "{}: {:?} is no argument of {}", found.reason, found.argument, spec.name());
            };
            let mut judge = Judge { call: &call, world: &world, report: &mut report };
            match rule {
                Some(rule) => judge.decide(rule),
                None => judge.check_success(),
            }
        };
        for rule in RULES {
            for (function, result) in failures(rule) {
                judge(function, result, Some(rule.id));
            }
        }
        for function in FUNCTIONS {
            judge(function.id, 0, None);
        }
    }
}
