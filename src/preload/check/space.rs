//! Tracks the virtual memory of this process for the rules about it, up to a fixed number of entries, and only if
//! rules are checked.

use crate::sys::book::Book;
use crate::sys::files::{self, each_name};
use crate::sys::line::Short;
use cupeer_books::{Allocation, Call, Mapping};
use cupeer_rules::decide::Ptrace;
use cupeer_spec::effect::{Effect, End, Object};

/// So many allocations and mappings are known at once.
const MOST: usize = 4096;

pub type Space = cupeer_books::Space<[Allocation; MOST], [Mapping; MOST]>;

const NO_ALLOCATION: Allocation = Allocation {
    handle: 0,
    bytes: 0,
    types: None,
    device: None,
    is_imported: false,
    references: 0,
    is_counted: false,
    team: None,
};
const NO_MAPPING: Mapping = Mapping { start: 0, bytes: 0, handle: 0, is_granted: false };

pub static SPACE: Book<Space> = Book::new(Space::new([NO_ALLOCATION; MOST], [NO_MAPPING; MOST]));

/// Notes a call that has returned, as the driver answered it. `is_own` says that the program got just that.
pub fn note(call: &Call, is_own: bool) {
    if is_own { SPACE.note(|space| space.note(call)) } else { SPACE.miss() }
}

/// Whether a call is about to unmap, or has unmapped, memory that is shared or can be. Asked before it is noted.
pub fn unmaps_shared(call: &Call) -> bool {
    let unmapped = call.function.spec().effects().iter().find_map(|effect| match *effect {
        Effect::Ends(End { object: Object::Mapping, by, size: Some(size), .. }) => {
            Some((call.at(by), call.at(size)))
        }
        _ => None,
    });
    let Some((start, bytes)) = unmapped.filter(|_| call.result == 0) else { return false };
    let is_shared = |space: &mut Space| {
        let touched = space.mappings().filter(|mapping| mapping.touches(start, bytes));
        let allocations = touched.filter_map(|mapping| space.allocation(mapping.handle));
        allocations.filter(|it| it.is_imported || it.types.is_some_and(|types| types != 0)).count() > 0
    };
    SPACE.with(is_shared).unwrap_or(false)
}

/// Whether this process may read a channel by which memory is shared between machines.
pub fn has_fabric_channel() -> bool {
    let mut has_one = false;
    each_name(c"/dev/nvidia-caps-imex-channels", |name| {
        let path = Short::<64>::new(format_args!("/dev/nvidia-caps-imex-channels/{name}\0"));
        has_one = name.starts_with("channel")
            && path.c_text().is_some_and(|path| {
                // SAFETY: the path ends in NUL.
                unsafe { libc::access(path.as_ptr(), libc::R_OK) == 0 }
            });
        has_one
    });
    has_one
}

/// Whether a number is an open descriptor of this process.
pub fn is_descriptor(fd: i32) -> bool {
    // SAFETY: asks about a number, whatever it is.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// What decides whether this process may take descriptors of another one.
pub fn ptrace() -> Option<Ptrace> {
    let mut text = [0; 4];
    let length = files::read(c"/proc/sys/kernel/yama/ptrace_scope", &mut text).unwrap_or(0);
    let scope = text[..length].first().filter(|digit| digit.is_ascii_digit()).map_or(0, |digit| digit - b'0');
    /// _LINUX_CAPABILITY_VERSION_3, for this thread.
    const HEADER: [u32; 2] = [0x2008_0522, 0];
    const CAP_SYS_PTRACE: u32 = 19;
    let (mut header, mut sets) = (HEADER, [0u32; 6]);
    // SAFETY: the kernel writes three words for each half of the capabilities, of which there are two.
    let result = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
    (result == 0).then_some(Ptrace { scope, is_capable: sets[0] & 1 << CAP_SYS_PTRACE != 0 })
}
