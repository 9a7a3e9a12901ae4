//! Records that the process executes another program in its place.
//!
//! Whether it succeeds is unknown at that point. If it fails, the process continues, and its next call or its end
//! shows that.

use super::exit::report_bypasses;
use crate::log::status;
use crate::recorder;
use crate::resolve::bypasses;
use crate::resolve::loader::Next;
use crate::sys::arch::noting_entry;
use crate::sys::guard::guarded;
use crate::sys::line::ShortText;
use crate::sys::program_memory::copy_text;
use core::ffi::{c_char, c_int};

/// Finds the next definitions of the functions that we interpose here.
pub fn begin() {
    NEXT.iter().for_each(Next::find);
}

/// The libc functions, interposed; each with the argument that names the program: 0 is the first.
macro_rules! interposed {
    ($($name:ident $name_for_c:literal $note:ident $index:literal $argument:literal,)*) => {
        #[unsafe(link_section = ".data.start")]
        static NEXT: [Next; [$($index),*].len()] = [$(Next::new($name_for_c)),*];

        $(
            /// Replaces libc's function of this name: notes that the process executes a program, and continues to the
            /// next definition.
            ///
            /// # Safety
            ///
            /// As for libc's function.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                noting_entry!($note)
            }

            extern "C" fn $note(first: usize, second: usize) -> usize {
                note(stringify!($name), [first, second][$argument]);
                match NEXT[$index].get() {
                    0 => fail as *const () as usize,
                    next => next,
                }
            }
        )*
    };
}
interposed! {
    execve c"execve" note_execve 0 0,
    execv c"execv" note_execv 1 0,
    execvp c"execvp" note_execvp 2 0,
    execvpe c"execvpe" note_execvpe 3 0,
    execl c"execl" note_execl 4 0,
    execlp c"execlp" note_execlp 5 0,
    execle c"execle" note_execle 6 0,
    fexecve c"fexecve" note_fexecve 7 0,
    execveat c"execveat" note_execveat 8 1,
}

/// Replaces a function that libc lacks: fails with an error.
extern "C" fn fail() -> c_int {
    // SAFETY: __errno_location gives this thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

fn note(function: &str, program: usize) {
    report_bypasses(bypasses::has_unbound);
    status::report_exec();
    if !recorder::has_own_record() {
        return;
    }
    guarded(|| {
        let by_descriptor = ShortText::<64>::new(format_args!("file descriptor {}", program as c_int));
        let text = if function == "fexecve" { None } else { copy_text(program as *const c_char) };
        let text = text.map(|text| text.map(|byte| byte as u8));
        let name = text
            .as_ref()
            .map_or(by_descriptor.text().as_bytes(), |text| text.split(|byte| *byte == 0).next().unwrap_or_default());
        recorder::note_exec(name);
    });
}
