//! Parses the conditions of a rule on circumstances and arguments.

use super::PlanError;
use super::draft::FaultDraft;
use super::span::{Span, join_with_or};
use super::values::{self, parse_fingerprint, parse_number, parse_patterns, parse_ranges, parse_share, parse_word};
use crate::fault::{ConditionKey, ConditionValues, FaultCondition};
use crate::function::{ArgSpec, Direction, FUNCTIONS, FnSpec, Group};
use crate::names::find_nearest_name;

type Result<T> = core::result::Result<T, PlanError>;

/// Adds a condition to a fault.
pub fn add_condition(draft: &mut FaultDraft, key: ConditionKey, (not, values): (bool, ConditionValues)) -> Result<()> {
    draft.rule.conditions.push(FaultCondition { key, not, values });
    Ok(())
}

/// Parses the numbers of devices.
pub fn parse_devices(value: Span) -> Result<(bool, ConditionValues)> {
    parse_ranges(value, &|text| parse_word(text, 4, "0"))
}

/// Parses ranks.
pub fn parse_ranks(value: Span) -> Result<(bool, ConditionValues)> {
    parse_ranges(value, &|text| parse_number(text, 0, u32::MAX.into(), "0"))
}

/// Parses pids or thread ids.
pub fn parse_pids(value: Span) -> Result<(bool, ConditionValues)> {
    parse_ranges(value, &|text| parse_number(text, 1, i32::MAX as u64, "4711"))
}

/// Parses a clause such as `peer=1`.
pub fn add_peer(draft: &mut FaultDraft, value: Span) -> Result<()> {
    require_function(draft, value, "peer=", "is about two devices", |function| {
        function.is_in(Group::Peer) || function.is_in(Group::Open) || function.grants().is_some()
    })?;
    add_condition(draft, ConditionKey::Peer, parse_ranges(value, &|text| parse_word(text, 4, "1"))?)
}

/// Parses a clause such as `size=1M..`.
pub fn add_size(draft: &mut FaultDraft, value: Span) -> Result<()> {
    require_function(draft, value, "size=", "is about an allocation", |function| {
        let is_address = |arg: &ArgSpec| arg.type_word() == "CUdeviceptr" && matches!(arg.direction, Direction::In);
        let opens_memory = function.is_in(Group::IpcMem) && function.is_in(Group::Open);
        function.args().iter().any(is_address) || opens_memory || function.size_argument().is_some()
    })?;
    add_condition(draft, ConditionKey::Size, parse_ranges(value, &values::parse_size)?)
}

/// Parses a clause `handle=FINGERPRINT`.
pub fn add_handle(draft: &mut FaultDraft, value: Span) -> Result<()> {
    let takes = |function: &FnSpec| {
        function.args().iter().any(|arg| arg.is_ipc_handle() && matches!(arg.direction, Direction::In))
    };
    let named = |function: &&'static FnSpec| Some(function.find_argument("handle")?.1).filter(|arg| is_comparable(arg));
    // Functions of virtual memory have an argument with this name, whose value is a number.
    if !draft.functions.iter().any(|function| takes(function))
        && let Some(arg) = draft.functions.iter().find_map(named)
    {
        let values = parse_ranges(value, &|text| parse_argument_value(text, &[arg]))?;
        return add_condition(draft, ConditionKey::Argument(arg.name()), values);
    }
    require_function(draft, value, "handle=", "takes a handle", takes)?;
    add_condition(draft, ConditionKey::Handle, parse_fingerprints(value)?)
}

/// Parses fingerprints or hashes. Ranges are not allowed, because the order of such values means nothing.
pub fn parse_fingerprints(value: Span) -> Result<(bool, ConditionValues)> {
    let (not, items) = values::parse_list(value)?;
    let numbers = items.into_iter().map(|item| parse_fingerprint(item).map(|number| (number, number)));
    Ok((not, ConditionValues::Numbers(numbers.collect::<Result<_>>()?)))
}

/// Parses patterns of file names.
pub fn parse_file_names(value: Span) -> Result<(bool, ConditionValues)> {
    let (_, items) = values::parse_list(value)?;
    if let Some(path) = items.iter().find(|item| item.text.contains('/')) {
        let file = path.text.rsplit('/').next().unwrap_or_default();
        let hint = if file.is_empty() { "libnccl.so.2" } else { file };
        let message =
            format!("{} is a path; only the name of the file is compared, such as {hint}", path.quoted_for_message());
        return Err(path.error_at_start(message));
    }
    parse_patterns(value)
}

/// Parses a clause such as `thread=main`.
pub fn add_thread(draft: &mut FaultDraft, value: Span) -> Result<()> {
    let (_, items) = values::parse_list(value)?;
    let is_end = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => text.bytes().all(|byte| byte.is_ascii_digit()),
    };
    let is_number = |item: &Span| item.text.split("..").all(is_end);
    let numbers = items.iter().filter(|item| is_number(item)).count();
    if numbers == items.len() {
        return add_condition(draft, ConditionKey::Thread, parse_pids(value)?);
    }
    if let Some(tid) = items.iter().find(|item| numbers > 0 && is_number(item)) {
        return Err(tid.error_at_start(format!(
            "{} is a tid among names; write two faults, or a ? in a name made of digits",
            tid.quoted_for_message()
        )));
    }
    add_condition(draft, ConditionKey::Thread, parse_patterns(value)?)
}

/// Parses a clause `prev=RESULT`.
pub fn add_previous_result(draft: &mut FaultDraft, value: Span) -> Result<()> {
    let (not, items) = values::parse_list(value)?;
    let mut numbers = Vec::new();
    for item in items {
        if item.text.contains("..") || item.text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let (_, ConditionValues::Numbers(range)) = parse_ranges(item, &|text| parse_word(text, 4, "205"))? else {
                continue;
            };
            numbers.extend(range);
            continue;
        }
        // Several libraries may have a result with the same name. The functions of the fault determine the library.
        let selected = draft.functions.iter().copied();
        let Some(code) = selected.chain(FUNCTIONS).find_map(|function| function.parse_result(item.text)) else {
            return Err(item.error_at_start(values::explain_no_result(item, FUNCTIONS.iter())));
        };
        numbers.push((u64::from(code as u32), u64::from(code as u32)));
    }
    add_condition(draft, ConditionKey::Prev, (not, ConditionValues::Numbers(numbers)))
}

/// Parses a clause such as `after=2s`.
pub fn add_after(draft: &mut FaultDraft, value: Span) -> Result<()> {
    let time = values::parse_duration(value)?;
    add_condition(draft, ConditionKey::Time, (false, ConditionValues::Numbers(vec![(time, u64::MAX)])))
}

/// Parses a clause such as `until=1m`.
pub fn add_until<'a>(draft: &mut FaultDraft<'a>, value: Span<'a>) -> Result<()> {
    let time = values::parse_duration(value)?;
    draft.until = Some(value);
    add_condition(draft, ConditionKey::Time, (false, ConditionValues::Numbers(vec![(0, time)])))
}

/// Parses `site=new`, or a share such as `site=25%`.
pub fn add_call_site(draft: &mut FaultDraft, value: Span) -> Result<()> {
    if value.text == "new" {
        return add_condition(draft, ConditionKey::NewSite, (false, ConditionValues::Numbers(Vec::new())));
    }
    if !value.text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        let message =
            format!("{} does not choose call stacks; use new, or a share such as 25%", value.quoted_for_message());
        return Err(value.error_at_start(message));
    }
    let millionths = (parse_share(value)? * 1e6).round() as u64;
    let Some(last) = millionths.checked_sub(1) else {
        return Err(value.error_at_start("a share of the call stacks is at least 0.0001%"));
    };
    add_condition(draft, ConditionKey::SomeSites, (false, ConditionValues::Numbers(vec![(0, last)])))
}

/// Parses a condition on an argument, by the name of the argument. Returns the name.
pub fn add_argument(draft: &mut FaultDraft, key: Span, value: Span) -> Result<String> {
    let found: Vec<(&FnSpec, &'static ArgSpec)> = draft
        .functions
        .iter()
        .filter_map(|function| function.find_argument(key.text).map(|(_, arg)| (*function, arg)))
        .collect();
    let readable: Vec<&'static ArgSpec> = found.iter().map(|(_, arg)| *arg).filter(|arg| is_comparable(arg)).collect();
    let Some(first) = readable.first() else {
        return Err(key.error_at_start(
            found.first().map_or(String::new(), |(function, arg)| explain_not_comparable(function, arg)),
        ));
    };
    let values = if readable.iter().any(|arg| arg.direction == Direction::String) {
        parse_patterns(value)?
    } else {
        parse_ranges(value, &|text| parse_argument_value(text, &readable))?
    };
    add_condition(draft, ConditionKey::Argument(first.name()), values)?;
    Ok(first.name().to_ascii_lowercase())
}

fn explain_not_comparable(function: &FnSpec, arg: &ArgSpec) -> String {
    let why = match arg.direction {
        Direction::In if arg.is_ipc_handle() => "is a handle, which is compared only by its fingerprint: handle=",
        Direction::In if arg.count_argument().is_none() => "is a structure, which is not compared",
        Direction::In => "is an array, which is not compared",
        _ => "is an output, which is unknown before the call",
    };
    format!("'{}' of {} {why}; {}", arg.name(), function.name(), list_comparable_args(function))
}

/// Parses a value of an argument, which may have different types in different functions.
pub fn parse_argument_value(text: Span, args: &[&'static ArgSpec]) -> Result<u64> {
    // Versions of one function have the same names.
    let mut names: Vec<(u64, &str)> = Vec::new();
    for name in args.iter().flat_map(|arg| (arg.arg_type().names)()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let is_number = text.text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    if !is_number && !names.is_empty() && !text.text.is_empty() {
        return parse_named_value(text, &names);
    }
    let sizes = || args.iter().map(|arg| arg.value_size());
    let (least, most) = (sizes().min().unwrap_or(8), sizes().max().unwrap_or(8));
    if text.text.starts_with('-') && least != most {
        return Err(text.error_at_start(format!(
            "{} has {least} bytes in one of these functions and {most} in another; write it in hexadecimal",
            text.quoted_for_message()
        )));
    }
    parse_word(text, most, "1 or 0x1f")
}

/// Parses a value by its name in the header, with or without the common prefix of the names.
fn parse_named_value(text: Span, names: &[(u64, &'static str)]) -> Result<u64> {
    let prefix = common_prefix_length(names);
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
    let hint = match find_nearest_name(typed, known().chain(names.iter().map(|(_, name)| *name))) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => format!("use {}, or a number", join_with_or(known())),
    };
    Err(text.error_at_start(format!("{} is not one of its values; {hint}", text.quoted_for_message())))
}

/// Returns the length of the names' common prefix, which ends in `_`. For a single name, the prefix has three words.
fn common_prefix_length(names: &[(u64, &'static str)]) -> usize {
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
            let is_number = !arg.arg_type().name.starts_with('*') || arg.handle_kind_argument().is_some();
            arg.count_argument().is_none() && !arg.is_ipc_handle() && is_number
        }
        Direction::String => true,
        Direction::Out | Direction::InOut => false,
    }
}

/// Lists the arguments of a function that can be compared.
pub fn list_comparable_args(function: &FnSpec) -> String {
    let names: Vec<&str> = function.args().iter().filter(|arg| is_comparable(arg)).map(|arg| arg.name()).collect();
    if names.is_empty() {
        return format!("{} has none that can be compared", function.name());
    }
    format!("{} has {}", function.name(), names.join(", "))
}

/// Returns an error if the key applies to no function of the fault.
fn require_function(
    draft: &FaultDraft,
    value: Span,
    key: &str,
    what: &str,
    can: impl Fn(&FnSpec) -> bool,
) -> Result<()> {
    if draft.functions.iter().any(|function| can(function)) {
        return Ok(());
    }
    /// Number of functions that a message lists if at least three more remain. Otherwise, the message lists all.
    const NAMED: usize = 8;
    let all: Vec<&str> = FUNCTIONS.iter().filter(|function| can(function)).map(|function| function.name()).collect();
    let such = match all.split_at_checked(NAMED) {
        Some((named, others)) if others.len() > 2 => {
            format!("{}, and {} others", named.join(", "), others.len())
        }
        _ => join_with_or(all),
    };
    let first = draft.functions[0].name();
    Err(value.error_at_start(format!("'{key}' does not apply to {first}: no call of it {what}; it applies to {such}")))
}
