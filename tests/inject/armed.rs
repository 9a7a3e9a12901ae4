//! Plans that a program arms by itself.

use crate::support;
use cupeer_spec::env;

fn run(part: &str, is_linked: bool) -> String {
    let sim = support::sim_dir();
    let library = sim.join("libcuda.so.1");
    let linked = ["-DLINKED", library.to_str().unwrap()];
    let flags: &[&str] = if is_linked { &linked } else { &["-ldl"] };
    let mut command = support::plain(support::compile_c("programs/armed.c", flags));
    command.arg(part).env("LD_PRELOAD", support::preload_library());
    support::stdout(command.env("LD_LIBRARY_PATH", sim).env(env::SIM, "nvlink:2"))
}

const BLOCK: &str = "\
before: 0
armed 1: 0 101 0
not armed: 0 line 2, column 2: a fault cannot contain a space; in a pattern, write ? in its place
two: 2 3
plan 1: known 1 matched 4 fired 1
disarmed: 1 matched 4 fired 1, then 3
disarmed: 1, then 0
again: 0, of nobody: 0 0
plan 2: known 0 matched 99 fired 99
";

#[test]
fn a_plan_holds_for_a_block_by_every_way_in() {
    for is_linked in [false, true] {
        let said = run("block", is_linked);
        let (block, refused) = said.split_at_checked(BLOCK.len()).expect("as much as that");
        support::assert_lines(block, BLOCK);
        let refused: Vec<&str> = refused.lines().collect();
        assert_eq!(refused.len(), 7, "{refused:?}");
        assert_eq!(refused[0], "0 the plan contains no fault");
        assert!(refused[1].starts_with("0 column 1: no function is named 'x'"), "{refused:?}");
        assert!(refused[2].starts_with("0 column 18: "), "{refused:?}");
        assert!(refused[3].contains("per=job and per=rank need a directory that processes share"), "{refused:?}");
        assert_eq!(refused[4..], ["0 the plan is NULL", "0 column", "0 -1"]);
    }
}

#[test]
fn held_calls_are_released_by_label_and_by_disarming() {
    assert_eq!(run("hang", false), "disarmed 1\nthen 101\nhung 1, released\nthen 101\n");
}

#[test]
fn threads_call_while_plans_come_and_go() {
    assert_eq!(run("crowd", false), "wrong 0, some were mine 1\n");
}

#[test]
fn a_plan_reaches_a_function_to_which_threads_find_the_way_at_once() {
    for is_linked in [false, true] {
        assert_eq!(run("first", is_linked), "missed 0\n");
    }
}

#[test]
fn a_call_may_be_left_by_a_jump_out_of_its_signal() {
    assert_eq!(run("jumps", false), "enabled 1\ndisarmed 1, then 0\n");
}

#[test]
fn a_forked_child_has_the_plan_and_counts_for_itself() {
    let said = run("forks", false);
    support::assert_lines(&said, "parent: 0 101\nchild: 3 101 101\nparent: 101 0\nplan 1: known 1 matched 7 fired 4\n");
}

#[test]
fn without_the_library_there_is_nothing_to_call() {
    let program = support::compile_c("programs/armed.c", &["-ldl"]);
    let mut command = support::plain(program);
    let said = support::stdout(command.arg("block").env("LD_LIBRARY_PATH", support::sim_dir()));
    assert_eq!(said, "not under cupeer\n");
}
