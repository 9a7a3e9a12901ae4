//! The socket between the command and a process that holds a device: whole messages, each with a descriptor if needed, and a
//! timeout.

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Maximum size of a message in bytes: a little less than the buffer of a socket holds on every Linux.
const MOST_MESSAGE_BYTES: usize = 64 << 10;

/// Space for the descriptor that can go with a message.
type ControlBuffer = [MaybeUninit<u8>; cmsg_space!(ScmRights(1))];
const NO_CONTROL: ControlBuffer = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];

pub struct MessageSocket(OwnedFd);

impl MessageSocket {
    /// Returns two connected ends, which are closed on exec.
    pub fn pair() -> io::Result<(MessageSocket, MessageSocket)> {
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((MessageSocket(one), MessageSocket(other)))
    }

    /// Returns the end that is the standard input of this process.
    pub fn from_stdin() -> io::Result<MessageSocket> {
        Ok(MessageSocket(io::stdin().as_fd().try_clone_to_owned()?))
    }

    pub fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Sends a message.
    pub fn send(&self, message: &impl Serialize, descriptor: Option<BorrowedFd>) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > MOST_MESSAGE_BYTES {
            return Err(io::Error::other("a message is too long"));
        }
        let mut space = NO_CONTROL;
        let mut control = SendAncillaryBuffer::new(&mut space);
        if descriptor.is_some() {
            control.push(SendAncillaryMessage::ScmRights(descriptor.as_slice()));
        }
        let part = [IoSlice::new(&bytes)];
        retry_on_intr(|| sendmsg(&self.0, &part, &mut control, SendFlags::NOSIGNAL))?;
        Ok(())
    }

    /// Waits for a message. Returns the message and its descriptor, or `None` if the other end is closed.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        let mut bytes = vec![0u8; MOST_MESSAGE_BYTES];
        let mut space = NO_CONTROL;
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = retry_on_intr(|| {
            recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
        });
        let length = match received {
            Ok(message) => message.bytes,
            // The other process was killed before it read a message.
            Err(Errno::CONNRESET) => 0,
            Err(error) => return Err(error.into()),
        };
        if length == 0 {
            return Ok(None);
        }
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        Ok(Some((serde_json::from_slice(&bytes[..length])?, descriptor)))
    }

    /// Waits until a message has arrived. Returns false if none has after the time `limit`.
    pub fn wait_for_message(&self, limit: Duration) -> io::Result<bool> {
        let end = Instant::now() + limit;
        loop {
            let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).ok();
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], left.as_ref()) {
                Err(Errno::INTR) => {}
                ready => return Ok(ready? > 0),
            }
        }
    }

    /// Waits until the other process closes its end.
    pub fn wait_for_close(&self) {
        while poll(&mut [PollFd::new(&self.0, PollFlags::RDHUP)], None).is_err() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn messages_stay_whole_and_descriptors_go_along() {
        let (here, there) = MessageSocket::pair().unwrap();
        assert!(!there.wait_for_message(Duration::ZERO).unwrap());
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"through").unwrap();
        here.send(&"one", None).unwrap();
        here.send(&"two", Some(file.as_fd())).unwrap();
        assert!(there.wait_for_message(Duration::ZERO).unwrap());
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
        there.wait_for_close();
    }
}
