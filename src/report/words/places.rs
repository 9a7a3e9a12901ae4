//! Maps addresses in processes to places in libraries.
//!
//! It keeps their names when the report is built. The caller supplies the function that finds symbols.

use super::choice::{HelperFunctions, ProgramDirectories, is_installed};
pub use super::choice::{RuleBreakingCalls, line_to_show};
pub use super::stacks::{StackNumber, StackTable, StoredStack};
use crate::model::Place;
use cupeer_record::{Call, Library, Process};
use cupeer_spec::origin::CodeOrigin;
use cupeer_spec::record::slot::PythonLine;
use cupeer_spec::runtime::is_runtime_library;
use cupeer_symbols::{LONGEST_NAME, SourceLine, Symbol, Symbols, shorten_name};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

/// Finds the function that contains a return address, if the symbols of its library are available.
pub trait FunctionFinder {
    /// Returns the function at an address of a library.
    fn find_function(&mut self, library: &Library, address: u64) -> Option<Symbol>;

    /// Announces the names that will be looked up.
    fn announce(&mut self, asked: &[(&Library, u64)]);
}

impl FunctionFinder for Symbols {
    fn find_function(&mut self, library: &Library, address: u64) -> Option<Symbol> {
        Symbols::find_symbol(self, library, address)
    }

    fn announce(&mut self, asked: &[(&Library, u64)]) {
        Symbols::read_libraries(self, asked.iter().copied());
    }
}

/// Source of names that knows no function.
pub struct NoSymbols;

impl FunctionFinder for NoSymbols {
    fn find_function(&mut self, _: &Library, _: u64) -> Option<Symbol> {
        None
    }

    fn announce(&mut self, _: &[(&Library, u64)]) {}
}

/// Source of names for the program's own libraries, but not for installed ones.
pub struct OwnLibraries<'a>(pub &'a mut dyn FunctionFinder);

impl FunctionFinder for OwnLibraries<'_> {
    fn find_function(&mut self, library: &Library, address: u64) -> Option<Symbol> {
        if is_installed(&library.path) { None } else { self.0.find_function(library, address) }
    }

    fn announce(&mut self, asked: &[(&Library, u64)]) {
        let own = asked.iter().filter(|(library, _)| !is_installed(&library.path));
        self.0.announce(&own.copied().collect::<Vec<_>>());
    }
}

/// Places of return addresses, each looked up once.
pub struct PlaceTable<'a> {
    processes: &'a [Process],
    names: &'a mut dyn FunctionFinder,
    known: HashMap<(usize, u64, Option<u64>), Place>,
    lines: HashMap<(usize, u64), Option<Place>>,
    texts: HashMap<String, Rc<str>>,
    roots: Vec<ProgramDirectories>,
    helpers: HelperFunctions,
}

/// Number of stacks, the first ones, from which helpers are learned.
const MOST_LEARNED: usize = 1 << 14;

impl<'a> PlaceTable<'a> {
    /// Creates an empty table of places for the processes of a recording.
    pub fn new(processes: &'a [Process], names: &'a mut dyn FunctionFinder) -> Self {
        PlaceTable {
            processes,
            names,
            known: HashMap::new(),
            lines: HashMap::new(),
            texts: HashMap::new(),
            roots: processes.iter().map(ProgramDirectories::of).collect(),
            helpers: HelperFunctions::default(),
        }
    }

    /// Learns from all stacks of a recording which functions only pass calls on for several places.
    pub fn learn_helpers(&mut self, stacks: &StackTable) {
        for stack in stacks.numbers().take(MOST_LEARNED) {
            let (process, ticks, frames, python) = stacks.get(stack);
            let process = *process as usize;
            if frames.len() > 1 {
                let (maker, places) = self.merge_python_frames(process, *ticks, frames, python);
                self.helpers.learn_stack(stack, &places, maker, &self.roots[process], stacks.called_functions(stack));
            }
        }
    }

    /// Returns the place of a return address.
    pub fn find_place(&mut self, process: usize, ticks: u64, address: u64) -> Place {
        let library = self.processes[process].library_at(address, ticks);
        // Another library may have been at this address at another time.
        let key = (process, address, library.map(|library| library.since));
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let place = match library {
            Some(library) => {
                let symbol = self.names.find_function(library, address);
                let name = symbol.as_ref().map(|symbol| format!("{}+{:#x}", symbol.function, symbol.offset));
                let lines = symbol.map_or_else(Rc::default, |symbol| symbol.lines.into());
                let build_id: String = library.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
                Place {
                    library: Some(self.shared_text(&library.path)),
                    build_id: (!build_id.is_empty()).then(|| self.shared_text(&build_id)),
                    offset: address.wrapping_sub(library.base),
                    function: name.map(|name| self.shared_text(&name)),
                    lines,
                    ..Place::default()
                }
            }
            None => Place { offset: address, ..Place::default() },
        };
        self.known.insert(key, place.clone());
        place
    }

    /// Returns the place of a call, and its stack.
    pub fn place_and_stack(&mut self, stacks: &StackTable, stack: StackNumber) -> (Place, Vec<Place>) {
        self.place_of_offending(stacks, stack, None)
    }

    /// Returns the place of a call that breaks a rule together with other calls, and its stack.
    pub fn place_of_offending(
        &mut self,
        stacks: &StackTable,
        stack: StackNumber,
        offending: Option<&RuleBreakingCalls>,
    ) -> (Place, Vec<Place>) {
        let (process, ticks, frames, python) = stacks.get(stack);
        self.choose_place(*process as usize, *ticks, (frames, python), offending)
    }

    /// Returns the place of a call by its return addresses, and its stack.
    pub fn place_by_addresses(&mut self, process: usize, ticks: u64, frames: &[u64]) -> (Place, Vec<Place>) {
        self.choose_place(process, ticks, (frames, &[]), None)
    }

    fn choose_place(
        &mut self,
        process: usize,
        ticks: u64,
        (frames, python): (&[u64], &[PythonLine]),
        offending: Option<&RuleBreakingCalls>,
    ) -> (Place, Vec<Place>) {
        let (maker, stack) = self.merge_python_frames(process, ticks, frames, python);
        (self.helpers.choose_place(&stack, maker, &self.roots[process], offending), stack)
    }

    /// Returns the places of a stack, and the index of the place that made the call: the first one outside of
    /// the CUDA runtime, because the runtime makes calls for every library. A Python frame is part of the
    /// place of the interpreter frame that executed it.
    fn merge_python_frames(
        &mut self,
        process: usize,
        ticks: u64,
        frames: &[u64],
        python: &[PythonLine],
    ) -> (usize, Vec<Place>) {
        self.announce_addresses(process, ticks, frames);
        let mut frames: Vec<Place> = frames.iter().map(|frame| self.find_place(process, ticks, *frame)).collect();
        let outside = frames.iter().position(|place| !place.is_runtime()).unwrap_or(0);
        // A copy of the runtime within another library is entered through the runtime's public functions.
        let is_entry = outside > 0 && frames[outside].is_entry_of_runtime();
        let caller = outside + usize::from(is_entry && outside + 1 < frames.len());
        let lines: Vec<(usize, Place)> = python
            .iter()
            .filter_map(|line| Some((usize::from(line.frame), self.python_place(process, line)?)))
            .collect();
        let Some((_, first)) = lines.first() else { return (caller, frames) };
        let standing = |place: &Place| Reverse(place.origin().relevance(first.origin()));
        let own = lines.iter().map(|(_, place)| place).min_by_key(|place| standing(place)).unwrap_or(first);
        frames.iter_mut().take(caller + 1).for_each(|place| place.python = own.python.clone());
        let interpreter = lines.iter().find_map(|(at, _)| frames.get(*at)?.library.clone());
        let is_folded = |place: &Place| place.library == interpreter && place.file_name().is_some_and(is_interpreter);
        let (mut maker, mut stack) = (0, Vec::new());
        let mut rest = lines.into_iter().peekable();
        for (at, place) in frames.into_iter().enumerate() {
            let before = stack.len();
            while let Some((_, line)) = rest.next_if(|(line, _)| *line <= at) {
                stack.push(line);
            }
            if at == caller {
                maker = stack.len();
            }
            if at <= caller || stack.len() == before && !is_folded(&place) {
                stack.push(place);
            }
        }
        stack.extend(rest.map(|(_, line)| line));
        (maker, stack)
    }

    /// Returns the place of a Python frame; `None` if the recording does not describe its function.
    fn python_place(&mut self, process: usize, line: &PythonLine) -> Option<Place> {
        let key = (process, u64::from(line.function) << 32 | u64::from(line.line));
        if let Some(known) = self.lines.get(&key) {
            return known.clone();
        }
        let function = self.processes[process].python.get(&line.function);
        let place = function.map(|function| {
            let (name, file) = (Some(function.name.clone()), function.file.clone());
            let line = SourceLine { function: name, file, line: line.line };
            Place { python: Some(line.into()), ..Place::default() }
        });
        self.lines.insert(key, place.clone());
        place
    }

    /// Announces the addresses of a stack, so that their libraries are read together.
    fn announce_addresses(&mut self, process: usize, ticks: u64, frames: &[u64]) {
        if frames.len() < 2 {
            return;
        }
        let of = &self.processes[process];
        let asked = frames.iter().filter_map(|frame| Some((of.library_at(*frame, ticks)?, *frame)));
        let is_new =
            |(library, frame): &(&Library, u64)| !self.known.contains_key(&(process, *frame, Some(library.since)));
        self.names.announce(&asked.filter(is_new).collect::<Vec<_>>());
    }

    /// Returns the caller of a call, and its stack; if no frames were recorded, only its caller.
    pub fn of(&mut self, process: usize, call: &Call) -> (Place, Vec<Place>) {
        let caller = [call.caller];
        let frames = if call.details.frames.is_empty() { &caller[..] } else { &call.details.frames };
        self.place_by_frames(process, call.start, frames, &call.details.python)
    }

    /// Returns the place that made a call, by its return addresses and its Python frames, and its stack.
    pub fn place_by_frames(
        &mut self,
        process: usize,
        ticks: u64,
        frames: &[u64],
        python: &[PythonLine],
    ) -> (Place, Vec<Place>) {
        self.choose_place(process, ticks, (frames, python), None)
    }

    fn shared_text(&mut self, text: &str) -> Rc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let shared: Rc<str> = text.into();
        self.texts.insert(text.to_owned(), shared.clone());
        shared
    }
}

/// Returns true if a file name is the name of a Python interpreter.
fn is_interpreter(name: &str) -> bool {
    name.starts_with("libpython") || name.starts_with("python")
}

/// Returns the lines that show a stack in text for people. If the stack has Python frames, only these are shown, the
/// first with the place that made the call.
pub fn format_stack(stack: &[Place]) -> Vec<String> {
    let Some((first, rest)) = stack.split_first() else { return Vec::new() };
    if first.python.is_none() {
        return stack.iter().flat_map(Place::lines).collect();
    }
    // The line about the caller already contains one Python frame.
    let mut lines = rest.iter().filter(|place| place.is_of_python()).peekable();
    lines.next_if(|place| !first.is_of_python() && place.python == first.python);
    let more = lines.map(Place::long);
    [first.long()].into_iter().chain(more).collect()
}

impl Place {
    /// Returns the place that made the call: the Python frame in this place, or else this place itself.
    pub fn calling_place(&self) -> &Place {
        self.via.as_deref().unwrap_or(self)
    }

    /// Returns true if this is the place of a frame of a stack, or of one of its lines.
    pub fn is_place_of(&self, frame: &Place) -> bool {
        let of = |place: &Place| (place.library.clone(), place.build_id.clone(), place.offset);
        of(self.calling_place()) == of(frame) && self.calling_place().python == frame.python
    }

    /// Returns the origin of this line of Python.
    pub(super) fn origin(&self) -> CodeOrigin<'_> {
        CodeOrigin::of_file(self.python.as_deref().map_or("", |line| &line.file))
    }

    /// Returns true if this is a Python frame, and not a frame of the code that Python called.
    pub(super) fn is_of_python(&self) -> bool {
        self.python.is_some() && self.library.is_none() && self.offset == 0
    }

    /// Returns the file name of the library; `None` if the library is unknown.
    pub fn file_name(&self) -> Option<&str> {
        self.library.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path))
    }

    /// Returns true if this place is in the CUDA runtime, as a shared library or statically linked into
    /// another library. Recognizes the latter by the names of its functions.
    fn is_runtime(&self) -> bool {
        let library = self.library.as_deref().unwrap_or_default();
        let function = self.function.as_deref().unwrap_or_default();
        is_runtime_library(library.as_bytes()) || function.starts_with("libcudart_static_")
    }

    /// Returns true if the function is a public function of the runtime, such as `cudaMalloc`.
    fn is_entry_of_runtime(&self) -> bool {
        let name = self.function.as_deref().and_then(|name| name.strip_prefix("cuda"));
        name.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    }

    /// Returns the name of the function without an offset; `None` if it is unknown.
    pub fn symbol(&self) -> Option<&str> {
        let function = self.function.as_deref()?;
        Some(function.rsplit_once("+0x").map_or(function, |(symbol, _)| symbol))
    }

    /// Returns the names of the functions at this place: the Python function, inlined functions, and the
    /// library's function.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        let lines = self.python.as_deref().into_iter().chain(&*self.lines);
        lines.filter_map(|line| line.function.as_deref()).chain(self.symbol())
    }

    /// Returns the place as `libx.so+0x12`, or only the address if the library is unknown.
    pub fn short(&self) -> String {
        match self.file_name() {
            Some(name) => format!("{name}+{:#x}", self.offset),
            None => format!("{:#x}", self.offset),
        }
    }

    /// Returns the place in several lines: the functions that were inlined there, and last the function that contains
    /// them.
    pub fn lines(&self) -> Vec<String> {
        if self.is_of_python() {
            return vec![self.long()];
        }
        let Some((last, inlined)) = self.lines.split_last() else { return vec![self.format_native()] };
        let inlined = inlined.iter().map(|line| format!("{}, inlined", line.text()));
        inlined.chain([format!("{}, {}", last.text(), self.short())]).collect()
    }

    /// Formats the place with its source line if known: `main.c:12 in f, libx.so+0x12`. Otherwise, with its
    /// function: `libx.so+0x12 f+0x2`. A line of Python that led here comes first: `train.py:118 in exchange,
    /// libx.so+0x12`.
    pub fn long(&self) -> String {
        match &self.python {
            Some(line) if self.is_of_python() => line.text(),
            Some(line) => format!("{}{}, {}", line.text(), self.format_through(), self.format_native()),
            None => self.format_native(),
        }
    }

    /// Returns the source line in words, followed by the line that made the call on its behalf; `None` if no
    /// line is known.
    pub fn line(&self) -> Option<String> {
        Some(self.source()?.text() + &self.format_through())
    }

    /// Returns the line of source if it is known, or else [`Place::long`].
    pub fn line_or_long(&self) -> String {
        self.line().unwrap_or_else(|| self.long())
    }

    /// Names the line that made the call on behalf of this place: ` (through rt.h:17)`; empty if there is
    /// none.
    fn format_through(&self) -> String {
        let line = self.via.as_deref().and_then(Place::source).filter(|line| Some(*line) != self.source());
        let file = |line: &SourceLine| SourceLine { function: None, ..line.clone() }.text();
        line.map_or_else(String::new, |line| format!(" (through {})", file(line)))
    }

    /// Returns the innermost line of source; `None` if none is known.
    pub fn source(&self) -> Option<&SourceLine> {
        self.python.as_deref().or_else(|| self.lines.first())
    }

    fn format_native(&self) -> String {
        match &self.function {
            _ if !self.lines.is_empty() => {
                let through = if self.python.is_none() { self.format_through() } else { String::new() };
                format!("{}{through}, {}", self.lines[0].text(), self.short())
            }
            Some(function) => format!("{} {}", self.short(), shorten_name(function, LONGEST_NAME)),
            None => self.short(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_record::PythonFunction;
    use cupeer_record::writer::{About, Writer};

    /// A process with an interpreter, and what Python calls.
    fn process(interpreter: &str) -> Process {
        let mut writer = Writer::in_memory(About::default());
        for (number, path) in ["/lib/libffi.so.8", interpreter, "/lib/libc.so.6"].into_iter().enumerate() {
            let base = 0x1000 * (number as u64 + 1);
            let library =
                Library { base, range: base..base + 0x1000, since: 0, build_id: Vec::new(), path: path.to_owned() };
            writer.library(&library).unwrap();
        }
        let (own, torch) = ("/home/a/train.py", "/opt/lib/python3.11/site-packages/torch/storage.py");
        let vllm = "/opt/lib/python3.11/site-packages/vllm/worker.py";
        let functions = [
            (6, "_share", torch),
            (7, "exchange", own),
            (8, "train", own),
            (9, "<module>", own),
            (10, "load", vllm),
            (11, "<module>", "/opt/bin/vllm"),
        ];
        for (number, name, file) in functions {
            let (file, name) = (file.to_owned(), name.to_owned());
            writer.python(number, &PythonFunction { file, name, first_line: 1 }).unwrap();
        }
        Process::from_bytes("1-1-1-1.cupeer", writer.into_bytes()).unwrap()
    }

    /// Formats a stack, and returns its caller.
    fn mixed(interpreter: &str, lines: &[(u32, u32, u8)]) -> (String, Vec<String>) {
        let processes = [process(interpreter)];
        let mut names = NoSymbols;
        let mut places = PlaceTable::new(&processes, &mut names);
        let python: Vec<PythonLine> = lines
            .iter()
            .map(|(function, line, frame)| PythonLine { function: *function, line: *line, frame: *frame })
            .collect();
        // ffi, the interpreter, its loop, the interpreter, its loop, libc.
        let frames = [0x1010, 0x2010, 0x2020, 0x2030, 0x2040, 0x3010];
        let (caller, stack) = places.choose_place(0, 1, (&frames, &python), None);
        (caller.long(), stack.iter().flat_map(Place::lines).collect())
    }

    #[test]
    fn frames_of_python_stand_where_the_interpreter_was() {
        let lines = [(7, 118, 2), (8, 30, 4), (9, 0, 6)];
        let (caller, stack) = mixed("/lib/libpython3.11.so.1.0", &lines);
        assert_eq!(caller, "train.py:118 in exchange, libffi.so.8+0x10");
        let python = ["train.py:118 in exchange", "train.py:30 in train", "train.py in <module>"];
        let [first, second, third] = python;
        assert_eq!(stack, ["libffi.so.8+0x10", first, second, "libc.so.6+0x10", third]);
        // A program that has an interpreter has more than that.
        let (_, stack) = mixed("/bin/blender", &lines);
        let own = ["libffi.so.8+0x10", "blender+0x10", first, "blender+0x30", second, "libc.so.6+0x10", third];
        assert_eq!(stack, own);
    }

    #[test]
    fn frames_without_recorded_lines_are_left_out() {
        let (caller, stack) = mixed("/lib/libpython3.11.so.1.0", &[(1, 5, 2)]);
        assert_eq!((caller.as_str(), stack.len()), ("libffi.so.8+0x10", 6));
        let (caller, _) = mixed("/lib/libpython3.11.so.1.0", &[(1, 5, 2), (8, 30, 2)]);
        assert_eq!(caller, "train.py:30 in train, libffi.so.8+0x10");
    }

    #[test]
    fn a_line_of_the_user_is_shown_before_those_of_libraries() {
        let lines = [(6, 1511, 2), (7, 118, 2), (8, 30, 4)];
        let (caller, stack) = mixed("/lib/libpython3.11.so.1.0", &lines);
        assert_eq!(caller, "train.py:118 in exchange, libffi.so.8+0x10");
        assert_eq!(stack[..3], ["libffi.so.8+0x10", "storage.py:1511 in _share", "train.py:118 in exchange"]);
        // If all files are installed, the caller is the line that uses the sharing library.
        let (caller, _) = mixed("/lib/libpython3.11.so.1.0", &[(6, 1511, 2), (10, 70, 2), (11, 8, 4)]);
        assert_eq!(caller, "worker.py:70 in load, libffi.so.8+0x10");
    }

    #[test]
    fn people_see_the_lines_of_python_alone() {
        let line = |line| SourceLine { function: Some("f".into()), file: "/a/b.py".into(), line };
        let of = |offset, number| Place {
            library: (offset > 0).then(|| "/lib/libffi.so.8".into()),
            offset,
            python: (number > 0).then(|| line(number).into()),
            ..Place::default()
        };
        let stack = [of(1, 3), of(2, 0), of(0, 3), of(3, 0), of(0, 4)];
        assert_eq!(format_stack(&stack), ["b.py:3 in f, libffi.so.8+0x1", "b.py:4 in f"]);
        assert_eq!(format_stack(&stack[1..2]), ["libffi.so.8+0x2"]);
        assert_eq!(stack.map(|place| place.source().map(|line| line.line)), [Some(3), None, Some(3), None, Some(4)]);
    }
}
