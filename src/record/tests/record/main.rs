//! Valid records are read as they were meant, and damaged ones break nothing. Each file has one topic.

mod broken;
mod events;
mod faults;
mod findings;
mod growing;
mod job;
mod random;
mod repeats;
mod ring;
mod tail;

use cupeer_record::writer::{self, About, Writer};
use cupeer_record::{Call, Event, Process};
use cupeer_spec::function::FnId;

/// A call of a function with one number as its argument, which tells it from others.
fn call(start: u64, which: u64) -> Call {
    let mut call = writer::call(FnId::cuCtxDetach, start, start + 1);
    writer::set(&mut call, "ctx", &which.to_le_bytes());
    call
}

/// Returns the number of the call.
fn which(call: &Call) -> u64 {
    let bytes = call.argument_by_name("ctx").expect("the argument is there");
    u64::from_le_bytes(bytes.try_into().expect("it has 8 bytes"))
}

/// The process of a record in memory.
fn read(bytes: Vec<u8>) -> Process {
    Process::from_bytes("process.cupeer", bytes).expect("it is a recording")
}

/// All events of a record in memory.
fn events(bytes: Vec<u8>) -> Vec<Event> {
    read(bytes).events().expect("it can be read").collect()
}

/// The calls among events.
fn calls(events: &[Event]) -> Vec<&Call> {
    events.iter().filter_map(|event| if let Event::Call(call) = event { Some(call) } else { None }).collect()
}

/// All calls of a record in memory.
fn all_calls(bytes: Vec<u8>) -> Vec<Call> {
    calls(&events(bytes)).into_iter().cloned().collect()
}

/// Adds calls at these times, which also identify them.
fn fill(writer: &mut Writer, stream: u32, times: std::ops::Range<u64>) {
    for time in times {
        writer.call(stream, &call(time, time)).expect("memory can be written to");
    }
}

/// A record in memory, with one stream.
fn one_stream() -> (Writer, u32) {
    let mut writer = Writer::in_memory(About::default());
    let stream = writer.stream(11).expect("memory can be written to");
    (writer, stream)
}
