//! Sentences about uses of memory that is not there.

use super::{Range, When};
use crate::reason::states::EndKind;
use crate::reason::values::{Ago, Bytes, Device, Handle, Part, Process, Site};
use core::fmt::{self, Formatter};

/// `dptr 0x10 is in memory that this process closed 3ms ago; the last close was in thread 7; `.
fn is_gone(
    (name, address): (&str, u64),
    place: &str,
    ago: Option<Ago>,
    (how, by): (&str, Option<Site>),
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "{name} {address:#x} is in {place}{}; ", When(ago))?;
    by.map_or(Ok(()), |by| write!(f, "{how} in {by}; "))
}

/// [`Reason::UseAfterClose`](crate::reason::Reason::UseAfterClose).
#[expect(clippy::too_many_arguments, reason = "they are the fields of the reason")]
pub fn after_close(
    name: &str,
    address: u64,
    range: (u64, u64),
    handle: Handle,
    ago: Option<Ago>,
    by: Option<Site>,
    with_context: bool,
    f: &mut Formatter,
) -> fmt::Result {
    let how = if with_context { "its context ended" } else { "the last close was" };
    is_gone((name, address), "memory that this process closed", ago, (how, by), f)?;
    write!(f, "{handle} was open at {}", Range(range))
}

/// [`Reason::UseAfterUnmap`](crate::reason::Reason::UseAfterUnmap).
pub fn after_unmap(
    name: &str,
    address: u64,
    range: (u64, u64),
    ago: Option<Ago>,
    by: Option<Site>,
    f: &mut Formatter,
) -> fmt::Result {
    is_gone((name, address), "a range that this process unmapped", ago, ("cuMemUnmap was called", by), f)?;
    write!(f, "the range was {}", Range(range))
}

/// [`Reason::UseAfterUnreserve`](crate::reason::Reason::UseAfterUnreserve).
pub fn after_unreserve(
    name: &str,
    address: u64,
    range: (u64, u64),
    ago: Option<Ago>,
    by: Option<Site>,
    f: &mut Formatter,
) -> fmt::Result {
    is_gone(
        (name, address),
        "addresses that this process freed",
        ago,
        ("cuMemAddressFree was called", by),
        f,
    )?;
    write!(f, "before that, it unmapped {}", Range(range))
}

/// [`Reason::UseAfterFree`](crate::reason::Reason::UseAfterFree).
pub fn after_free(
    name: &str,
    address: u64,
    range: (u64, u64),
    ago: Option<Ago>,
    by: Option<Site>,
    with_context: bool,
    f: &mut Formatter,
) -> fmt::Result {
    let how = if with_context { "its context ended" } else { "the free was" };
    is_gone((name, address), "shared memory that this process freed", ago, (how, by), f)?;
    write!(f, "the memory was at {}", Range(range))
}

/// [`Reason::UseBeforeMap`](crate::reason::Reason::UseBeforeMap).
pub fn before_map(name: &str, address: u64, range: (u64, u64), f: &mut Formatter) -> fmt::Result {
    write!(f, "{name} {address:#x} is in addresses that this process only reserved; ")?;
    write!(f, "nothing is mapped there; the reservation is {}", Range(range))
}

/// [`Reason::UseBeyondEnd`](crate::reason::Reason::UseBeyondEnd).
#[expect(clippy::too_many_arguments, reason = "they are the fields of the reason")]
pub fn beyond_end(
    name: &str,
    start: u64,
    bytes: u64,
    beyond: u64,
    range: (u64, u64),
    handle: Option<Handle>,
    is_foreign: bool,
    f: &mut Formatter,
) -> fmt::Result {
    let how = match handle {
        Some(_) => "opened",
        None if is_foreign => "imported",
        None => "mapped",
    };
    write!(f, "{name} goes {} beyond memory that this process {how}; ", Bytes(beyond))?;
    write!(f, "the call uses {}; ", Range((start, bytes)))?;
    match handle {
        Some(handle) => write!(f, "{handle} is open at {}", Range(range)),
        None => write!(f, "the mapping is {}, and nothing is mapped behind it", Range(range)),
    }
}

/// [`Reason::UseBehindEnd`](crate::reason::Reason::UseBehindEnd).
pub fn behind_end(
    name: &str,
    start: u64,
    behind: u64,
    range: (u64, u64),
    handle: Option<Handle>,
    f: &mut Formatter,
) -> fmt::Result {
    let how = if handle.is_some() { "opened" } else { "imported" };
    write!(f, "{name} is {} behind memory that this process {how}; ", Bytes(behind))?;
    write!(f, "nothing is at {start:#x}; ")?;
    match handle {
        Some(handle) => write!(f, "{handle} is open at {}", Range(range)),
        None => write!(f, "the mapping is {}", Range(range)),
    }
}

/// [`Reason::UseReadOnly`](crate::reason::Reason::UseReadOnly).
pub fn read_only(
    name: &str,
    address: u64,
    device: Device,
    range: (u64, u64),
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "{device} may not write to {name} {address:#x}; ")?;
    write!(f, "cuMemSetAccess gave it only PROT_READ; the mapping is {}", Range(range))
}

/// [`Reason::UseWithoutAccess`](crate::reason::Reason::UseWithoutAccess).
#[expect(clippy::too_many_arguments, reason = "they are the fields of the reason")]
pub fn without_access(
    name: &str,
    address: u64,
    device: Device,
    context: Option<&str>,
    range: (u64, u64),
    is_granted: bool,
    home: Option<Device>,
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "{device} has no access to {name} {address:#x}; ")?;
    context.map_or(Ok(()), |context| write!(f, "{context} is a context of that device; "))?;
    let how = if is_granted { "gave access to another device only" } else { "was not called for it" };
    write!(f, "cuMemSetAccess {how}; the mapping is {}", Range(range))?;
    home.map_or(Ok(()), |home| {
        write!(f, ", of memory on {home}; cuCtxEnablePeerAccess does not reach virtual memory")
    })
}

/// [`Reason::UseInGraph`](crate::reason::Reason::UseInGraph).
pub fn in_graph(
    node: &str,
    address: u64,
    went: EndKind,
    range: (u64, u64),
    ago: Option<Ago>,
    by: Option<Site>,
    f: &mut Formatter,
) -> fmt::Result {
    let (who, went) = went.words();
    write!(f, "{node} is in memory that {who} {went}{}; the address is {address:#x}; ", When(ago))?;
    by.map_or(Ok(()), |by| write!(f, "that was in {by}; "))?;
    write!(f, "the memory was at {}", Range(range))
}

/// [`Reason::UseInKernel`](crate::reason::Reason::UseInKernel).
#[expect(clippy::too_many_arguments, reason = "they are the fields of the reason")]
pub fn in_kernel(
    kernel: &str,
    node: &str,
    parameter: usize,
    address: u64,
    went: EndKind,
    range: (u64, u64),
    ago: Option<Ago>,
    by: Option<Site>,
    f: &mut Formatter,
) -> fmt::Result {
    let (who, went) = went.words();
    write!(f, "kernel parameter {parameter} is in memory that {who} {went}{}; ", When(ago))?;
    if !node.is_empty() {
        write!(f, "it is {node} of the graph; ")?;
    }
    write!(f, "the address is {address:#x}; ")?;
    by.map_or(Ok(()), |by| write!(f, "that was in {by}; "))?;
    write!(f, "the memory was at {}", Range(range))?;
    let (shown, dots) = match kernel.char_indices().nth(LONGEST_KERNEL) {
        Some((end, _)) => (&kernel[..end], "..."),
        None => (kernel, ""),
    };
    if shown.is_empty() { Ok(()) } else { write!(f, "; the kernel is `{shown}{dots}`") }
}

/// The characters of a kernel's name that a sentence shows: mangled names of templates have thousands.
const LONGEST_KERNEL: usize = 200;

/// [`Reason::UseUnwritten`](crate::reason::Reason::UseUnwritten).
#[expect(clippy::too_many_arguments, reason = "they are the fields of the reason")]
pub fn unwritten(
    reader: Process,
    read: (u64, u64),
    size: u64,
    handle: Handle,
    owner: Option<Process>,
    writer: Process,
    wrote: (u64, u64),
    before: Ago,
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "{reader} read {} of ", Part(read))?;
    match owner {
        Some(owner) => write!(f, "{owner}'s {}", Bytes(size))?,
        None => write!(f, "its {}", Bytes(size))?,
    }
    write!(
        f,
        " ({handle}), where no recorded copy or memset wrote since the export; {writer} wrote {} {before} before, which nobody had read",
        Part(wrote)
    )
}
