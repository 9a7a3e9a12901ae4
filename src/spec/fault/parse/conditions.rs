//! Parses the conditions of a rule on circumstances and arguments.

use super::PlanError;
use super::draft::Draft;
use super::span::{Span, either};
use super::values::{self, fingerprint, number, patterns, ranges, share, word};
use crate::fault::{Condition, Key, Values};
use crate::function::{ArgSpec, Direction, FUNCTIONS, FnSpec, Group};
use crate::names::nearest;

type Result<T> = core::result::Result<T, PlanError>;

/// Adds a condition.
pub fn add(draft: &mut Draft, key: Key, (not, values): (bool, Values)) -> Result<()> {
    draft.rule.conditions.push(Condition { key, not, values });
    Ok(())
}

/// Parses the numbers of devices.
pub fn devices(value: Span) -> Result<(bool, Values)> {
    ranges(value, &|text| word(text, 4, "0"))
}

/// Parses ranks.
pub fn ranks(value: Span) -> Result<(bool, Values)> {
    ranges(value, &|text| number(text, 0, u32::MAX.into(), "0"))
}

/// Parses pids or thread ids.
pub fn pids(value: Span) -> Result<(bool, Values)> {
    ranges(value, &|text| number(text, 1, i32::MAX as u64, "4711"))
}

/// Parses a clause such as `peer=1`.
pub fn peer(draft: &mut Draft, value: Span) -> Result<()> {
    require_function(draft, value, "peer=", "is about two devices", |function| {
        function.is_in(Group::Peer) || function.is_in(Group::Open) || function.grants().is_some()
    })?;
    add(draft, Key::Peer, ranges(value, &|text| word(text, 4, "1"))?)
}

/// Parses a clause such as `size=1M..`.
pub fn size(draft: &mut Draft, value: Span) -> Result<()> {
    require_function(draft, value, "size=", "is about an allocation", |function| {
        let is_address =
            |arg: &ArgSpec| arg.type_word() == "CUdeviceptr" && matches!(arg.direction, Direction::In);
        let opens_memory = function.is_in(Group::IpcMem) && function.is_in(Group::Open);
        function.args().iter().any(is_address) || opens_memory || function.sized_by().is_some()
    })?;
    add(draft, Key::Size, ranges(value, &values::size)?)
}

/// Parses a clause `handle=FINGERPRINT`.
pub fn handle(draft: &mut Draft, value: Span) -> Result<()> {
    let takes = |function: &FnSpec| {
        function.args().iter().any(|arg| arg.is_handle() && matches!(arg.direction, Direction::In))
    };
    let named =
        |function: &&'static FnSpec| Some(function.argument("handle")?.1).filter(|arg| is_comparable(arg));
    // Functions of virtual memory have an argument with this name, whose value is a number.
    if !draft.functions.iter().any(|function| takes(function))
        && let Some(arg) = draft.functions.iter().find_map(named)
    {
        let values = ranges(value, &|text| argument_value(text, &[arg]))?;
        return add(draft, Key::Argument(arg.name()), values);
    }
    require_function(draft, value, "handle=", "takes a handle", takes)?;
    add(draft, Key::Handle, fingerprints(value)?)
}

/// Parses fingerprints or hashes. Ranges are not allowed, because the order of such values means nothing.
pub fn fingerprints(value: Span) -> Result<(bool, Values)> {
    let (not, items) = values::list(value)?;
    let numbers = items.into_iter().map(|item| fingerprint(item).map(|number| (number, number)));
    Ok((not, Values::Numbers(numbers.collect::<Result<_>>()?)))
}

/// Parses patterns of file names.
pub fn file_names(value: Span) -> Result<(bool, Values)> {
    let (_, items) = values::list(value)?;
    if let Some(path) = items.iter().find(|item| item.text.contains('/')) {
        let file = path.text.rsplit('/').next().unwrap_or_default();
        let hint = if file.is_empty() { "libnccl.so.2" } else { file };
        let message =
            format!("{} is a path; only the name of the file is compared, such as {hint}", path.shown());
        return Err(path.error(message));
    }
    patterns(value)
}

/// Parses a clause such as `thread=main`.
pub fn thread(draft: &mut Draft, value: Span) -> Result<()> {
    let (_, items) = values::list(value)?;
    let is_end = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => text.bytes().all(|byte| byte.is_ascii_digit()),
    };
    let is_number = |item: &Span| item.text.split("..").all(is_end);
    let numbers = items.iter().filter(|item| is_number(item)).count();
    if numbers == items.len() {
        return add(draft, Key::Thread, pids(value)?);
    }
    if let Some(tid) = items.iter().find(|item| numbers > 0 && is_number(item)) {
        return Err(tid.error(format!(
            "{} is a tid among names; write two faults, or a ? in a name made of digits",
            tid.shown()
        )));
    }
    add(draft, Key::Thread, patterns(value)?)
}

/// Parses a clause `prev=RESULT`.
pub fn prev(draft: &mut Draft, value: Span) -> Result<()> {
    let (not, items) = values::list(value)?;
    let mut numbers = Vec::new();
    for item in items {
        if item.text.contains("..") || item.text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let (_, Values::Numbers(range)) = ranges(item, &|text| word(text, 4, "205"))? else { continue };
            numbers.extend(range);
            continue;
        }
        // Several libraries may have a result with the same name. The functions of the rule determine the
        // library.
        let selected = draft.functions.iter().copied();
        let Some(code) = selected.chain(FUNCTIONS).find_map(|function| function.parse_result(item.text))
        else {
            return Err(item.error(values::no_result(item, FUNCTIONS.iter())));
        };
        numbers.push((u64::from(code as u32), u64::from(code as u32)));
    }
    add(draft, Key::Prev, (not, Values::Numbers(numbers)))
}

/// Parses a clause such as `after=2s`.
pub fn after(draft: &mut Draft, value: Span) -> Result<()> {
    let time = values::duration(value)?;
    add(draft, Key::Time, (false, Values::Numbers(vec![(time, u64::MAX)])))
}

/// Parses a clause such as `until=1m`.
pub fn until<'a>(draft: &mut Draft<'a>, value: Span<'a>) -> Result<()> {
    let time = values::duration(value)?;
    draft.until = Some(value);
    add(draft, Key::Time, (false, Values::Numbers(vec![(0, time)])))
}

/// Parses `site=new`, or a share such as `site=25%`.
pub fn site(draft: &mut Draft, value: Span) -> Result<()> {
    if value.text == "new" {
        return add(draft, Key::NewSite, (false, Values::Numbers(Vec::new())));
    }
    if !value.text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        let message =
            format!("{} does not choose call stacks; use new, or a share such as 25%", value.shown());
        return Err(value.error(message));
    }
    let millionths = (share(value)? * 1e6).round() as u64;
    let Some(last) = millionths.checked_sub(1) else {
        return Err(value.error("a share of the call stacks is at least 0.0001%"));
    };
    add(draft, Key::SomeSites, (false, Values::Numbers(vec![(0, last)])))
}

/// Parses a condition on an argument, by the name of the argument. Returns the name.
pub fn argument(draft: &mut Draft, key: Span, value: Span) -> Result<String> {
    let found: Vec<(&FnSpec, &'static ArgSpec)> = draft
        .functions
        .iter()
        .filter_map(|function| function.argument(key.text).map(|(_, arg)| (*function, arg)))
        .collect();
    let readable: Vec<&'static ArgSpec> =
        found.iter().map(|(_, arg)| *arg).filter(|arg| is_comparable(arg)).collect();
    let Some(first) = readable.first() else {
        return Err(
            key.error(found.first().map_or(String::new(), |(function, arg)| not_comparable(function, arg)))
        );
    };
    let values = if readable.iter().any(|arg| arg.direction == Direction::String) {
        patterns(value)?
    } else {
        ranges(value, &|text| argument_value(text, &readable))?
    };
    add(draft, Key::Argument(first.name()), values)?;
    Ok(first.name().to_ascii_lowercase())
}

fn not_comparable(function: &FnSpec, arg: &ArgSpec) -> String {
    let why = match arg.direction {
        Direction::In if arg.is_handle() => "is a handle, which is compared only by its fingerprint: handle=",
        Direction::In if arg.count().is_none() => "is a structure, which is not compared",
        Direction::In => "is an array, which is not compared",
        _ => "is an output, which is unknown before the call",
    };
    format!("'{}' of {} {why}; {}", arg.name(), function.name(), arguments_of(function))
}

/// Parses a value of an argument, which may have different types in different functions.
pub fn argument_value(text: Span, args: &[&'static ArgSpec]) -> Result<u64> {
    // Versions of one function have the same names.
    let mut names: Vec<(u64, &str)> = Vec::new();
    for name in args.iter().flat_map(|arg| (arg.of().names)()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let is_number = text.text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    if !is_number && !names.is_empty() && !text.text.is_empty() {
        return named(text, &names);
    }
    let sizes = || args.iter().map(|arg| arg.size());
    let (least, most) = (sizes().min().unwrap_or(8), sizes().max().unwrap_or(8));
    if text.text.starts_with('-') && least != most {
        return Err(text.error(format!(
            "{} has {least} bytes in one of these functions and {most} in another; write it in hexadecimal",
            text.shown()
        )));
    }
    word(text, most, "1 or 0x1f")
}

/// Parses a value by its name in the header, with or without the common prefix of the names.
fn named(text: Span, names: &[(u64, &'static str)]) -> Result<u64> {
    let prefix = common_prefix(names);
    let short = |name: &'static str| &name[prefix..];
    let typed = text.text;
    let found = names.iter().find(|(_, name)| {
        name.eq_ignore_ascii_case(typed)
            || name.len() > typed.len()
                && typed.len() >= name.len() - prefix
                && name.as_bytes()[name.len() - typed.len() - 1] == b'_'
                && name[name.len() - typed.len()..].eq_ignore_ascii_case(typed)
    });
    if let Some((number, _)) = found {
        return Ok(*number);
    }
    let known = || names.iter().map(|(_, name)| short(name));
    let hint = match nearest(typed, known().chain(names.iter().map(|(_, name)| *name))) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => format!("use {}, or a number", either(known())),
    };
    Err(text.error(format!("{} is not one of its values; {hint}", text.shown())))
}

/// Returns the length of the names' common prefix, which ends in `_`. For a single name, it has four words.
fn common_prefix(names: &[(u64, &'static str)]) -> usize {
    let Some((_, first)) = names.first() else { return 0 };
    if names.len() == 1 {
        return first.match_indices('_').nth(2).map_or(0, |(at, _)| at + 1);
    }
    let common = first
        .bytes()
        .enumerate()
        .take_while(|(at, byte)| names.iter().all(|(_, name)| name.as_bytes().get(*at) == Some(byte)))
        .count();
    first[..common].rfind('_').map_or(0, |at| at + 1)
}

/// Returns true if the value of an argument is known before the call, so that a condition can compare it.
pub fn is_comparable(arg: &ArgSpec) -> bool {
    match arg.direction {
        // A descriptor is a number that is passed as a pointer: it can be compared.
        Direction::In => {
            let is_number = !arg.of().name.starts_with('*') || arg.kind().is_some();
            arg.count().is_none() && !arg.is_handle() && is_number
        }
        Direction::String => true,
        Direction::Out | Direction::InOut => false,
    }
}

/// Lists the arguments of a function that can be compared.
pub fn arguments_of(function: &FnSpec) -> String {
    let names: Vec<&str> =
        function.args().iter().filter(|arg| is_comparable(arg)).map(|arg| arg.name()).collect();
    if names.is_empty() {
        return format!("{} has none that can be compared", function.name());
    }
    format!("{} has {}", function.name(), names.join(", "))
}

/// Returns an error if no function of the rule can have the key.
fn require_function(
    draft: &Draft,
    value: Span,
    key: &str,
    what: &str,
    can: impl Fn(&FnSpec) -> bool,
) -> Result<()> {
    if draft.functions.iter().any(|function| can(function)) {
        return Ok(());
    }
    /// Number of values that are listed in a message. A few more than this are listed, too.
    const NAMED: usize = 8;
    let all: Vec<&str> =
        FUNCTIONS.iter().filter(|function| can(function)).map(|function| function.name()).collect();
    let such = match all.split_at_checked(NAMED) {
        Some((named, others)) if others.len() > 2 => {
            format!("{}, and {} others", named.join(", "), others.len())
        }
        _ => either(all),
    };
    let first = draft.functions[0].name();
    Err(value.error(format!("'{key}' does not apply to {first}: no call of it {what}; it applies to {such}")))
}
