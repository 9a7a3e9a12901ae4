//! Facts about functions that follow from the table: their names in C, and those of the objects that they create.

use cupeer_record::Call;
use cupeer_spec::effect::{Effect, OtherArgs, Shared, Used};
use cupeer_spec::function::{ArgSpec, FnId, FnSpec};
use cupeer_spec::value::Shareable;

use super::values;

/// Returns the forms of a function that `cuGetProcAddress` finds by the same name.
fn find_forms(function: &'static FnSpec) -> impl Iterator<Item = &'static FnSpec> {
    let is_form = |other: &&FnSpec| other.lookup() == function.lookup();
    FnId::all().map(FnId::spec).filter(is_form)
}

/// Returns true if all forms of a function take as many arguments, so that cuda.h has one of them by the common name.
pub fn has_uniform_forms(function: &'static FnSpec) -> bool {
    find_forms(function).all(|other| other.args().len() == function.args().len())
}

/// Returns the form of a function that cuda.h declares.
pub fn newest_form(function: &'static FnSpec) -> &'static FnSpec {
    let newest = find_forms(function).max_by_key(|other| other.since).filter(|_| has_uniform_forms(function));
    newest.unwrap_or(function)
}

/// Returns the first part of the name of an object that a call creates or opens.
pub fn object_stem(function: &FnSpec, index: usize) -> String {
    let of = |effect: &Effect| match *effect {
        Effect::Opens(Shared { object, by, .. }) if by == index => Some(format!("opened {}", object.word())),
        Effect::Gathers(team) if team.team == index => Some("multicast".to_owned()),
        Effect::Makes(made) if made.by == index => Some(made.object.word().to_owned()),
        Effect::Retains(named) if named.by == index => Some(format!("retained {}", named.object.word())),
        _ => None,
    };
    // The last effect is the most specific one.
    let found = function.effects().iter().rev().find_map(of);
    found.map_or_else(|| "object".to_owned(), |words| words.replace("pool pointer", "pool memory"))
}

/// Returns the first part of the name of a handle, and its type in C.
pub fn handle_type(function: &FnSpec, call: &Call, arg: &ArgSpec) -> (&'static str, &'static str) {
    let kind = function.handle_kind_argument().and_then(|kind| call.argument_number(kind)).map(|kind| kind as i32);
    match (arg.type_word(), kind) {
        ("CUipcMemHandle", _) => ("handle", "CUipcMemHandle"),
        ("CUipcEventHandle", _) => ("event_handle", "CUipcEventHandle"),
        ("CUmemPoolPtrExportData", _) => ("pointer_data", "CUmemPoolPtrExportData"),
        (_, Some(Shareable::FABRIC)) => ("fabric_handle", "CUmemFabricHandle"),
        _ => ("descriptor", "int"),
    }
}

/// Returns the size in bytes of an object that a call creates or opens; 0 if unknown.
pub fn object_size(function: &FnSpec, call: &Call, index: usize) -> u64 {
    let made = function.makes().filter(|made| made.by == index).and_then(|made| call.argument_number(made.size?));
    let opened = call.details.memory.zip(call.argument_number(index));
    let rest = opened.map(|((start, size), address)| start.saturating_add(size).saturating_sub(address));
    made.or(rest).unwrap_or(0)
}

/// Returns the number of bytes of the host that a call copies.
pub fn host_size(function: &FnSpec, call: &Call) -> String {
    let sizes = function.args().iter().enumerate().filter(|(_, arg)| arg.type_word() == "usize");
    let most = sizes.filter_map(|(index, _)| call.argument_number(index)).max();
    values::format_number(most.unwrap_or(0))
}

/// Returns true if an argument is memory of the host that a copy reads or writes.
pub fn is_host_memory(function: &FnSpec, index: usize) -> bool {
    let is_host = |effect: &Effect| match effect {
        Effect::Uses(Used { others: OtherArgs::ToHost(by) | OtherArgs::FromHost(by), .. }) => *by == index,
        _ => false,
    };
    function.effects().iter().any(is_host)
}
