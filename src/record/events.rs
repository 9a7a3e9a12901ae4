//! The events of a process, ordered by time.

use crate::event::Event;
use crate::index::BlockIndex;
use crate::process::Process;
use crate::read;
use crate::reader::{ReadingState, SlotReader};
use crate::stream::EventStream;
use cupeer_spec::record::{Header, SLOTS};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;

/// Largest number of slots that all streams together have in memory: 16 MiB. If there are few streams, whole
/// blocks are read; with thousands, a few slots at once.
const MOST_SLOTS: usize = 16 << 14;
/// Smallest number of slots that are read at once.
const FEWEST_SLOTS: usize = 32;

/// Iterator over all events of a process, ordered by [`Event::start`]. Those of one stream keep their order.
///
/// The iterator covers the record as it was when the iterator was created, and slightly more if the process continues
/// to write.
pub struct Events {
    shared: ReadingState,
    streams: Vec<EventStream>,
    /// Streams with remaining events, by the time of their next event; unused if there is only one stream.
    order: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Process {
    /// Returns all events of the process, ordered by time.
    pub fn events(&self) -> io::Result<Events> {
        Events::open(self)
    }
}

impl Events {
    pub(crate) fn open(process: &Process) -> io::Result<Events> {
        let file = process.source.open()?;
        let index = BlockIndex::build(&file)?;
        let piece = (MOST_SLOTS / index.streams.len().max(1)).clamp(FEWEST_SLOTS, SLOTS);
        // A file that was opened while its process began may lack the list of functions. The functions
        // precede the arguments, so if the arguments are missing, read the file again.
        let is_described = !process.arguments.is_empty();
        let now = if is_described { None } else { read::read_process(process.source.clone(), &process.path).ok() };
        let process = now.as_ref().unwrap_or(process);
        let numbers = 0..process.functions.len();
        let functions = numbers.map(|number| process.function_id(number as u16)).collect();
        let readers = index.streams.iter().enumerate().map(|(place, blocks)| SlotReader::new(place, blocks));
        let mut streams: Vec<EventStream> = readers.map(EventStream::new).collect();
        let Header { version, mode, .. } = process.header;
        let mut shared = ReadingState { file, index, functions, version, mode, piece, error: None };
        if shared.index.is_bounded {
            shared.note_overwritten();
        }
        streams.iter_mut().for_each(|stream| stream.read_ahead(&mut shared));
        let mut order = BinaryHeap::new();
        if streams.len() > 1 {
            order.extend(streams.iter().enumerate().filter_map(|(i, stream)| Some(Reverse((stream.time()?, i)))));
        }
        Ok(Events { shared, streams, order })
    }

    /// Returns the first error in reading a block so far; `None` if there was none. The events of unreadable
    /// blocks are missing.
    pub fn first_error(&self) -> Option<&io::Error> {
        self.shared.error.as_ref()
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if let [stream] = &mut self.streams[..] {
            return stream.next_event(&mut self.shared);
        }
        let mut first = self.order.peek_mut()?;
        let stream = &mut self.streams[first.0.1];
        let event = stream.next_event(&mut self.shared);
        match stream.time() {
            Some(time) => first.0.0 = time,
            None => {
                PeekMut::pop(first);
            }
        }
        event
    }
}
