//! What is read, and what is refused.

use crate::fault::*;

fn rule(text: &str) -> Rule {
    let mut plan = Plan::parse("plan", text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(plan.rules.len(), 1, "{text}");
    plan.rules.remove(0)
}

#[test]
fn the_examples_of_the_contract_are_read() {
    let open = rule("cuIpcOpenMemHandle*:when=3..5:error=MAP_FAILED");
    assert_eq!(open.when, When { first: 3, last: 5, step: 1 });
    assert_eq!(open.action.error, Some(Error::Code(205)));
    let slow = rule("@ipc:dev=0:rank=2:p=10%:delay=5ms");
    assert_eq!(slow.probability, 0.1);
    assert_eq!(slow.action.delay, Some(Delay { time: 5_000_000, jitter: 0 }));
    assert_eq!(slow.name, "plan/1");
}
