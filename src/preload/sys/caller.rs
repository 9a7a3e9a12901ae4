//! The caller of a call: the library and the offset of the return address.
//!
//! If the return address is in the CUDA runtime and the call opens, exports, enables, or failed, the first frame
//! outside of the runtime is the caller.

use super::elf;
use super::object::LoadedObject;
use super::unwind;
use core::sync::atomic::{
    AtomicU8, AtomicUsize,
    Ordering::{Acquire, Release},
};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::detail::MOST_FRAMES;
use cupeer_spec::record::slot::finding::LIBRARY;
use cupeer_spec::runtime;

/// Largest number of our own frames in a call of the runtime.
const MOST_OF_OURS: usize = 4;

#[derive(Clone, Copy, Default)]
pub struct Caller {
    /// Path of the library; empty if it is unknown.
    pub library: &'static [u8],
    pub offset: usize,
}

impl Caller {
    /// Returns the caller of a call of a function, whose return address is `address`.
    pub fn of(address: usize, id: FnId, succeeded: bool) -> Self {
        let caller = Caller::at(address);
        if caller.is_runtime() && (!succeeded || id.spec().shares()) {
            return caller_of_runtime(address).unwrap_or(caller);
        }
        caller
    }

    /// Returns the first frame outside of the runtime; if all are in it, the first frame.
    pub fn first_outside_runtime(frames: &[u64]) -> Self {
        let all = || frames.iter().map(|address| Caller::at(*address as usize));
        all().find(|caller| !caller.is_runtime()).or_else(|| all().next()).unwrap_or_default()
    }

    /// Returns the file name of the library, cut to the length that the live table keeps.
    pub fn file_name_array(&self) -> [u8; LIBRARY] {
        let mut file = [0; LIBRARY];
        file.iter_mut().zip(self.file_name()).for_each(|(place, byte)| *place = *byte);
        file
    }

    /// Returns the library that contains a return address, and the offset in it.
    pub fn at(address: usize) -> Self {
        elf::containing(address).map_or(Caller { library: b"", offset: address }, |object| Caller {
            library: path(&object),
            offset: address.wrapping_sub(object.base),
        })
    }

    /// Returns true if the library is the CUDA runtime as a shared library.
    pub fn is_runtime(&self) -> bool {
        runtime::is_runtime_library(self.library)
    }

    /// Returns the file name of the library.
    pub fn file_name(&self) -> &'static [u8] {
        self.library.rsplit(|byte| *byte == b'/').next().unwrap_or(self.library)
    }
}

/// Returns the path of a loaded object; for the program itself, the path of its file.
pub fn path(object: &LoadedObject) -> &'static [u8] {
    match object.path().to_bytes() {
        b"" => program_path(),
        path => path,
    }
}

/// Returns the path of the program. The path is read by a direct system call, because ThreadSanitizer would see the accesses by
/// libc's functions, but not the synchronization of the threads here.
pub fn program_path() -> &'static [u8] {
    const LONGEST: usize = 1024;
    static PATH: [AtomicU8; LONGEST] = [const { AtomicU8::new(0) }; LONGEST];
    static LENGTH: AtomicUsize = AtomicUsize::new(0);
    let mut length = LENGTH.load(Acquire);
    if length == 0 {
        // SAFETY: the kernel writes at most that many bytes into the array. Two threads may do this at
        // once; both write the same.
        let read = unsafe {
            let at = libc::AT_FDCWD;
            libc::syscall(libc::SYS_readlinkat, at, c"/proc/self/exe".as_ptr(), PATH.as_ptr(), LONGEST)
        };
        length = read.max(0) as usize;
        LENGTH.store(length, Release);
    }
    // SAFETY: the first `length` bytes are written and stay as they are; an AtomicU8 is laid out as a u8.
    unsafe { core::slice::from_raw_parts(PATH.as_ptr().cast(), length) }
}

/// Calls `found` with the return addresses of at most `most` frames of a call, beginning with `caller`, until it returns false.
/// If a call of the runtime came through us, our own frames are left out.
pub fn each_frame(caller: usize, most: usize, mut found: impl FnMut(usize) -> bool) {
    let mut left = most;
    unwind::each_frame(caller, most + MOST_OF_OURS, |address| {
        if elf::is_our_code(address) {
            return true;
        }
        left -= 1;
        found(address) && left > 0
    });
}

/// Returns the return address of the function that called `hook`, a function that another library put in place of ours. The call
/// that returns to `caller` came through the hook. If the hook is not on the stack, because it jumped to a function of its
/// library, returns the first frame outside of that library; if it jumped to us, returns `caller`.
pub fn caller_of_hook(hook: usize, caller: usize) -> usize {
    let is_of_library = elf::is_same_object(hook, caller) && !elf::is_of_program(hook);
    let (mut is_next, mut outside, mut found) = (false, None, None);
    each_frame(caller, MOST_FRAMES, |address| {
        if is_next {
            found = Some(address);
            return false;
        }
        if outside.is_none() && !elf::is_same_object(hook, address) {
            outside = Some(address);
        }
        // The instruction after a call may belong to another function.
        is_next = unwind::is_same_function(hook, address.wrapping_sub(1));
        true
    });
    found.or(outside.filter(|_| is_of_library)).unwrap_or(caller)
}

/// Returns the first frame outside of the runtime, beginning with the caller of the frame that returns to `address`.
fn caller_of_runtime(address: usize) -> Option<Caller> {
    let mut found = None;
    each_frame(address, MOST_FRAMES, |address| {
        let caller = Caller::at(address);
        if !caller.is_runtime() {
            found = Some(caller);
        }
        found.is_none()
    });
    found
}
