//! What processes know together of a multicast object: how many devices were to join, which did, and which memory is bound
//! where.
//!
//! It stands in a file without a name, like a device's memory, which whoever has the object has open. Of what is bound a byte of the file is
//! held, so that the binding ends with the process that made it.

use super::answer::Answer;
use super::backing::Backing;
use super::channel::MEMORY_NAME;
use cupeer_spec::results::Result as Code;
use std::ffi::CStr;
use std::sync::Arc;

const NAME: &CStr = c"cupeer-sim multicast";
/// The byte that is held while the file is changed; those behind it are held for bindings.
const CHANGING: u64 = 0;
/// Where bindings begin, and how many there can be.
const BINDINGS: u64 = 4096;
const MOST_BINDINGS: u64 = 1024;
/// Where the joined devices stand, a bit each.
const JOINED: u64 = 24;

/// What it was created as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// How many devices are to join.
    pub devices: u64,
    pub size: u64,
    /// As what it may leave its process.
    pub types: u64,
}

/// Memory that is bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Binding {
    /// The index of the device in the machine.
    pub device: u64,
    /// Where in the object.
    pub at: u64,
    pub size: u64,
    /// Whose descriptor the memory's file is.
    pub pid: u64,
    pub descriptor: u64,
    pub inode: u64,
    /// Where in that file.
    pub offset: u64,
}

impl Binding {
    /// Whether a part of it lies in a range of the object.
    pub(crate) fn touches(&self, at: u64, size: u64) -> bool {
        self.at < at + size && at < self.at + self.size
    }

    /// The file of the memory; `None` where its process is gone.
    pub(crate) fn open(&self) -> Option<Backing> {
        let file = Backing::open(self.pid as u32, self.descriptor as u32, MEMORY_NAME)?;
        (file.inode() == self.inode).then_some(file)
    }
}

/// A multicast object.
#[derive(Debug)]
pub(crate) struct Team {
    pub file: Arc<Backing>,
    /// The same file again, by which what this process has bound is held.
    keeper: Backing,
    pub shape: Shape,
    pub is_imported: bool,
}

impl Team {
    pub(crate) fn create(shape: Shape) -> Option<Arc<Team>> {
        let file = Backing::create(NAME, BINDINGS + MOST_BINDINGS * ENTRY)?;
        let words = [shape.devices, shape.size, shape.types, 0];
        file.write(0, words.as_ptr() as u64, size_of_val(&words) as u64).ok()?;
        Team::of(file, false)
    }

    /// The object that a descriptor of the program means.
    pub(crate) fn import(descriptor: i32) -> Option<Arc<Team>> {
        Team::of(Backing::open_own(descriptor, NAME)?, true)
    }

    fn of(file: Backing, is_imported: bool) -> Option<Arc<Team>> {
        let keeper = file.reopen()?;
        let [devices, size, types] = words(&file, 0)?;
        let shape = Shape { devices, size, types };
        Some(Arc::new(Team { file: Arc::new(file), keeper, shape, is_imported }))
    }

    /// Makes a descriptor for the program, which closes it.
    pub(crate) fn issue(&self) -> Option<i32> {
        Some(self.file.reopen()?.give_away())
    }

    pub(crate) fn inode(&self) -> u64 {
        self.file.inode()
    }

    /// The devices that have joined, a bit each.
    fn joined(&self) -> Answer<u64> {
        let [joined] = words(&self.file, JOINED).ok_or(Code::OPERATING_SYSTEM)?;
        Ok(joined)
    }

    pub(crate) fn has(&self, device: usize) -> Answer<bool> {
        Ok(self.joined()? & 1 << device != 0)
    }

    /// Whether all devices have joined.
    pub(crate) fn is_whole(&self) -> Answer<bool> {
        Ok(u64::from(self.joined()?.count_ones()) == self.shape.devices)
    }

    /// The devices of the team.
    pub(crate) fn devices(&self) -> Answer<impl Iterator<Item = u64> + use<>> {
        let joined = self.joined()?;
        Ok((0..64).filter(move |device| joined & 1 << device != 0))
    }

    /// Adds a device. There is no place for one that is there already, or beyond the number that was wanted.
    pub(crate) fn join(&self, device: usize) -> Answer {
        self.file.exclusively(CHANGING, || {
            if self.is_whole()? || self.has(device)? {
                return Err(Code::INVALID_VALUE.into());
            }
            let joined = self.joined()? | 1 << device;
            self.file.write(JOINED, (&raw const joined) as u64, size_of_val(&joined) as u64)
        })
    }

    /// All that is bound now, with the place of each.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = (u64, Binding)> {
        (0..MOST_BINDINGS).filter_map(|index| Some((index, self.binding(index)?)))
    }

    fn binding(&self, index: u64) -> Option<Binding> {
        let [device, at, size, pid, descriptor, inode, offset] = words(&self.file, BINDINGS + index * ENTRY)?;
        let is_there = size != 0 && self.file.is_held(1 + index);
        is_there.then_some(Binding { device, at, size, pid, descriptor, inode, offset })
    }

    /// Binds memory where the device has none yet: its place.
    pub(crate) fn bind(&self, binding: Binding) -> Answer<u64> {
        self.file.exclusively(CHANGING, || {
            let overlaps =
                |known: Binding| known.device == binding.device && known.touches(binding.at, binding.size);
            if self.bindings().any(|(_, known)| overlaps(known)) {
                return Err(Code::INVALID_VALUE.into());
            }
            let free = (0..MOST_BINDINGS).find(|index| self.binding(*index).is_none());
            let index = free.ok_or(Code::OUT_OF_MEMORY)?;
            let Binding { device, at, size, pid, descriptor, inode, offset } = binding;
            let words = [device, at, size, pid, descriptor, inode, offset];
            self.file.write(BINDINGS + index * ENTRY, words.as_ptr() as u64, ENTRY)?;
            if self.keeper.hold(1 + index) { Ok(index) } else { Err(Code::OPERATING_SYSTEM.into()) }
        })
    }

    /// Ends a binding of this process.
    pub(crate) fn unbind(&self, index: u64) {
        self.keeper.let_go(1 + index);
    }
}

/// How many bytes a binding has in the file.
const ENTRY: u64 = size_of::<Binding>() as u64;

fn words<const N: usize>(file: &Backing, at: u64) -> Option<[u64; N]> {
    let mut words = [0; N];
    file.fill_words(at, &mut words).ok()?;
    Some(words)
}
