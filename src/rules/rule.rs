//! The form of a rule, and the list of all rules, which is generated from [`crate::entries`].

use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::finding::Severity;
use cupeer_spec::results::Result;

/// Facts that are needed to decide whether a rule is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Only the function, the result, and arguments that are not addresses: the rule is broken in all such calls, or in none.
    Arguments,
    /// Only the call, and results of driver queries about its arguments.
    Call,
    /// An earlier call of the process or its parent, which no later call undoes.
    EarlierCall,
    /// Earlier calls of the process.
    Process,
    /// A call of another process, which no later call undoes.
    CallElsewhere,
    /// Calls of other processes.
    Processes,
}

impl Scope {
    /// Returns the words for the scope.
    pub const fn words(self) -> &'static str {
        match self {
            Scope::Arguments | Scope::Call => "call",
            Scope::EarlierCall | Scope::Process => "process",
            Scope::CallElsewhere | Scope::Processes => "across processes",
        }
    }

    /// Returns true if a call that cupeer did not see could mean that the rule was not broken.
    pub const fn rests_on_history(self) -> bool {
        matches!(self, Scope::Process | Scope::Processes)
    }
}

/// Calls in which violations of a rule are found. The library finds them at the call and the report when it
/// reads the call, unless the comment says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Calls that fail with one of the results of the rule.
    InFailures,
    /// Calls that fail because the driver already is in a state, or is not in it. A violation is not reported
    /// if a fault plan hid the result of an earlier call, because the process could not know the state then.
    InStates,
    /// Calls that succeed. If the rule has results, also calls that fail with one of them.
    InSuccesses,
    /// Calls that succeed or fail. Only the library finds violations, because a recording lacks the facts.
    AtTheCall,
    /// Calls that succeed or fail. Only the report finds violations, after it has read all processes.
    Afterwards,
    /// Calls that succeed or fail. Only the report finds violations.
    InRecordings,
    /// Calls that fail although they break no rule.
    Unexplained,
    /// No calls, because the rule is not checked.
    Nowhere,
}

impl Found {
    /// Returns true if calls that succeed can break a rule of this kind.
    pub const fn can_be_in_successes(self) -> bool {
        matches!(self, Found::InSuccesses | Found::AtTheCall | Found::Afterwards)
    }
}

/// Fact about a handle or its exporter that a finding states. The report then does not repeat or contradict
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tells {
    /// A process ended with the handle open.
    OpenAtExit,
    /// No process could open the handle, and no process under cupeer exported it.
    Unknown,
    /// The handle is a damaged copy.
    Damaged,
    /// The handle is open although its exporter exited.
    ExporterGone,
    /// The exported object was freed while it was open.
    FreedWhileOpen,
    /// The exported object was freed before the call. The report adds the call that freed it.
    FreedBefore,
    /// The handle is open for longer than it should be. Libraries with a [`Cache`](crate::Cache) close late
    /// by design.
    ClosedLate,
    /// No export is known to the process. If the report knows one, it withdraws the finding.
    NotExported,
    /// The finding is a cost that no failure shows. The summary of a run lists it even if it is a note.
    Waste,
    /// The exporter exited. Other findings whose confidence is stale add this to their sentence.
    ExporterEnded,
}

/// Source of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Basis {
    /// A sentence of the driver's documentation (cuda.h of CUDA 13), and the function whose documentation has
    /// it.
    Documented(&'static str, &'static str),
    /// Observed behavior of drivers, where the documentation is silent or differs.
    Observed(&'static str),
    /// Failures that users had.
    Practice(&'static str),
}

impl Basis {
    /// Returns the sentence of the documentation, or the sentence about the observation.
    pub const fn sentence(self) -> &'static str {
        match self {
            Basis::Documented(_, sentence) | Basis::Observed(sentence) | Basis::Practice(sentence) => sentence,
        }
    }

    /// Returns the source of the sentence.
    pub const fn source(self) -> &'static str {
        match self {
            Basis::Documented(function, _) => function,
            Basis::Observed(_) => "observed, driver 580",
            Basis::Practice(_) => "practice",
        }
    }
}

/// Library that may break a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usual {
    /// Prefix of the library's file name.
    pub library: &'static str,
    /// Reason why breaking the rule is no error in the library.
    pub why: &'static str,
}

/// Rule with its properties.
#[derive(Clone, Copy, Debug)]
pub struct RuleSpec {
    /// The rule as a constant.
    pub id: Rule,
    name: &'static str,
    functions: &'static [FnId],
    results: &'static [Result],
    /// Severity of the rule's findings.
    pub severity: Severity,
    /// Facts that are needed to decide whether the rule is broken.
    pub scope: Scope,
    /// Calls in which violations of the rule are found.
    pub found: Found,
    tells: &'static [Tells],
    basis: Basis,
    bases: &'static [(FnId, Basis)],
    cause: &'static str,
    hint: &'static str,
    usual: &'static [Usual],
    /// Labels of objects that replace the usual ones: pairs of a usual label and its replacement.
    labels: &'static [(&'static str, &'static str)],
    unchecked: Option<&'static str>,
}

/// Texts of a rule for pages and reports only. They are in a table of their own, so that the preload library
/// does not contain them.
#[derive(Clone, Copy, Debug)]
pub struct RulePage {
    /// Requirement that programs must meet, as a sentence.
    pub says: &'static str,
    /// Cost of breaking the rule; empty if the only cost is that the call fails with its one result.
    pub costs: &'static str,
    /// Evidence that excludes a violation of this rule as the cause of a failure.
    pub ruled_out: &'static str,
    /// Public issues in which users met a violation.
    pub seen: &'static str,
    /// The fact without which a recording cannot decide the rule, or only in part; `None` if the recording is
    /// enough. If the process was not checked, it is unknown whether such a rule was kept.
    pub only_at_the_call: Option<&'static str>,
    /// Earlier call of the process that the report adds to a finding.
    pub related: Related,
}

/// The earlier call of a process that, together with the call of a finding, broke the rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Related {
    /// No call, or the call that the finding itself names.
    None,
    /// The call that opened the handle, and the call that closed it first.
    OpeningAndClosing,
    /// Call that ended a context that the finding's call uses; if there are several such calls, the only one
    /// that ended any context.
    EndOfContext,
    /// The call that ended the context of the thread.
    EndOfOwnContext,
    /// The call that enabled the access.
    Enabling,
    /// Call that first opened the same object.
    FirstOpening,
    /// The call that mapped the memory that is used.
    MappingUsed,
    /// The call that mapped memory in the range of the call.
    MappingInRange,
    /// The call that mapped memory, of which the call's range is a part.
    MappingCut,
    /// Call that released the object.
    Releasing,
}

impl RuleSpec {
    /// Returns the name of the rule, which is short and stable, and names the mistake.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the functions whose calls can break the rule.
    pub fn functions(&self) -> &'static [FnId] {
        self.functions
    }

    /// Returns the results of calls that break the rule; empty if these calls succeed, or if the result does
    /// not matter. A rule with results is checked for calls that failed with one of them. If its decision is
    /// unknown, it is listed as a possible cause.
    pub fn results(&self) -> &'static [Result] {
        self.results
    }

    /// Returns the source of the rule.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// Returns the sources for single functions that differ: another sentence documents them, or they return
    /// another result.
    pub fn bases_of_functions(&self) -> impl Iterator<Item = (FnId, Basis)> {
        self.bases.iter().copied()
    }

    /// Returns the source of the rule at one of its functions.
    pub fn basis_at(&self, function: Option<FnId>) -> Basis {
        self.bases.iter().find(|(known, _)| Some(*known) == function).map_or(self.basis, |(_, basis)| *basis)
    }

    /// Returns the clause that names a violation as the cause of a failure.
    pub fn cause(&self) -> &'static str {
        self.cause
    }

    /// Returns the advice that fixes a violation.
    pub fn hint(&self) -> &'static str {
        self.hint
    }

    /// Returns the libraries that break the rule on purpose, or without harm. A finding in one of their calls
    /// is a note.
    pub fn exemptions(&self) -> impl Iterator<Item = Usual> {
        self.usual.iter().copied()
    }

    /// Returns the entry of the calling library, by its path, if the library may break the rule.
    pub fn exemption_for(&self, library: &[u8]) -> Option<Usual> {
        self.exemptions().find(|usual| is_library_named(library, usual.library))
    }

    /// Returns the reason why the rule is not checked; `None` if it is checked.
    pub fn reason_unchecked(&self) -> Option<&'static str> {
        self.unchecked
    }

    /// Returns true if the rule is checked.
    pub fn is_checked(&self) -> bool {
        self.found != Found::Nowhere
    }

    /// Returns the facts that only the call itself shows; `None` if the recording is enough to decide the
    /// rule.
    pub fn only_at_the_call(&self) -> Option<&'static str> {
        self.page().only_at_the_call
    }

    /// Returns the texts for pages and reports.
    pub fn page(&self) -> &'static RulePage {
        &PAGES[self.id as usize]
    }

    /// Returns the rule's own label for an object of a finding, by the usual label; `None` if the rule has
    /// none.
    pub fn label(&self, past: &str) -> Option<&'static str> {
        self.labels.iter().find(|(usual, _)| *usual == past).map(|(_, label)| *label)
    }

    /// Returns true if the rule's findings state this fact about a handle.
    pub fn states_fact(&self, what: Tells) -> bool {
        self.tells.contains(&what)
    }

    /// Returns true if the rule explains a failure and cannot be broken. Its findings are printed at every
    /// level, once for each result.
    pub fn is_explanation(&self) -> bool {
        self.found == Found::Unexplained
    }

    /// Returns true if breaking the rule makes a function return this result.
    pub fn explains(&self, function: FnId, result: i32) -> bool {
        self.functions().contains(&function) && self.results().iter().any(|known| *known as i32 == result)
    }
}

impl Rule {
    /// Returns the entry of the rule.
    pub fn spec(self) -> &'static RuleSpec {
        &RULES[self as usize]
    }

    /// Returns the rule with a name; `None` if there is none.
    pub fn of(name: &str) -> Option<Rule> {
        RULES.iter().find(|rule| rule.name() == name).map(|rule| rule.id)
    }
}

/// Returns true if a name matches a library's path: the file name begins with it. A name that ends in a slash
/// matches a directory of the path.
pub fn is_library_named(library: &[u8], name: &str) -> bool {
    let mut parts = library.split(|byte| *byte == b'/');
    match name.strip_suffix('/') {
        Some(directory) => {
            let file = parts.next_back();
            file.is_some() && parts.any(|part| part == directory.as_bytes())
        }
        None => parts.next_back().is_some_and(|file| file.starts_with(name.as_bytes())),
    }
}

/// Generates the enumeration of all rules, and the list of their entries.
macro_rules! declare {
    (; $(
        rule $id:ident $name:literal {
            says: $says:literal,
            $(functions: [$($function:ident),* $(,)?],)?
            $(functions_of: $table:ident,)?
            $(results: [$($result:ident),* $(,)?],
            decided_by: $decider:ident $(($rule:expr))?,)?
            $(reasons: $reasons:tt,)?
            severity: $severity:ident, scope: $scope:ident, found: $found:ident, tells: [$($tells:ident),*],
            rests_on: $basis:ident($($basis_text:literal),+ $(,)?),
            $(rests_on_at: [$($at:ident: $basis_at:ident($($basis_at_text:literal),+ $(,)?)),+ $(,)?],)?
            $(costs: $costs:literal,)?
            $(cause: $cause:literal,
            ruled_out: $ruled_out:literal,)?
            $(hint: $hint:literal,)?
            $(usual: [$(($library:literal, $why:literal)),* $(,)?],)?
            $(only_at_the_call: $fact:literal,)?
            $(related: $related:ident,)?
            $(labels: [$($past:ident: $label:literal),+ $(,)?],)?
            $(seen: $seen:literal,)?
            $(unchecked: $reason:literal,)?
        }
    )*) => {
        /// Rule, by its name.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Rule {
            $(#[doc = $says] $id,)*
        }

        /// All rules, in the order in which causes of a failure are checked: the more specific ones first.
        pub static RULES: &[RuleSpec] =
            &[$(RuleSpec {
                id: Rule::$id,
                name: $name,
                functions: declare!(@functions [$($($function)*)?] $($table)?),
                results: &[$($(Result::$result),*)?],
                severity: Severity::$severity,
                scope: Scope::$scope,
                found: Found::$found,
                tells: &[$(Tells::$tells),*],
                basis: Basis::$basis($($basis_text),+),
                bases: &[$($((FnId::$at, Basis::$basis_at($($basis_at_text),+))),+)?],
                cause: concat!($($cause)?),
                hint: concat!($($hint)?),
                usual: &[$($(Usual { library: $library, why: $why }),*)?],
                labels: &[$($((stringify!($past), $label)),+)?],
                unchecked: declare!(@optional $($reason)?),
            }),*];

        static PAGES: &[RulePage] = &[$(RulePage {
            says: $says,
            costs: declare!(@costs [$($($result)*)?] $($costs)?),
            ruled_out: concat!($($ruled_out)?),
            seen: concat!($($seen)?),
            only_at_the_call: declare!(@optional $($fact)?),
            related: declare!(@related $($related)?),
        }),*];
    };
    (@functions [$($function:ident)*]) => { &[$(FnId::$function),*] };
    (@functions [] $table:ident) => { &cupeer_spec::function::$table };
    (@costs [$result:ident]) => { concat!("The call fails with CUDA_ERROR_", stringify!($result), ".") };
    (@costs [$($result:ident)*] $costs:literal) => { $costs };
    (@optional) => { None };
    (@optional $text:literal) => { Some($text) };
    (@related) => { Related::None };
    (@related $related:ident) => { Related::$related };
}
with_rules!(declare);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_short() {
        for (i, rule) in RULES.iter().enumerate() {
            assert_eq!(Rule::of(rule.name()), Some(rule.id));
            assert_eq!(rule.id as usize, i);
            assert!(rule.name().len() <= 32, "{}", rule.name());
            assert!(rule.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", rule.name());
        }
    }

    #[test]
    fn every_rule_says_what_people_ask() {
        for rule in RULES {
            assert!(!rule.basis().sentence().is_empty(), "{}", rule.name());
            for (what, text) in [("says", rule.page().says), ("costs", rule.page().costs)] {
                assert!(text.ends_with('.'), "{}: {what} is no sentence: {text:?}", rule.name());
            }
            assert!(!rule.is_checked() || rule.hint().ends_with('.'), "{}: no hint", rule.name());
            assert!(rule.hint().len() <= 512, "{}: a finding has no room for the hint", rule.name());
            let is_cause = !rule.results().is_empty();
            assert!(!is_cause || !rule.cause().is_empty() && !rule.page().ruled_out.is_empty(), "{}", rule.name());
            assert_eq!(rule.reason_unchecked().map(|why| why.len() > 20), (!rule.is_checked()).then_some(true));
        }
    }

    #[test]
    fn detection_fits_the_rest_of_a_rules_entry() {
        for rule in RULES {
            let fits = match rule.found {
                Found::InFailures | Found::InStates => !rule.results().is_empty(),
                Found::AtTheCall => rule.only_at_the_call().is_some(),
                Found::Unexplained => rule.results().is_empty(),
                Found::InSuccesses | Found::Afterwards | Found::InRecordings | Found::Nowhere => true,
            };
            assert!(fits, "{}: {:?}", rule.name(), rule.found);
            let is_early = matches!(rule.found, Found::InFailures | Found::InSuccesses);
            assert!(rule.scope != Scope::Arguments || is_early, "{}", rule.name());
        }
    }

    #[test]
    fn a_library_is_known_by_the_begin_of_its_name() {
        let rule = Rule::IpcInteriorPointer.spec();
        assert!(rule.exemption_for(b"/usr/lib/libuct_cuda.so.0").is_some());
        assert!(rule.exemption_for(b"/usr/lib/libnotuct_cuda.so").is_none() && rule.exemption_for(b"").is_none());
    }
}
