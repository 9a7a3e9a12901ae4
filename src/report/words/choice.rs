//! Chooses the frame of a stack that people are shown as the place of a call.
//!
//! It is the innermost frame of the program's own that tells its place from others. These give way to their callers:
//!
//! - libraries: installed ones, those without lines where others have them, and installed Python packages; and functions of
//!   the program's own libraries that only pass calls on;
//! - functions of headers, and of files that other files use like those, that only pass calls on;
//! - functions that end a scope: destructors, deleters, `__exit__`;
//! - helpers: functions that several places call for one purpose. If each of these places breaks the rule in question, the
//!   helper itself is the place.
//!
//! [`HelperFunctions`] learns from all stacks of a recording which functions are helpers.

use super::stacks::StackNumber;
use crate::model::Place;
use cupeer_record::Process;
use cupeer_spec::function::FnId;
use cupeer_spec::group::Group;
use cupeer_spec::origin::{CodeOrigin, is_header_file};
use cupeer_symbols::SourceLine;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::path::Path;

/// Purposes of calls, one bit each. A function that many places call for a single purpose is a helper.
pub mod purpose {
    /// The call allocates, opens, or enables something.
    pub const ACQUIRE: u8 = 1;
    /// The call frees, closes, or disables something.
    pub const RELEASE: u8 = 2;
    /// The call uses memory.
    pub const USE: u8 = 4;
}

/// Returns the purpose of calls of a function; 0 if the function serves several purposes, such as the release
/// of a handle after mapping memory.
pub fn purpose(function: FnId) -> u8 {
    let spec = function.spec();
    match () {
        () if function == FnId::cuMemRelease => 0,
        () if spec.is_release() || spec.unbinds().is_some() => purpose::RELEASE,
        () if spec.is_device_work() => purpose::USE,
        () if spec.shares() || spec.makes().is_some() || spec.is_in(Group::Alloc) || spec.is_virtual_memory_call() => {
            purpose::ACQUIRE
        }
        () => 0,
    }
}

/// Directories of a program. Libraries in them belong to the program.
#[derive(Default)]
pub struct ProgramDirectories {
    /// Path of the program's file.
    program: String,
    folders: Vec<String>,
}

impl ProgramDirectories {
    /// Returns the directories of a process: those of its program, or of the script that Python executes.
    pub fn of(process: &Process) -> ProgramDirectories {
        let scripts = process.python.values().map(|function| &*function.file);
        let own = scripts.filter(|file| file.starts_with('/') && CodeOrigin::of_file(file) == CodeOrigin::User);
        let folders = own.chain([process.program()]).filter_map(|file| Path::new(file).parent()?.to_str());
        let folders: BTreeSet<&str> = folders.filter(|folder| !is_installed(folder)).collect();
        let folders = folders.into_iter().map(|folder| format!("{}/", folder.trim_end_matches('/'))).collect();
        ProgramDirectories { program: process.program().to_owned(), folders }
    }

    /// Returns true if a library may belong to the program. If `is_strict` is true, the library must be next
    /// to the program's files.
    pub fn may_contain(&self, library: &str, is_strict: bool) -> bool {
        let is_inside = || self.folders.iter().any(|root| library.starts_with(root.as_str()));
        if is_strict { is_inside() && !is_package(library) } else { !is_installed(library) || is_inside() }
    }
}

fn is_package(path: &str) -> bool {
    path.contains("/site-packages/") || path.contains("/dist-packages/")
}

/// Returns true if a file belongs to the system or to a package, by its path.
pub fn is_installed(path: &str) -> bool {
    const FOLDERS: [&str; 6] = ["/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/nix/store/"];
    is_package(path) || FOLDERS.iter().any(|folder| path.starts_with(folder)) || path.starts_with('[')
}

/// Returns true if a source file belongs to the compiler or the system.
fn is_system_source(file: &str) -> bool {
    const PARTS: [&str; 5] = ["/include/c++/", "/lib/gcc/", "/rustc/", "/.cargo/registry/", "/local/cuda"];
    file.starts_with("/usr/include/") || PARTS.iter().any(|part| file.contains(part))
}

/// Returns the source line to show for an address that is not in a call: the innermost line that is not in a
/// header.
pub fn line_to_show(lines: &[SourceLine]) -> Option<&SourceLine> {
    let is_own = |line: &&SourceLine| !is_header_file(&line.file) && !is_system_source(&line.file);
    lines.iter().find(is_own).or(lines.first())
}

/// Returns true if a function ends a scope, and thus ends objects that other code created.
fn ends_scope(function: &str) -> bool {
    const NAMES: [&str; 4] = ["__del__", "__exit__", "__aexit__", "_M_dispose"];
    let plain = strip_arguments(function);
    let name = plain.rsplit("::").next().unwrap_or_default();
    // Python prefixes the name of a method with its class.
    let name = name.rsplit('.').next().unwrap_or_default();
    name.starts_with('~') || NAMES.contains(&name) || plain.ends_with("_ptr::reset")
}

/// Returns a name without its parameters and template arguments.
fn strip_arguments(function: &str) -> String {
    let mut depth = 0usize;
    let mut plain = String::new();
    for character in function.chars() {
        match character {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    plain.trim_end_matches(" const").to_owned()
}

/// A frame as shown to users: one of the lines of a place.
#[derive(Clone, Copy)]
struct ShownFrame<'p> {
    /// Index of the place in the stack, and index of the line in the place.
    at: (usize, usize),
    place: &'p Place,
    line: Option<&'p SourceLine>,
    is_own: bool,
}

impl<'p> ShownFrame<'p> {
    fn function(&self) -> &'p str {
        let symbol = || self.place.symbol().unwrap_or_default();
        self.line.and_then(|line| line.function.as_deref()).unwrap_or_else(symbol)
    }

    fn file(&self) -> &'p str {
        self.line.map_or_else(|| self.place.library.as_deref().unwrap_or_default(), |line| &line.file)
    }

    /// Returns the hash that the frames of its function share, and the hash that the frames of its line
    /// share.
    fn function_and_line_hashes(&self) -> (u64, u64) {
        let function = hash(&(self.function(), self.file()));
        (function, hash(&(function, self.line.map_or(self.place.offset, |line| u64::from(line.line)))))
    }
}

fn hash(of: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(of)
}

/// Returns the frames of a stack from the place `maker` on, the innermost first.
fn collect_frames<'p>(stack: &'p [Place], maker: usize, roots: &ProgramDirectories) -> Vec<ShownFrame<'p>> {
    let innermost = stack.iter().find(|place| place.is_of_python()).map(Place::origin);
    let standing = |place: &Place| innermost.map_or(0, |innermost| place.origin().relevance(innermost));
    let best = stack.iter().filter(|place| place.is_of_python()).map(standing).max().unwrap_or(0);
    // The code of `python -c`, which starts workers, is the program only if no frame is in a file.
    let is_file = |place: &Place| place.python.as_ref().is_some_and(|line| !line.file.starts_with('<'));
    let has_file = stack.iter().any(|place| is_file(place) && standing(place) == best);
    let mut frames = Vec::new();
    for (at, place) in stack.iter().enumerate().skip(maker) {
        if place.is_of_python() {
            let is_own = best == CodeOrigin::BEST && standing(place) == best && (is_file(place) || !has_file);
            frames.push(ShownFrame { at: (at, 0), place, line: place.python.as_deref(), is_own });
            continue;
        }
        let library = place.library.as_deref().unwrap_or_default();
        let is_own = !library.is_empty() && roots.may_contain(library, innermost.is_some());
        for (number, line) in place.lines.iter().enumerate() {
            let is_own = is_own && line.line > 0 && !is_system_source(&line.file);
            frames.push(ShownFrame { at: (at, number), place, line: Some(line), is_own });
        }
        if place.lines.is_empty() {
            frames.push(ShownFrame { at: (at, 0), place, line: None, is_own: false });
        }
    }
    frames
}

/// Functions that occur in stacks, with their callers and their purposes: the data by which helpers are
/// recognized.
#[derive(Default)]
pub struct HelperFunctions {
    functions: HashMap<u64, FunctionUse>,
    /// Driver function that each line calls; `None` for a line that calls several.
    lines: HashMap<u64, Option<FnId>>,
    files: HashMap<u64, SourceFileUse>,
}

/// Number of lines in other files that must call into a file before it counts as a layer.
const FEWEST_ENTRIES: usize = 3;

/// Source file whose functions are called from other files.
#[derive(Default)]
struct SourceFileUse {
    /// Lines in other files that call each function of this file.
    entries: HashMap<u64, HashSet<u64>>,
    /// True if a thread of the program starts in this file.
    is_root: bool,
    /// True if a line of this file calls several driver functions.
    is_generic: bool,
}

impl SourceFileUse {
    /// Returns true if the function belongs to a layer: it calls functions that are passed to it, or other
    /// code uses several functions of its file, or uses a few of them in several places.
    fn is_layer(&self) -> bool {
        let entries = || self.entries.values().map(HashSet::len).sum::<usize>();
        !self.is_root && (self.is_generic || entries() >= FEWEST_ENTRIES)
    }
}

#[derive(Default)]
struct FunctionUse {
    purposes: u8,
    /// Lines that call the function, each with the stacks that contain the line.
    callers: HashMap<u64, HashSet<StackNumber>>,
}

/// Calls that break one rule.
#[derive(Default)]
pub struct RuleBreakingCalls {
    /// Stacks of the calls.
    pub stacks: HashSet<StackNumber>,
    /// True if the rule is about values that are written in the code of the call, such as flags.
    pub is_written: bool,
    /// True if the rule is about a missing call, which each caller may have to make.
    pub is_forgotten: bool,
}

impl HelperFunctions {
    /// Learns from a stack and from the driver functions that were called with this stack.
    pub fn learn_stack(
        &mut self,
        stack: StackNumber,
        places: &[Place],
        maker: usize,
        roots: &ProgramDirectories,
        called: &[FnId],
    ) {
        let frames = collect_frames(places, maker, roots);
        let own: Vec<&ShownFrame> = frames.iter().filter(|frame| frame.is_own).collect();
        self.learn_files(&own);
        let file = own.first().map(|first| hash(&first.file()));
        let own: Vec<(u64, u64)> = own.into_iter().map(ShownFrame::function_and_line_hashes).collect();
        let purposes = called.iter().fold(0, |all, function| all | purpose(*function));
        for (index, (function, line)) in own.iter().enumerate() {
            let known = self.functions.entry(*function).or_default();
            known.purposes |= purposes;
            if let Some((_, caller)) = own[index + 1..].iter().find(|(other, _)| other != function) {
                known.callers.entry(*caller).or_default().insert(stack);
            }
            for called in called.iter().filter(|_| index == 0) {
                let known = self.lines.entry(*line).or_insert(Some(*called));
                *known = known.filter(|known| known == called);
                let file = file.filter(|_| known.is_none());
                file.into_iter().for_each(|file| self.files.entry(file).or_default().is_generic = true);
            }
        }
    }

    fn learn_files(&mut self, own: &[&ShownFrame]) {
        for pair in own.windows(2).filter(|pair| pair[0].file() != pair[1].file()) {
            let entries = &mut self.files.entry(hash(&pair[0].file())).or_default().entries;
            entries
                .entry(pair[0].function_and_line_hashes().0)
                .or_default()
                .insert(pair[1].function_and_line_hashes().1);
        }
        if let Some(last) = own.last() {
            self.files.entry(hash(&last.file())).or_default().is_root = true;
        }
    }

    /// Returns true if the frame only passes calls on, so that its caller is reported instead.
    fn only_passes_on(
        &self,
        frame: &ShownFrame,
        next: &ShownFrame,
        roots: &ProgramDirectories,
        offending: Option<&RuleBreakingCalls>,
    ) -> bool {
        let is_program = |frame: &ShownFrame| frame.place.library.as_deref() == Some(roots.program.as_str());
        if is_program(frame) && !is_program(next) && !next.place.is_of_python() {
            // A callback that the program passes to a library is code of the program itself.
            return false;
        }
        let (function, line) = frame.function_and_line_hashes();
        let is_library =
            !frame.place.is_of_python() && !next.place.is_of_python() && frame.place.library != next.place.library;
        let is_used_as_one = |file: &str| self.files.get(&hash(&file)).is_some_and(SourceFileUse::is_layer);
        let is_layer = is_library || is_header_file(frame.file()) || is_used_as_one(frame.file());
        let Some(known) = self.functions.get(&function) else { return is_layer };
        // A line that calls functions passed to it serves several purposes, and has none of its own.
        let is_generic = self.lines.get(&line).is_some_and(Option::is_none);
        let is_simple = known.purposes.count_ones() <= 1 || is_generic;
        let breaks = |stacks: &HashSet<StackNumber>, of: &RuleBreakingCalls| !stacks.is_disjoint(&of.stacks);
        let all_break = offending.filter(|of| known.callers.values().all(|stacks| breaks(stacks, of)));
        is_simple
            && match all_break {
                Some(of) if is_layer => !of.is_written,
                Some(of) => of.is_forgotten && known.callers.len() > 1,
                None => is_layer || known.callers.len() > 1,
            }
    }

    /// Returns the place of a call to show. `maker` is the index of the place that made the call: frames
    /// before it do not matter.
    pub fn choose_place(
        &self,
        stack: &[Place],
        maker: usize,
        roots: &ProgramDirectories,
        offending: Option<&RuleBreakingCalls>,
    ) -> Place {
        let Some(made) = stack.get(maker) else { return Place::default() };
        let frames = collect_frames(stack, maker, roots);
        let own: Vec<usize> = (0..frames.len()).filter(|index| frames[*index].is_own).collect();
        let Some(first) = own.first() else { return made.clone() };
        let mut chosen = *first;
        for next in &own[1..] {
            let between = &frames[chosen..*next];
            let ends = between.iter().any(|frame| ends_scope(frame.function()));
            if !ends && !self.only_passes_on(&frames[chosen], &frames[*next], roots, offending) {
                break;
            }
            chosen = *next;
        }
        let chosen = &frames[chosen];
        let mut place = if chosen.place.is_of_python() {
            Place { python: chosen.place.python.clone(), ..made.clone() }
        } else {
            Place { lines: chosen.place.lines[chosen.at.1..].into(), python: None, ..chosen.place.clone() }
        };
        if place != *made {
            place.via = Some(made.clone().into());
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_end_a_scope() {
        for name in [
            "acme::Mapping::~Mapping()",
            "~Mapping",
            "std::unique_ptr<int, void (*)(int*)>::~unique_ptr()",
            "std::unique_ptr<Pool, Deleter>::reset(Pool*)",
            "Share.__exit__",
            "__del__",
        ] {
            assert!(ends_scope(name), "{name}");
        }
        for name in ["close", "run(std::unique_ptr<Task>::pointer)", "reset", "f<&T::~T>(int)", "__enter__"] {
            assert!(!ends_scope(name), "{name}");
        }
    }

    #[test]
    fn libraries_of_a_program_are_beside_it() {
        let roots = ProgramDirectories { folders: vec!["/home/a/".into()], ..ProgramDirectories::default() };
        for (path, is_strict, is_own) in [
            ("/home/a/lib/libx.so", true, true),
            ("/home/a/venv/lib/python3.11/site-packages/torch/lib/libtorch.so", true, false),
            ("/home/b/libx.so", true, false),
            ("/home/b/libx.so", false, true),
            ("/usr/lib/libnccl.so.2", false, false),
            ("[vdso]", false, false),
        ] {
            assert_eq!(roots.may_contain(path, is_strict), is_own, "{path}");
        }
    }
}
