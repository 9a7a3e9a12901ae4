//! Finds the Python line that made a call.

use crate::settings;
use crate::sys::line::ShortText;
use crate::sys::{pages, python};
use cupeer_spec::origin::CodeOrigin;
use cupeer_spec::record::slot::detail::MOST_FRAMES;

/// A line of Python code, by its file and its function.
pub struct SourceLine {
    /// Path of the file in UTF-8, where a character has up to four bytes.
    pub file: ShortText<2048>,
    pub function: ShortText<512>,
    pub line: u32,
}

impl SourceLine {
    /// Calls `work` with the Python line that made this thread's current call. The result is in separate memory, because the
    /// program's stack may be small.
    pub fn with_user_line(work: impl FnOnce(&SourceLine)) {
        let size = size_of::<[SourceLine; 2]>();
        let Ok(place) = pages::map_zeroed(size, 0) else { return };
        // SAFETY: new memory, all zero, which is two empty lines. It is unmapped after the last use.
        unsafe {
            if let Some(line) = SourceLine::of_user(&mut *place.cast()) {
                work(line);
            }
            libc::munmap(place.cast(), size);
        }
    }

    /// Finds the Python line that made this thread's current call: a line of the user's own code rather than one of a library.
    /// `places` provides space for that line and for the innermost line.
    pub fn of_user(places: &mut [SourceLine; 2]) -> Option<&SourceLine> {
        let [best, innermost] = places;
        let mut best_rank = None;
        if settings::get().python {
            python::each_frame(
                MOST_FRAMES,
                |_| false,
                |frame| {
                    let Some(texts) = &frame.texts else { return false };
                    let line = || SourceLine {
                        file: ShortText::new(format_args!("{}", texts.file)),
                        function: ShortText::new(format_args!("{}", texts.function)),
                        line: frame.line,
                    };
                    let this = line();
                    if best_rank.is_none() {
                        *innermost = line();
                    }
                    let rank =
                        CodeOrigin::of_file(this.file.text()).relevance(CodeOrigin::of_file(innermost.file.text()));
                    if best_rank.is_none_or(|before| before < rank) {
                        best_rank = Some(rank);
                        *best = this;
                    }
                    best_rank < Some(CodeOrigin::BEST)
                },
            );
        }
        best_rank.map(|_| &*best)
    }
}
