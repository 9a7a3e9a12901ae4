//! Peers: the processes at the other ends of sockets, pipes, and eventfds.

use super::diag;
use procfs::net::{TcpNetEntry, TcpState};
use procfs::process::{FDPermissions, FDTarget, Process};
use std::collections::HashMap;
use std::fs;

/// One end of a connection: a descriptor, and the processes that have the other end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionEnd {
    pub kind: &'static str,
    /// Path or address in messages.
    pub name: String,
    pub inode: Option<u64>,
    /// Pids in this namespace of the processes that have the other end.
    pub peers: Vec<u32>,
    /// Reason why no such process is known; `None` if none is expected.
    pub unknown: Option<&'static str>,
    /// Inode of the socket at the other end.
    pub other_inode: Option<u64>,
}

/// Number of processes that are listed for one end: the first ones; many may have inherited a descriptor.
const MOST: usize = 16;

/// Processes that hold each end.
#[derive(Default)]
pub struct ConnectionEnds {
    /// Pids of the processes that hold a socket, pipe, or eventfd, each with true if the process may write to
    /// it.
    holders: HashMap<EndKey, Vec<(u32, bool)>>,
    /// Pids of the processes whose descriptors were read.
    looked: Vec<u32>,
    has_all: bool,
    unix: Option<HashMap<u64, u64>>,
    tcp: HashMap<u64, Vec<TcpNetEntry>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum EndKey {
    Socket(u64),
    Pipe(u64),
    Event(u64),
}

impl ConnectionEnds {
    /// Returns the other end of a process's descriptor. Processes of `job` are examined first.
    pub fn other_end_of(&mut self, pid: u32, fd: i32, is_read: bool, job: &[u32]) -> Option<ConnectionEnd> {
        let process = Process::new(pid as i32).ok()?;
        let info = process.fd_from_fd(fd).ok()?;
        let end = |kind, name: String, inode| ConnectionEnd {
            kind,
            name,
            inode,
            peers: Vec::new(),
            unknown: None,
            other_inode: None,
        };
        match info.target {
            FDTarget::Pipe(inode) => {
                let other = |is_writer: bool| is_writer == is_read;
                let peers = self.find_holders(EndKey::Pipe(inode), job, pid, other);
                let unknown = peers.is_empty().then_some("no process that can be seen has the other end");
                Some(ConnectionEnd { peers, unknown, ..end("pipe", String::new(), Some(inode)) })
            }
            FDTarget::Socket(inode) => Some(self.socket_end(&process, inode, job)),
            FDTarget::AnonInode(name) if name.contains("eventfd") => {
                let id = eventfd_id(pid, fd);
                let peers = id.map(|id| self.find_holders(EndKey::Event(id), job, pid, |_| true)).unwrap_or_default();
                Some(ConnectionEnd { peers, ..end("eventfd", String::new(), id) })
            }
            FDTarget::AnonInode(name) => Some(end("descriptor", name, None)),
            FDTarget::Path(path) => Some(end("file", path.to_string_lossy().into_owned(), None)),
            FDTarget::MemFD(name) => Some(end("file", name, None)),
            _ => None,
        }
    }

    fn socket_end(&mut self, process: &Process, inode: u64, job: &[u32]) -> ConnectionEnd {
        let pid = process.pid as u32;
        let mut end = ConnectionEnd {
            kind: "socket",
            name: String::new(),
            inode: Some(inode),
            peers: Vec::new(),
            unknown: None,
            other_inode: None,
        };
        let unix = self.unix.get_or_insert_with(|| diag::unix_socket_peers().unwrap_or_default());
        if let Some(peer) = unix.get(&inode).copied() {
            (end.kind, end.other_inode) = ("Unix socket", Some(peer));
            end.peers = self.find_holders(EndKey::Socket(peer), job, pid, |_| true);
            if end.peers.is_empty() {
                end.unknown = Some("no process that can be seen has the other end");
            }
        } else if let Some(own) = self.tcp_sockets(process).iter().find(|entry| entry.inode == inode).cloned() {
            end.kind = "TCP socket";
            if own.state == TcpState::Listen {
                end.name = format!("{}, to which nobody connects", own.local_address);
            } else {
                end.name = own.remote_address.to_string();
                let is_other = |entry: &&TcpNetEntry| {
                    (entry.local_address, entry.remote_address) == (own.remote_address, own.local_address)
                };
                let other = self.tcp_sockets(process).iter().find(is_other).map(|entry| entry.inode);
                // A connection that nobody has accepted has no inode: the processes that listen there could
                // accept it.
                let accepts = |entry: &&TcpNetEntry| {
                    entry.state == TcpState::Listen
                        && entry.local_address.port() == own.remote_address.port()
                        && (entry.local_address.ip().is_unspecified()
                            || entry.local_address.ip() == own.remote_address.ip())
                };
                let mut listener = || self.tcp_sockets(process).iter().find(accepts).map(|entry| entry.inode);
                let (inode, is_accepted) = match other.filter(|inode| *inode != 0) {
                    Some(inode) => (Some(inode), true),
                    None => (other.and_then(|_| listener()), false),
                };
                end.other_inode = inode;
                end.peers =
                    inode.map_or_else(Vec::new, |inode| self.find_holders(EndKey::Socket(inode), job, pid, |_| true));
                if inode.is_some() && !is_accepted {
                    end.name += ", which has not accepted the connection";
                }
                end.unknown = end.peers.is_empty().then_some("no process of this host has the other end");
            }
        } else if let Some(known) = process.unix().unwrap_or_default().into_iter().find(|entry| entry.inode == inode) {
            end.kind = "Unix socket";
            end.name = known.path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
            end.unknown = Some("it is not connected, or is in another network namespace");
        }
        end
    }

    /// Returns the TCP sockets in the network namespace of a process.
    fn tcp_sockets(&mut self, process: &Process) -> &[TcpNetEntry] {
        use std::os::unix::fs::MetadataExt;
        let space = fs::metadata(format!("/proc/{}/ns/net", process.pid)).map_or(0, |about| about.ino());
        self.tcp.entry(space).or_insert_with(|| {
            let mut all = process.tcp().unwrap_or_default();
            all.extend(process.tcp6().unwrap_or_default());
            all
        })
    }

    /// Returns the pids of the processes that hold an end, with the process itself last.
    fn find_holders(&mut self, key: EndKey, job: &[u32], own: u32, is_it: impl Fn(bool) -> bool) -> Vec<u32> {
        job.iter().for_each(|pid| self.read_descriptors(*pid));
        if !self.other_holders(key, own, &is_it).is_empty() {
            return self.other_holders(key, own, &is_it);
        }
        if !std::mem::replace(&mut self.has_all, true) {
            let all = fs::read_dir("/proc").into_iter().flatten().flatten();
            all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).for_each(|pid| self.read_descriptors(pid));
        }
        let mut all = self.other_holders(key, own, &is_it);
        if all.is_empty()
            && self.holders.get(&key).is_some_and(|known| known.iter().any(|(pid, is)| *pid == own && is_it(*is)))
        {
            all.push(own);
        }
        all
    }

    fn other_holders(&self, key: EndKey, own: u32, is_it: &impl Fn(bool) -> bool) -> Vec<u32> {
        let known = self.holders.get(&key).map(Vec::as_slice).unwrap_or_default();
        let mut all: Vec<u32> =
            known.iter().filter(|(pid, writes)| *pid != own && is_it(*writes)).map(|(pid, _)| *pid).collect();
        all.dedup();
        all.truncate(MOST);
        all
    }

    fn read_descriptors(&mut self, pid: u32) {
        if self.looked.contains(&pid) {
            return;
        }
        self.looked.push(pid);
        let Ok(descriptors) = Process::new(pid as i32).and_then(|process| process.fd()) else { return };
        for info in descriptors.flatten() {
            let key = match &info.target {
                FDTarget::Socket(inode) => EndKey::Socket(*inode),
                FDTarget::Pipe(inode) => EndKey::Pipe(*inode),
                FDTarget::AnonInode(name) if name.contains("eventfd") => match eventfd_id(pid, info.fd) {
                    Some(id) => EndKey::Event(id),
                    None => continue,
                },
                _ => continue,
            };
            self.holders.entry(key).or_default().push((pid, info.mode().contains(FDPermissions::WRITE)));
        }
    }
}

/// Returns the kernel's id of an eventfd.
fn eventfd_id(pid: u32, fd: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("eventfd-id:")?.trim().parse().ok())
}
