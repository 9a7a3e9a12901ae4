//! The words of a finding: the two calls, and the wait that is missing.

use super::book::How;
use super::history::{History, Origin, name};
use super::rounds::{Round, Wrong};
use crate::infer::context::Context;
use crate::infer::objects::in_words;
use cupeer_report::moments::{bytes, duration, number};

pub fn sentence(context: &Context, history: &History, wrong: Wrong, round: &Round) -> String {
    let (first, second) = (history.origin(round.pair.first), history.origin(round.pair.second));
    let shared = first.bytes.to.min(second.bytes.to) - first.bytes.from.max(second.bytes.from);
    let size = match first.bytes.has_gaps || second.bytes.has_gaps {
        true => "bytes".into(),
        false => bytes(shared).to_string(),
    };
    let size = format!("{size} of ipc:{:016x}", first.entry.fingerprint);
    let is_same = first.process == second.process;
    let other = if is_same {
        "its other stream".into()
    } else {
        in_words(context.job, first.process as u32).to_string()
    };
    let head = match wrong {
        Wrong::ReadBeforeWritten => format!("this process may read {size} before {other} wrote it"),
        Wrong::OverwrittenBeforeRead => format!("this process may overwrite {size} before {other} read it"),
        Wrong::WrittenTwice => format!("this process and {other} may write {size} in either order"),
        Wrong::FreedInUse if second.how == How::Unmaps => {
            format!("this process may unmap {size} while its own call still uses it")
        }
        Wrong::FreedInUse => format!("this process may free {size} while a call of {other} still uses it"),
    };
    let call = |origin: &Origin| {
        let streams = &context.all.tallies[origin.process].order.streams;
        let stream = name(streams, origin.stream).map(|name| match name.starts_with("0x") {
            true => format!(", stream {name}"),
            false => format!(", {name} stream"),
        });
        let (size, offset) = (bytes(origin.bytes.len()), number(origin.bytes.from));
        let function = origin.function.spec().name();
        let rows = if origin.bytes.has_gaps { "rows in " } else { "" };
        format!("{function} ({rows}{size} at offset {offset}{})", stream.unwrap_or_default())
    };
    let who = if is_same { "it".into() } else { other };
    let (one, two, apart) = (call(first), call(second), duration(second.at - first.at));
    let missing = match (round.pair.known, round.pair.is_recorded) {
        (u64::MAX, false) => {
            "no event was recorded after it in its stream, and no call waited for that stream".into()
        }
        (u64::MAX, true) => "no call waited for an event that was recorded after it".into(),
        (known, _) => {
            let late = duration(known.saturating_sub(second.at));
            format!("no process could know that it was done until {late} after the second call began")
        }
    };
    let times = match (round.count, round.apart) {
        (1, _) => String::new(),
        (count, (least, most)) => {
            format!("; {} times, {} to {} apart", number(count), duration(least), duration(most))
        }
    };
    format!(
        "{head}; {who} called {one} {apart} before this process called {two}, and nothing orders them: {missing}{times}"
    )
}
