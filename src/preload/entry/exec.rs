//! Records that the process executes another program in its place.
//!
//! Whether it succeeds is unknown at that point. If it fails, the process continues, and its next call or its end
//! shows that.

use super::exit::name_escapes;
use crate::log::status;
use crate::recorder;
use crate::resolve::{escapes, loader};
use crate::sys::arch::noting_entry;
use crate::sys::guard::guarded;
use crate::sys::line::Short;
use crate::sys::program_memory::copy_text;
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Finds the next definitions, because nothing may be looked up in a child of vfork.
pub fn begin() {
    for (name, place) in NAMES.iter().zip(&NEXT) {
        place.store(loader::look_up(libc::RTLD_NEXT, name), Relaxed);
    }
}

/// The libc functions, interposed; each with the argument that names the program: 0 is the first.
macro_rules! interposed {
    ($($name:ident $note:ident $index:literal $argument:literal,)*) => {
        const NAMES: [&CStr; [$($index),*].len()] = [$({
            let name = concat!(stringify!($name), "\0").as_bytes();
            match CStr::from_bytes_with_nul(name) { Ok(name) => name, Err(_) => c"" }
        }),*];
        #[unsafe(link_section = ".data.start")]
        static NEXT: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];

        $(
            /// The libc function, interposed.
            ///
            /// # Safety
            ///
            /// That of libc's.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                noting_entry!($note)
            }

            extern "C" fn $note(first: usize, second: usize) -> usize {
                note(stringify!($name), [first, second][$argument]);
                match NEXT[$index].load(Relaxed) {
                    0 => fail as *const () as usize,
                    next => next,
                }
            }
        )*
    };
}
interposed! {
    execve note_execve 0 0,
    execv note_execv 1 0,
    execvp note_execvp 2 0,
    execvpe note_execvpe 3 0,
    execl note_execl 4 0,
    execlp note_execlp 5 0,
    execle note_execle 6 0,
    fexecve note_fexecve 7 0,
    execveat note_execveat 8 1,
}

/// Stands for a function that this libc does not have.
extern "C" fn fail() -> c_int {
    // SAFETY: __errno_location gives this thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

fn note(function: &str, program: usize) {
    name_escapes(escapes::has_unbound);
    status::executes();
    if !recorder::is_own() {
        return;
    }
    guarded(|| {
        let by_descriptor = Short::<64>::new(format_args!("file descriptor {}", program as c_int));
        let text = if function == "fexecve" { None } else { copy_text(program as *const c_char) };
        let text = text.map(|text| text.map(|byte| byte as u8));
        let name = text.as_ref().map_or(by_descriptor.text().as_bytes(), |text| {
            text.split(|byte| *byte == 0).next().unwrap_or_default()
        });
        recorder::becomes(name);
    });
}
