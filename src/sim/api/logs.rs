//! The driver's log.

use super::boundary::Out;
use crate::abi::CUlogsCallback;
use crate::engine::answer::{Answer, fail};
use crate::engine::log;
use core::ffi::{c_char, c_void};
use cupeer_spec::results::Result as Code;
use std::io::Write;

/// The pointer that the program gave for its function. It only goes back to that function.
struct UserData(u64);

/// The lines from an iterator on, all that are kept where there is none; the iterator moves to the end.
fn lines(iterator: Out<u32>, flags: u32) -> Answer<Vec<String>> {
    if flags != 0 {
        return fail(Code::INVALID_VALUE);
    }
    let (lines, end) = log::since(iterator.get().unwrap_or(0));
    iterator.put(end);
    Ok(lines)
}

entry! {
    fn cuLogsRegisterCallback(
        callbackFunc: CUlogsCallback,
        userData: *mut c_void,
        callback_out: *mut *mut c_void,
    ) {
        let Some(callback) = callbackFunc else { return fail(Code::INVALID_VALUE) };
        let data = UserData(userData.address());
        let number = log::listen(Box::new(move |level, line| {
            let UserData(data) = data;
            let mut text = line.as_bytes().to_vec();
            text.push(0);
            // SAFETY: the program promised a function of this type that takes this pointer; the text lives
            // through the call.
            unsafe { callback(data as *mut c_void, level, text.as_mut_ptr().cast(), line.len()) };
        }));
        callback_out.put(number as *mut c_void);
        Ok(())
    }

    fn cuLogsUnregisterCallback(callback: *mut c_void) {
        log::forget(callback.address())
    }

    fn cuLogsCurrent(iterator_out: *mut u32, flags: u32) {
        let out = iterator_out.required()?;
        if flags != 0 {
            return fail(Code::INVALID_VALUE);
        }
        out.put(log::now());
        Ok(())
    }

    fn cuLogsDumpToFile(iterator: *mut u32, pathToFile: *const c_char, flags: u32) {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::OsStr::from_bytes(pathToFile.text()?);
        let text: String = lines(iterator, flags)?.iter().map(|line| format!("{line}\n")).collect();
        std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|_| Code::INVALID_VALUE.into())
    }

    /// As much as there is room for, with a NUL at the end; `size` becomes what was written without it.
    fn cuLogsDumpToMemory(iterator: *mut u32, buffer: *mut c_char, size: *mut usize, flags: u32) {
        let (out, out_size) = (buffer.required()?, size.required()?);
        let room = out_size.get().unwrap_or(0);
        if room == 0 {
            return fail(Code::INVALID_VALUE);
        }
        let text: String = lines(iterator, flags)?.iter().map(|line| format!("{line}\n")).collect();
        // The newest lines matter most.
        let start = text.len().saturating_sub(room - 1);
        let bytes = &text.as_bytes()[start..];
        for (i, byte) in bytes.iter().chain(&[0]).enumerate() {
            out.put_at(i, *byte as c_char);
        }
        out_size.put(bytes.len());
        Ok(())
    }
}
