//! The other ends of Unix sockets, which only the kernel's socket diagnostics tell (`man 7 sock_diag`).

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct unix_diag_req` with the netlink header before it.
#[repr(C)]
struct UnixDiagRequest {
    header: libc::nlmsghdr,
    family: u8,
    protocol: u8,
    padding: u16,
    states: u32,
    inode: u32,
    show: u32,
    cookie: [u32; 2],
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SHOW_PEER: u32 = 4;
const ATTRIBUTE_PEER: u16 = 2;
/// Size of `nlmsghdr` in bytes.
const HEADER: usize = 16;
/// Size of `unix_diag_msg` in bytes; its second 4-byte word is the inode.
const MESSAGE: usize = 16;

/// Returns the inode of each Unix socket in this network namespace that has a peer, with the inode of the
/// peer.
pub fn unix_socket_peers() -> io::Result<HashMap<u64, u64>> {
    // SAFETY: makes a socket; its number is nobody else's.
    let socket = unsafe {
        let made = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_SOCK_DIAG);
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(made)
    };
    let request = UnixDiagRequest {
        header: libc::nlmsghdr {
            nlmsg_len: size_of::<UnixDiagRequest>() as u32,
            nlmsg_type: SOCK_DIAG_BY_FAMILY,
            nlmsg_flags: (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16,
            nlmsg_seq: 1,
            nlmsg_pid: 0,
        },
        family: libc::AF_UNIX as u8,
        protocol: 0,
        padding: 0,
        states: u32::MAX,
        inode: 0,
        show: SHOW_PEER,
        cookie: [u32::MAX; 2],
    };
    // SAFETY: the request is plain data of the size that is given.
    let sent = unsafe { libc::send(socket.as_raw_fd(), (&raw const request).cast(), size_of::<UnixDiagRequest>(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = HashMap::new();
    let mut buffer = vec![0u8; 1 << 16];
    loop {
        // SAFETY: the buffer is as long as it is said to be.
        let had = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let had = usize::try_from(had).map_err(|_| io::Error::last_os_error())?;
        if had == 0 || !parse_datagram(&buffer[..had], &mut found) {
            return Ok(found);
        }
    }
}

/// Parses the messages of one datagram, and adds their sockets to `found`. Returns false after the last
/// message of the dump.
fn parse_datagram(mut rest: &[u8], found: &mut HashMap<u64, u64>) -> bool {
    while let Some((length, kind)) = u32_at(rest, 0).zip(u16_at(rest, 4)) {
        let Some(message) = rest.get(HEADER..length as usize) else { return false };
        if kind != SOCK_DIAG_BY_FAMILY {
            return false;
        }
        let mut attributes = message.get(MESSAGE..).unwrap_or_default();
        while let Some((length, kind)) = u16_at(attributes, 0).zip(u16_at(attributes, 2)) {
            let value = attributes.get(4..length.into()).and_then(|value| u32_at(value, 0));
            if let (ATTRIBUTE_PEER, Some(own), Some(peer @ 1..)) = (kind, u32_at(message, 4), value) {
                found.insert(own.into(), peer.into());
            }
            attributes = attributes.get(usize::from(length.max(4)).next_multiple_of(4)..).unwrap_or_default();
        }
        rest = rest.get((length as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    #[test]
    fn both_ends_of_a_pair_lead_to_each_other() {
        let (a, b) = UnixStream::pair().unwrap();
        let inode = |end: &UnixStream| std::fs::metadata(format!("/proc/self/fd/{}", end.as_raw_fd())).unwrap().ino();
        let peers = unix_socket_peers().unwrap();
        assert_eq!((peers.get(&inode(&a)), peers.get(&inode(&b))), (Some(&inode(&b)), Some(&inode(&a))));
    }

    #[test]
    fn damaged_messages_end() {
        let mut found = HashMap::new();
        for length in 0..64u8 {
            let mut bytes = vec![length; usize::from(length)];
            parse_datagram(&bytes, &mut found);
            bytes.splice(0..bytes.len().min(6), [length, 0, 0, 0, 20, 0]);
            parse_datagram(&bytes, &mut found);
        }
    }
}
