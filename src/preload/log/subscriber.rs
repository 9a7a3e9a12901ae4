//! The subscriber: writes the message of each event as one line.

use super::sink;
use crate::sys::line::LineBuffer;
use core::fmt::{Debug, Write};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

/// The subscriber of this library's own events, which have a message and nothing else.
pub struct Log;

impl Subscriber for Log {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::always()
    }

    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn event(&self, event: &Event) {
        let mut message = Message(LineBuffer::new());
        event.record(&mut message);
        let line = &mut message.0;
        // A line that does not fit is dropped below.
        let _ = line.write_str("\n");
        if !line.has_overflowed() && sink::write(line.bytes()) {
            // SAFETY: only this thread and its signal handlers use the block.
            unsafe { (*crate::sys::arch::thread()).written += 1 };
        }
    }

    // This library has no spans, so the id is never used.
    fn new_span(&self, _: &Attributes) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Message(LineBuffer);

impl Visit for Message {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        // A line that does not fit is dropped at its end.
        let _ = write!(self.0, "{value:?}");
    }
}
