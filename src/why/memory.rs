//! The memory of another process, copied without stopping it.

use cupeer_stacks::Memory;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Read access to the memory of a process.
pub struct RemoteMemory {
    pid: i32,
    /// The process's `mem` file, for kernels and filters that refuse process_vm_readv.
    file: File,
}

impl RemoteMemory {
    /// Opens the memory of a process. Fails if the kernel does not permit reading it.
    pub fn open(pid: i32) -> io::Result<RemoteMemory> {
        Ok(RemoteMemory { pid, file: File::open(format!("/proc/{pid}/mem"))? })
    }

    fn read_at(&self, address: usize, place: &mut [u8]) -> usize {
        let local = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: place.len() };
        // SAFETY: the kernel writes to the place, which is as long as it is said to be, and reads only the other process.
        let read = unsafe { libc::process_vm_readv(self.pid, &local, 1, &remote, 1, 0) };
        match usize::try_from(read) {
            Ok(read) => read,
            Err(_) => match io::Error::last_os_error().raw_os_error() {
                Some(libc::ENOSYS | libc::EPERM) => self.file.read_at(place, address as u64).unwrap_or(0),
                _ => 0,
            },
        }
    }

    /// Reads a number of 4 bytes.
    pub fn u32_at(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        (self.copy(address as usize, &mut bytes) == bytes.len()).then(|| u32::from_le_bytes(bytes))
    }

    /// Reads a number of 8 bytes.
    pub fn u64_at(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.copy(address as usize, &mut bytes) == bytes.len()).then(|| u64::from_le_bytes(bytes))
    }

    /// Reads a NUL-terminated text, such as a path.
    pub fn text_at(&self, address: u64) -> Option<String> {
        let mut bytes = vec![0; 4096];
        let length = self.copy(address as usize, &mut bytes);
        let end = bytes[..length].iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

impl Memory for &RemoteMemory {
    fn copy(self, address: usize, place: &mut [u8]) -> usize {
        const PAGE: usize = 4096;
        match self.read_at(address, place) {
            // If the range leaves the mapped memory, nothing is read. The rest of its first page may still be readable.
            0 => match PAGE - address % PAGE {
                to_end if to_end < place.len() => self.read_at(address, &mut place[..to_end]),
                _ => 0,
            },
            read => read,
        }
    }
}
