//! Allocates space in files before it is written through a mapping, so that the write cannot fail.

use super::errno::errno;
use super::files;
use core::ffi::{c_int, c_void};

/// Allocates `size` bytes of a file from offset `at` on, so that writing to them through a mapping cannot
/// fail.
pub fn allocate(descriptor: c_int, at: u64, size: u64) -> Result<(), c_int> {
    if at.checked_add(size).is_none_or(|end| i64::try_from(end).is_err()) {
        return Err(libc::EFBIG);
    }
    files::without_signals(|| {
        loop {
            // SAFETY: the kernel refuses what is wrong.
            if unsafe { libc::fallocate(descriptor, 0, at as i64, size as i64) } == 0 {
                return Ok(());
            }
            match errno() {
                libc::EINTR => {}
                libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL => return write_zeros(descriptor, at, size),
                error => return Err(error),
            }
        }
    })
}

/// Writes zeros in place of an allocation, on a file system that cannot allocate.
fn write_zeros(descriptor: c_int, at: u64, size: u64) -> Result<(), c_int> {
    static ZEROS: [u8; 4096] = [0; 4096];
    // SAFETY: all-zero bytes are a statvfs, and the call writes to a variable of ours.
    let room = unsafe {
        let mut about: libc::statvfs = core::mem::zeroed();
        (libc::fstatvfs(descriptor, &mut about) == 0).then(|| about.f_bavail.saturating_mul(about.f_frsize))
    };
    // Leave space for other programs on a disk that is nearly full.
    if room.is_some_and(|room| room < size) {
        return Err(libc::ENOSPC);
    }
    let mut written = 0;
    while written < size {
        let length = (size - written).min(ZEROS.len() as u64) as usize;
        let mut piece = [libc::iovec { iov_base: ZEROS.as_ptr().cast_mut().cast(), iov_len: length }];
        write_all_at(descriptor, &mut piece, (at + written) as i64)?;
        written += length as u64;
    }
    Ok(())
}

/// Writes pieces one after another to a file, from offset `at` on.
pub fn write_all_at(descriptor: c_int, pieces: &mut [libc::iovec], mut at: i64) -> Result<(), c_int> {
    let mut done = 0;
    while done < pieces.len() {
        let rest = &mut pieces[done..];
        // SAFETY: the pieces are the caller's, and readable.
        let written = unsafe { libc::pwritev(descriptor, rest.as_ptr(), rest.len() as c_int, at) };
        match written {
            0 => return Err(libc::ENOSPC),
            -1 if errno() == libc::EINTR => continue,
            -1 => return Err(errno()),
            _ => at += written as i64,
        }
        let mut left = written as usize;
        for piece in rest {
            let taken = left.min(piece.iov_len);
            piece.iov_base = piece.iov_base.cast::<u8>().wrapping_add(taken).cast::<c_void>();
            piece.iov_len -= taken;
            left -= taken;
            done += usize::from(piece.iov_len == 0);
        }
    }
    Ok(())
}
