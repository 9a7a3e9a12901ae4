//! The recordings of real GPUs that the page of cases shows.

use crate::support::book::root;
use crate::support::{cupeer, done};
use std::fs;

#[test]
fn each_case_opens_and_names_the_cause_that_the_page_tells() {
    let page = fs::read_to_string(root().join("docs/start/cases.md")).unwrap();
    let mut cases = 0;
    for (name, cause, line) in [
        ("wake_up", "memory-exhausted", 70),
        ("shared_tensor", "ipc-exporter-gone", 33),
        ("hanging_rank", "rank 0 is in synchronize (hanging_rank.py:28), rank 1 in destroy_process_group", 28),
    ] {
        let ended = done(cupeer().arg("report").arg(root().join(format!("docs/cases/{name}.cupeer"))));
        let head = ended.stdout.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(head.contains(cause), "{name}: {head}");
        assert!(page.contains(cause), "{name}");
        let program = fs::read_to_string(root().join(format!("docs/cases/{name}.py"))).unwrap();
        // The line of the program is what the page says about it.
        let text = program.lines().nth(line - 1).unwrap().trim();
        assert!(
            page.contains(&format!("{line} | {text}")) || page.contains(&format!("{name}.py:{line}")),
            "{name}: {text}"
        );
        assert!(ended.stdout.contains(&format!("{name}.py")), "{name}");
        cases += 1;
    }
    let recordings = fs::read_dir(root().join("docs/cases")).unwrap().flatten();
    let recordings = recordings.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "cupeer"));
    assert_eq!(recordings.count(), cases);
}
