//! Processes in different operations: where their stacks differ.
//!
//! The stacks of processes of one program are the same from `main` on, up to the line from which they called different
//! functions. Helpers below that line, such as one that reads from a socket, are the same again, and tell nothing.

use super::document::{Frame, Thread};
use std::collections::BTreeMap;

/// A function of the program that a process executes, and the place of its call.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Operation {
    pub function: String,
    pub place: String,
}

/// Returns the operations of several threads, each with the indexes in `threads` of its threads; `None` if their stacks do not
/// differ in code of the program. The operation of the fewest threads comes first.
pub fn find_operations(threads: &[&Thread]) -> Option<Vec<(Operation, Vec<usize>)>> {
    let stacks: Vec<Vec<&Frame>> = threads.iter().map(|thread| named_frames(thread)).collect();
    let first = stacks.first()?;
    let is_same = |index: &usize| {
        let key = first.get(*index).map(|frame| frame_key(frame));
        stacks.iter().all(|stack| stack.get(*index).map(|frame| self::frame_key(frame)) == key)
    };
    let apart = (0..first.len()).take_while(is_same).count();
    if stacks.iter().any(|stack| !stack.get(apart).is_some_and(|frame| frame.is_own())) {
        return None;
    }
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (index, stack) in stacks.iter().enumerate() {
        groups.entry(frame_key(stack[apart])).or_default().push(index);
    }
    let named = |members: &Vec<usize>| {
        let others: Vec<&[&Frame]> =
            (0..stacks.len()).filter(|index| !members.contains(index)).map(|index| &stacks[index][apart..]).collect();
        let own: Vec<&[&Frame]> = members.iter().map(|index| &stacks[*index][apart..]).collect();
        (name_operation(&stacks[members[0]], apart, &own, &others), members.clone())
    };
    let mut found: Vec<(Operation, Vec<usize>)> = groups.values().map(named).collect();
    found.sort_by_key(|(_, members)| (members.len(), members[0]));
    (found.len() > 1).then_some(found)
}

/// Returns the operation of the stacks `own`, which differ from the stacks `others` at the index `apart`: the innermost function
/// that all of `own` and none of `others` are in.
fn name_operation(stack: &[&Frame], apart: usize, own: &[&[&Frame]], others: &[&[&Frame]]) -> Operation {
    let name = |frame: &Frame| (frame.file.clone(), frame.function.clone());
    let is_in = |stack: &&[&Frame], frame: &Frame| stack.iter().any(|one| name(one) == name(frame));
    let is_theirs =
        |frame: &Frame| own.iter().all(|stack| is_in(stack, frame)) && !others.iter().any(|stack| is_in(stack, frame));
    let index = (apart..stack.len()).rev().find(|index| is_theirs(stack[*index]));
    // If other processes are in the same functions, the line of the call distinguishes the operations.
    let index = index.unwrap_or((apart + 1).min(stack.len() - 1)).max(apart);
    let caller = stack[..index].iter().rev().find(|frame| frame.is_own() && !frame.is_header());
    let caller = if index == apart { stack[apart] } else { caller.unwrap_or(&stack[apart]) };
    Operation { function: stack[index].function.clone().unwrap_or_default(), place: caller.place_text() }
}

/// Returns the frames with a name and a place, the outermost first: only Python frames if there are any.
fn named_frames(thread: &Thread) -> Vec<&Frame> {
    let is_python = thread.own_frames().iter().any(|frame| frame.language == "Python");
    let is_it = |frame: &&Frame| match is_python {
        true => frame.language == "Python",
        false => frame.is_own() && frame.function.is_some(),
    };
    thread.own_frames().iter().rev().filter(is_it).collect()
}

fn frame_key(frame: &Frame) -> (Option<&str>, Option<&str>, Option<u32>, Option<&str>) {
    (
        frame.file.as_deref(),
        frame.function.as_deref(),
        frame.line,
        frame.offset.as_deref().filter(|_| frame.line.is_none()),
    )
}
