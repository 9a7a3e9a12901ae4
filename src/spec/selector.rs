//! The words that choose functions: `cuIpcOpenMemHandle*,@peer,^cuDeviceCanAccessPeer`.
//!
//! A driver name without a version selects all versions, because cuda.h maps names: `cuIpcOpenMemHandle`
//! calls `cuIpcOpenMemHandle_v2`. A runtime name selects the driver functions that it stands for
//! ([`crate::runtime`]), and the runtime's own functions that are in the table. The words apply from left to
//! right. A set that begins with a negation starts from all functions.

use crate::function::{FUNCTION_COUNT, FUNCTIONS, Group};
use crate::names::{TextError, find_nearest_name, matches_pattern};
use crate::others::{OTHERS, OtherFn};
use crate::runtime;
use core::array::from_fn;

/// A set of functions of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionSet([bool; FUNCTION_COUNT]);

impl TextError {
    /// Formats the position and the message for the author of `text`.
    pub fn explain_in(&self, text: &str) -> String {
        format!("column {}: {}", self.column, explain_error(text, self.column, &self.message))
    }
}

impl FunctionSet {
    /// Functions that are logged by default. It excludes lookups, of which a program with the CUDA runtime
    /// makes several hundred at its start, and calls that programs make all the time: frees, destroys, maps,
    /// copies, launches, event records, queries, and pool allocations.
    pub const DEFAULT: &'static str =
        "^@lookup,^@init,^@lifetime,^@query,^@vmm,^@alloc,^@copy,^@launch,^@graph,^@event,^@order,@export,@open";

    /// Returns a set of all functions, or an empty one.
    pub const fn all(present: bool) -> Self {
        FunctionSet([present; FUNCTION_COUNT])
    }

    /// Adds a function to the set or removes it, by its index in the table.
    pub fn set(&mut self, index: usize, present: bool) {
        if let Some(member) = self.0.get_mut(index) {
            *member = present;
        }
    }

    /// Returns true if the set has the function, by its index in the table.
    #[inline(always)]
    pub fn contains(&self, index: usize) -> bool {
        self.0.get(index).copied().unwrap_or(false)
    }

    /// Parses a set such as `cuIpcOpenMemHandle*,@peer,^cuDeviceCanAccessPeer`.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let mut set = FunctionSet::all(text.starts_with('^'));
        let mut column = 1;
        for item in text.split(',') {
            let (name, present) = match item.strip_prefix('^') {
                Some(name) => (name, false),
                None => (item, true),
            };
            let chosen = choose_functions(name)
                .map_err(|message| TextError { column: column + item.len() - name.len(), message })?;
            for (member, _) in set.0.iter_mut().zip(chosen).filter(|(_, chosen)| *chosen) {
                *member = present;
            }
            column += item.len() + 1;
        }
        Ok(set)
    }
}

/// Start of the error message about a name that selects no function.
const NONE: &str = "no function is named ";

/// Returns the message about an error at a `column` of a set or plan: if the driver has the function, why it cannot be selected.
/// The library does not call this, because it would need the names of all functions of the driver.
pub fn explain_error(text: &str, column: usize, message: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_*?".contains(c);
    let name = text.get(column.saturating_sub(1)..).and_then(|rest| rest.split(|c| !is_part(c)).next());
    let name = name.filter(|_| message.starts_with(NONE)).unwrap_or_default().as_bytes();
    let is_named = |f: &&OtherFn| matches_pattern(name, f.symbol.as_bytes()) || name == f.lookup.as_bytes();
    match OTHERS.iter().filter(|_| !name.is_empty()).find(is_named) {
        Some(other) => format!(
            "cupeer cannot fail, log, or record '{}', because it does not intercept it: its calls go straight to the driver; \
             'cupeer list functions' lists those that it intercepts",
            other.symbol
        ),
        None => message.to_owned(),
    }
}

/// Returns the functions that one item of a set names.
fn choose_functions(name: &str) -> Result<[bool; FUNCTION_COUNT], String> {
    if name.is_empty() {
        return Err("a function, a pattern or a @group is missing here".into());
    }
    if name == "all" || name == "none" {
        return Ok([name == "all"; FUNCTION_COUNT]);
    }
    if let Some(group) = name.strip_prefix('@') {
        let Some((group, ..)) = Group::ALL.iter().find(|(_, known, _)| *known == group) else {
            let names: Vec<String> = Group::ALL.iter().map(|(_, name, _)| format!("@{name}")).collect();
            return Err(format!("there is no group '@{group}'; the groups are {}", names.join(", ")));
        };
        return Ok(from_fn(|i| FUNCTIONS[i].is_in(*group)));
    }
    let chosen = from_fn(|i| {
        let is_named = matches_pattern(name.as_bytes(), FUNCTIONS[i].name().as_bytes());
        is_named
            || name == FUNCTIONS[i].lookup()
            || runtime::find_matching(name).any(|known| known.calls_function(&FUNCTIONS[i]))
    });
    if chosen.contains(&true) {
        return Ok(chosen);
    }
    let names = FUNCTIONS.iter().map(|f| f.name()).chain(runtime::function_names());
    let hint = match find_nearest_name(name, names) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => "'cupeer list functions' lists them all".into(),
    };
    Err(format!("{NONE}'{name}'; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::FnSpec;

    fn names(text: &str) -> Vec<&'static str> {
        let set = FunctionSet::parse(text).unwrap();
        FUNCTIONS.iter().enumerate().filter(|(i, _)| set.contains(*i)).map(|(_, f)| f.name()).collect()
    }

    #[test]
    fn names_globs_groups_and_negations() {
        assert_eq!(names("cuIpcOpenMemHandle_v2"), ["cuIpcOpenMemHandle_v2"]);
        assert_eq!(names("cuIpcOpenMemHandle*"), ["cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"]);
        assert_eq!(names("@ipc-event"), ["cuIpcGetEventHandle", "cuIpcOpenEventHandle"]);
        assert_eq!(names("@ipc-event,^*Open*"), ["cuIpcGetEventHandle"]);
        assert_eq!(names("all").len(), FUNCTIONS.len());
        assert_eq!(names("none"), [""; 0]);
    }

    #[test]
    fn a_name_without_its_version_means_all_versions() {
        let opens = ["cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"];
        assert_eq!(names("cuIpcOpenMemHandle"), opens);
        assert_eq!(names("cuIpcOpenMemHandle_v2,cuMemFree"), [&opens[1..], &["cuMemFree", "cuMemFree_v2"]].concat());
        assert_eq!(names("@open,^cuIpcOpenMemHandle,^cuMem*"), ["cuIpcOpenEventHandle"]);
        assert!(names("cuMemcpyHtoD").contains(&"cuMemcpyHtoD_v2_ptds"));
        for f in FUNCTIONS.iter().filter(|f| !f.lookup().is_empty()) {
            assert!(names(f.lookup()).contains(&f.name()), "{}", f.name());
            assert_eq!(names(f.name()) == [f.name()], names(f.name()).len() == 1, "{}", f.name());
        }
    }

    #[test]
    fn a_function_that_is_not_intercepted_is_called_so() {
        let message = |text: &str| {
            let error = FunctionSet::parse(text).unwrap_err();
            explain_error(text, error.column, &error.message)
        };
        for (set, symbol) in [
            ("cuMemAllocHost_v2", "cuMemAllocHost_v2"),
            ("@ipc,^cuMemGetInfo", "cuMemGetInfo"),
            ("cuStreamGetFlags_p*", "cuStreamGetFlags_ptsz"),
        ] {
            let begin = format!("cupeer cannot fail, log, or record '{symbol}', because it does not intercept it");
            assert!(message(set).starts_with(&begin), "{}", message(set));
        }
        for none in ["cuIpcOpenMemHandel", "cuMemAllocHost_v9", "", "@pier"] {
            assert_eq!(message(none), FunctionSet::parse(none).unwrap_err().message);
        }
    }

    #[test]
    fn names_of_the_runtime_mean_what_they_stand_for() {
        let opens = ["cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2", "cudaIpcOpenMemHandle"];
        assert_eq!(names("cudaIpcOpenMemHandle"), opens);
        assert_eq!(names("@ipc-event,^cudaIpcOpen*"), ["cuIpcGetEventHandle"]);
        let enables = ["cuCtxEnablePeerAccess", "cudaDeviceEnablePeerAccess"];
        assert_eq!(names("cudaDeviceEnablePeerAccess"), enables);
        assert_eq!(names("cudaFree"), ["cuMemFree", "cuMemFree_v2"]);
        assert!(!names("*Device*").contains(&"cuCtxEnablePeerAccess"), "no pattern means more than before");
    }

    #[test]
    fn a_negation_in_front_means_everything_but() {
        let but = |groups: &[Group]| {
            let kept = FUNCTIONS.iter().filter(|f| !groups.iter().any(|group| f.is_in(*group)));
            kept.map(|f| f.name()).collect::<Vec<_>>()
        };
        assert_eq!(names("^@lookup"), but(&[Group::Lookup]));
        // The default logs exports and imports of virtual memory.
        let default = names(FunctionSet::DEFAULT);
        let usual = |f: &&FnSpec| !f.is_virtual_memory_call() || f.exports().or(f.opens()).is_some();
        let usual: Vec<_> = FUNCTIONS.iter().filter(usual).map(|f| f.name()).collect();
        let mut expected = but(&[
            Group::Lookup,
            Group::Init,
            Group::Lifetime,
            Group::Query,
            Group::Alloc,
            Group::Copy,
            Group::Launch,
            Group::Graph,
            Group::Event,
            Group::Order,
        ]);
        expected.retain(|name| usual.contains(name));
        assert_eq!(default, expected);
        assert!(default.contains(&"cuIpcCloseMemHandle") && default.contains(&"cuMemImportFromShareableHandle"));
        assert!(names(&format!("{},@lifetime", FunctionSet::DEFAULT)).contains(&"cuMemUnmap"));
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, wanted) in [
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
            ("a*", "a", true),
            ("*b*c", "abcbc", true),
            ("*b*c", "abcbd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("**", "x", true),
            ("a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches_pattern(pattern.as_bytes(), name.as_bytes()), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn errors_name_the_column_and_what_was_meant() {
        for (text, error) in [
            ("", "column 1: a function, a pattern or a @group is missing here"),
            ("@ipc,,@peer", "column 6: a function, a pattern or a @group is missing here"),
            ("@ipc,^", "column 7: a function, a pattern or a @group is missing here"),
            ("cuIpcOpenMemHandel", "column 1: no function is named 'cuIpcOpenMemHandel'; did you mean"),
            ("@ipc,^@pier", "column 7: there is no group '@pier'; the groups are @peer, @ipc,"),
            (
                "cudaIpcOpenMemHandel",
                "column 1: no function is named 'cudaIpcOpenMemHandel'; did you mean 'cudaIpcOpenMemHandle'?",
            ),
            ("cuIpc Open", "column 1: no function is named 'cuIpc Open'; "),
        ] {
            let got = FunctionSet::parse(text).unwrap_err().to_string();
            assert!(got.starts_with(error), "{text}: {got}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused_within_itself(text in "[ -~]{0,40}") {
            if let Err(error) = FunctionSet::parse(&text) {
                assert!(error.column >= 1 && error.column <= text.len() + 1);
            }
        }

        #[test]
        fn a_negation_takes_away_what_its_item_adds(a in "[a-zA-Z*?]{1,6}", b in "[a-zA-Z*?]{1,6}") {
            if let (Ok(both), Ok(less)) =
                (FunctionSet::parse(&a), FunctionSet::parse(&format!("{a},^{b}")))
            {
                for (i, function) in FUNCTIONS.iter().enumerate() {
                    let taken = matches_pattern(b.as_bytes(), function.name().as_bytes());
                    assert_eq!(less.contains(i), both.contains(i) && !taken);
                }
            }
        }
    }
}
