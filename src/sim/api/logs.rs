//! The driver's log.

use super::boundary::OutPointer;
use crate::abi::CUlogsCallback;
use crate::engine::answer::{Answer, invalid};
use crate::engine::log;
use core::ffi::{c_char, c_void};
use cupeer_spec::results::Result as Code;

/// The pointer that the program registered together with a callback. Only this callback receives it.
struct CallbackData(u64);

/// Returns the kept lines that follow an iterator, and moves the iterator to the end. A null iterator stands
/// for the first line.
fn read_lines(iterator: OutPointer<u32>) -> Answer<Vec<String>> {
    let (lines, end) = log::lines_from(iterator.get().unwrap_or(0));
    iterator.put(end);
    Ok(lines)
}

entry! {
    fn cuLogsRegisterCallback(
        callbackFunc: CUlogsCallback,
        userData: *mut c_void,
        callback_out: *mut *mut c_void,
    ) {
        let Some(callback) = callbackFunc else {
            return invalid("callbackFunc cannot be NULL");
        };
        let data = CallbackData(userData.address());
        let number = log::add_listener(Box::new(move |level, line| {
            let CallbackData(data) = data;
            let mut text = line.as_bytes().to_vec();
            text.push(0);
            // SAFETY: the program promised a function of this type that takes this pointer; the text lives
            // through the call.
            unsafe { callback(data as *mut c_void, level, text.as_mut_ptr().cast(), line.len()) };
        }));
        callback_out.put(number);
        Ok(())
    }

    fn cuLogsUnregisterCallback(callback: *mut c_void) {
        log::remove_listener(callback.address())
    }

    fn cuLogsCurrent(iterator_out: *mut u32, _flags: u32) {
        iterator_out.or_refuse("Iterator cannot be NULL")?.put(log::next_line());
        Ok(())
    }

    fn cuLogsDumpToFile(iterator: *mut u32, pathToFile: *const c_char, _flags: u32) {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::OsStr::from_bytes(pathToFile.text()?);
        let text: String = read_lines(iterator)?.iter().map(|line| format!("{line}\n")).collect();
        log::append_to_file(path, &text).map_err(|_| Code::INVALID_VALUE.into())
    }

    /// Writes as many of the newest lines as fit into the buffer, and a NUL. `size` becomes the length of the
    /// lines.
    fn cuLogsDumpToMemory(iterator: *mut u32, buffer: *mut c_char, size: *mut usize, _flags: u32) {
        let (out, out_size) = (buffer.or_refuse("buffer cannot be NULL")?, size.required()?);
        let room = out_size.get().unwrap_or(0);
        let lines = read_lines(iterator)?;
        let mut length = 0;
        let fitting = lines.iter().rev().take_while(|line| {
            length += line.len() + 1;
            length < room
        });
        let skipped = lines.len() - fitting.count();
        if room == 0 || skipped == lines.len() && !lines.is_empty() {
            out_size.put(0usize);
            return invalid("Provided buffer is not large enough to write any logs to");
        }
        let text: String = lines[skipped..].iter().map(|line| format!("{line}\n")).collect();
        out_size.put(text.len());
        if !text.is_empty() {
            text.bytes().chain([0]).enumerate().for_each(|(i, byte)| out.put_at(i, byte as c_char));
        }
        Ok(())
    }
}
