//! Any text is a fault plan or an error that says where, and what is handed on is read as it was meant.
#![no_main]

use cupeer_spec::fault::FaultPlan;
use cupeer_spec::record::faults;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let plan = match FaultPlan::parse("plan", text) {
        Ok(plan) => plan,
        Err(error) => {
            let line = text.split('\n').nth(error.line - 1).expect("the line is there");
            assert!(error.column >= 1 && error.column <= line.len() + 1, "{error:?}");
            assert!(!error.message.is_empty() && !error.message.chars().any(char::is_control), "{error:?}");
            return;
        }
    };
    let whole: Vec<String> = plan.rules.iter().map(|rule| rule.self_contained_text(7)).collect();
    let again = FaultPlan::parse("env", &whole.join(";")).expect("what is handed on is read");
    for (rule, other) in plan.rules.iter().zip(&again.rules) {
        assert!(rule.name == other.name && rule.functions == other.functions, "{rule:?} {other:?}");
        assert!(rule.conditions == other.conditions && rule.action == other.action, "{rule:?} {other:?}");
    }
    assert_eq!(plan.rules.len(), again.rules.len());
    // As a plan that is armed while the job is running reaches its processes.
    let lines = faults::format_plan_lines(plan.rules.iter().map(|rule| (&*rule.name, rule.self_contained_text(7))));
    let read = faults::plan_without_names(lines.as_bytes()).expect("its lines are read");
    assert_eq!(FaultPlan::parse("armed", &read).expect("a plan"), again);
});
