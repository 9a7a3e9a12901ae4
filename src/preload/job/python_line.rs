//! The line of Python that tells who made a call.

use crate::settings;
use crate::sys::line::Short;
use crate::sys::{pages, python};
use cupeer_spec::origin::Origin;
use cupeer_spec::record::slot::detail::MOST_FRAMES;

/// A line of Python.
pub struct SourceLine {
    /// In UTF-8, where a character has up to four bytes.
    pub file: Short<2048>,
    pub function: Short<512>,
    pub line: u32,
}

impl SourceLine {
    /// Hands over that line, beside the program's stack, which may be small.
    pub fn look(work: impl FnOnce(&SourceLine)) {
        let size = size_of::<[SourceLine; 2]>();
        let Ok(place) = pages::new(size, 0) else { return };
        // SAFETY: new memory, all zero, which is two empty lines. It is unmapped when nobody uses it any more.
        unsafe {
            if let Some(line) = SourceLine::of_user(&mut *place.cast()) {
                work(line);
            }
            libc::munmap(place.cast(), size);
        }
    }

    /// The line of this thread that tells who made a call: the user's own before one of a library. The places are for it and
    /// for the innermost one.
    pub fn of_user(places: &mut [SourceLine; 2]) -> Option<&SourceLine> {
        let [best, innermost] = places;
        let mut standing = None;
        if settings::get().python {
            python::each_frame(
                MOST_FRAMES,
                |_| false,
                |frame| {
                    let Some(texts) = &frame.texts else { return false };
                    let line = || SourceLine {
                        file: Short::new(format_args!("{}", texts.file)),
                        function: Short::new(format_args!("{}", texts.function)),
                        line: frame.line,
                    };
                    let this = line();
                    if standing.is_none() {
                        *innermost = line();
                    }
                    let stands = Origin::of(this.file.text()).standing(Origin::of(innermost.file.text()));
                    if standing.is_none_or(|before| before < stands) {
                        standing = Some(stands);
                        *best = this;
                    }
                    standing < Some(Origin::BEST)
                },
            );
        }
        standing.map(|_| &*best)
    }
}
