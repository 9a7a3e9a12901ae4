//! The socket between the command and a process that holds a device: whole messages, with a descriptor where one goes along,
//! and a limit to how long an answer may take.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// The most bytes of a message: a little less than what every Linux lets a socket hold.
const MOST: usize = 64 << 10;

pub struct Wire(OwnedFd);

impl Wire {
    /// Two ends, neither of which outlives an exec unless it is given on.
    pub fn pair() -> io::Result<(Wire, Wire)> {
        let mut ends = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: the call fills two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both are new, and nobody else's.
        let own = |end| unsafe { OwnedFd::from_raw_fd(end) };
        Ok((Wire(own(ends[0])), Wire(own(ends[1]))))
    }

    /// The end that this process was started with, as its standard input.
    pub fn of_stdin() -> io::Result<Wire> {
        Ok(Wire(io::stdin().as_fd().try_clone_to_owned()?))
    }

    pub fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Sends a message.
    pub fn send(&self, message: &impl Serialize, descriptor: Option<BorrowedFd>) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(message)?;
        if bytes.len() > MOST {
            return Err(io::Error::other("a message is too long"));
        }
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut control = Control::default();
        // SAFETY: all-zero bytes are a value of this plain structure.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (&mut part, 1);
        if let Some(descriptor) = descriptor {
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
            // SAFETY: the header leads to room for one descriptor, as CMSG_SPACE has computed it, and alignment for it.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
                libc::CMSG_DATA(first).cast::<i32>().write_unaligned(descriptor.as_raw_fd());
            }
        }
        loop {
            // SAFETY: the header and all that it leads to live through the call.
            let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &header, libc::MSG_NOSIGNAL) };
            match io::Error::last_os_error() {
                _ if sent >= 0 => return Ok(()),
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            }
        }
    }

    /// Waits for a message: `None` where the other end is gone.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        let mut bytes = vec![0u8; MOST];
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut control = Control::default();
        // SAFETY: all-zero bytes are a value of this plain structure.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (&mut part, 1);
        (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), CONTROL as _);
        let length = loop {
            // SAFETY: the header leads to room that lives through the call, of the sizes that it says.
            let got = unsafe { libc::recvmsg(self.0.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
            match io::Error::last_os_error() {
                _ if got >= 0 => break got as usize,
                error if error.kind() == io::ErrorKind::Interrupted => {}
                // An end that was killed with something unread.
                error if error.raw_os_error() == Some(libc::ECONNRESET) => return Ok(None),
                error => return Err(error),
            }
        };
        // SAFETY: the kernel has filled the header; a message of this kind carries descriptors that are ours now.
        let descriptor = unsafe {
            let first = libc::CMSG_FIRSTHDR(&header);
            let has_one = !first.is_null()
                && (*first).cmsg_level == libc::SOL_SOCKET
                && (*first).cmsg_type == libc::SCM_RIGHTS;
            has_one.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(first).cast::<i32>().read_unaligned()))
        };
        if length == 0 {
            return Ok(None);
        }
        Ok(Some((serde_json::from_slice(&bytes[..length])?, descriptor)))
    }

    /// Whether there is something to receive, within a time.
    pub fn is_ready(&self, limit: Duration) -> io::Result<bool> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = i32::try_from(left.as_millis()).unwrap_or(i32::MAX).saturating_add(1);
            let mut one = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: the call looks at one descriptor, and writes to the structure that is passed.
            match unsafe { libc::poll(&mut one, 1, left) } {
                0 => return Ok(false),
                1.. => return Ok(true),
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => return Err(io::Error::last_os_error()),
            }
        }
    }

    /// Waits until the other end is gone.
    pub fn outlive(&self) {
        let mut one = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: the call looks at one descriptor, and writes to the structure that is passed.
        while unsafe { libc::poll(&mut one, 1, -1) } < 1 {}
    }
}

/// Room for one descriptor beside a message.
// SAFETY: it only computes.
const CONTROL: usize = unsafe { libc::CMSG_SPACE(size_of::<i32>() as u32) } as usize;

#[repr(align(8))]
#[derive(Default)]
struct Control([u8; CONTROL]);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn messages_stay_whole_and_descriptors_go_along() {
        let (here, there) = Wire::pair().unwrap();
        assert!(!there.is_ready(Duration::ZERO).unwrap());
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"through").unwrap();
        here.send(&"one", None).unwrap();
        here.send(&"two", Some(file.as_fd())).unwrap();
        assert!(there.is_ready(Duration::ZERO).unwrap());
        let (one, none) = there.receive::<String>().unwrap().unwrap();
        assert!(one == "one" && none.is_none());
        let (two, descriptor) = there.receive::<String>().unwrap().unwrap();
        let mut file = std::fs::File::from(descriptor.unwrap());
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!((two.as_str(), text.as_str()), ("two", "through"));
        drop(here);
        assert!(there.receive::<String>().unwrap().is_none());
        there.outlive();
    }
}
