//! Tracks the virtual memory of a process, for the rules about its next call, and the mappings that no device, or not
//! every device with peer access, could use.

use super::Site;
use cupeer_books::wanted::access;
use cupeer_books::{self as books, Allocation, Mapping, Space};
use cupeer_report::places::Stack;
use cupeer_spec::effect::{Effect, End, Grant, Made, Object, Shared};
use cupeer_spec::function::FnId;
use std::collections::{BTreeSet, HashMap};

type Known = Space<Vec<Allocation>, Vec<Mapping>>;

/// What one process has.
#[derive(Default)]
pub struct OwnSpace {
    known: Known,
    /// How what is mapped was mapped, by its address.
    sites: HashMap<u64, Mapped>,
    /// Where and when each handle was last released, until it is one of another allocation.
    released: HashMap<u64, (Site, u64)>,
    /// What was unmapped, and not accessible to those who might have used it.
    unmapped: HashMap<(Stack, Option<Apart>), Unused>,
    /// From which devices to which the process has switched access on.
    enabled: BTreeSet<(i32, i32)>,
}

/// By which function and where something was mapped, and when.
#[derive(Clone, Copy)]
struct Mapped {
    function: FnId,
    site: Site,
    at: u64,
    /// The devices that ever got access to it, a bit for each ordinal; all where that is not known.
    devices: u64,
}

/// A device that access was switched on for, and the one whose memory it could not reach all the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Apart {
    pub from: i32,
    pub home: i32,
}

/// Mappings of one place that were never accessible to any device, or only to that of the memory.
#[derive(Clone, Copy)]
pub struct Unused {
    /// By which function and where the first was mapped, and when; when the last was.
    pub function: FnId,
    pub site: Site,
    pub at: u64,
    pub last: u64,
    /// The address of the first.
    pub start: u64,
    pub count: u64,
    pub bytes: u64,
    /// Whether it was still mapped when the process was last seen.
    pub is_left: bool,
    /// The device that had no access; `None` where none had.
    pub apart: Option<Apart>,
}

impl OwnSpace {
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Where the first mapping in a range was mapped of which something is true: its address, and when that was.
    pub fn mapped(
        &self,
        (start, bytes): (u64, u64),
        is_it: impl Fn(&Mapping) -> bool,
    ) -> Option<(u64, Site, u64)> {
        let touched = self.known.mappings().filter(|mapping| mapping.touches(start, bytes) && is_it(mapping));
        let first = touched.map(|mapping| mapping.start).min()?;
        self.sites.get(&first).map(|mapped| (first, mapped.site, mapped.at))
    }

    /// Where a handle was last released, and when.
    pub fn released(&self, handle: u64) -> Option<(Site, u64)> {
        self.released.get(&handle).copied()
    }

    /// Notes that access from a device to another one was switched on.
    pub fn enabled(&mut self, from: i32, to: i32) {
        self.enabled.insert((from, to));
    }

    /// Notes that something has happened of which is not known what.
    pub fn lose(&mut self) {
        self.known.lose();
    }

    /// Notes a call about virtual memory, which was made at a time, in a place.
    pub fn note(&mut self, judged: &books::Call, at: u64, site: impl FnOnce() -> Site) {
        let function = judged.function;
        for effect in function.spec().effects().iter().filter(|_| judged.result == 0) {
            match *effect {
                Effect::Makes(Made { object: Object::Mapping, by, .. }) => {
                    self.sites.insert(judged.at(by), Mapped { function, site: site(), at, devices: 0 });
                    break;
                }
                Effect::Ends(End { object: Object::Allocation, by, .. }) => {
                    self.released.insert(judged.at(by), (site(), at));
                    break;
                }
                Effect::Makes(Made { object: Object::Allocation, by, .. })
                | Effect::Opens(Shared { object: Object::Allocation, by, .. }) => {
                    self.released.remove(&judged.at(by));
                }
                Effect::Ends(End { object: Object::Mapping, by, size: Some(size), .. }) => {
                    let (start, bytes) = (judged.at(by), judged.at(size));
                    let ended = self.known.mappings().filter(|mapping| mapping.touches(start, bytes));
                    let ended: Vec<_> =
                        ended.map(|mapping| (mapping.start, self.unused(mapping, false))).collect();
                    for (start, unused) in ended {
                        count(&mut self.unmapped, unused);
                        self.sites.remove(&start);
                    }
                }
                Effect::Grants(Grant { by, size: Some(size), .. }) => {
                    let (start, bytes) = (judged.at(by), judged.at(size));
                    let devices = granted(judged);
                    for mapping in self.known.mappings().filter(|mapping| mapping.touches(start, bytes)) {
                        if let Some(mapped) = self.sites.get_mut(&mapping.start) {
                            mapped.devices |= devices;
                        }
                    }
                }
                _ => {}
            }
        }
        self.known.note(judged);
    }

    /// A mapping that nobody could use, or not all that might have.
    fn unused(&self, mapping: &Mapping, is_left: bool) -> Option<Unused> {
        let Mapped { function, site, at, devices } = *self.sites.get(&mapping.start)?;
        // What is mapped with another handle is no memory that this process knows: a multicast object.
        let home = self.known.allocation(mapping.handle)?.device;
        let &Mapping { start, bytes, is_granted, .. } = mapping;
        let apart = home.and_then(|home| self.apart(home, devices));
        let unused = Unused { function, site, at, last: at, start, count: 1, bytes, is_left, apart };
        (!is_granted || apart.is_some()).then_some(unused)
    }

    /// A device for which access to another one was switched on, where only that one has access to its memory.
    fn apart(&self, home: i32, devices: u64) -> Option<Apart> {
        let is_alone = u32::try_from(home).is_ok_and(|bit| 1u64.checked_shl(bit) == Some(devices));
        let (from, _) = self.enabled.iter().find(|(from, to)| is_alone && *to == home && *from != home)?;
        Some(Apart { from: *from, home })
    }

    /// All mappings that nobody could use, once all calls are noted; none where calls may be missing.
    pub fn finish(&mut self) -> Vec<Unused> {
        if self.known.has_lost() {
            return Vec::new();
        }
        let mut left = HashMap::new();
        self.known.mappings().for_each(|mapping| count(&mut left, self.unused(mapping, true)));
        self.unmapped.drain().map(|(_, unused)| unused).chain(left.into_values()).collect()
    }
}

/// The devices that a call gives access to.
fn granted(call: &books::Call) -> u64 {
    let bit = |device| u32::try_from(device).ok().and_then(|bit| 1u64.checked_shl(bit)).unwrap_or(!0);
    let given = access(call.elements).filter_map(|(device, flags)| device.filter(|_| flags != 0));
    if call.has_all_elements(access(call.elements).count()) {
        given.fold(0, |all, device| all | bit(device))
    } else {
        !0
    }
}

fn count(all: &mut HashMap<(Stack, Option<Apart>), Unused>, unused: Option<Unused>) {
    let Some(unused) = unused else { return };
    all.entry((unused.site.stack, unused.apart))
        .and_modify(|known| {
            known.count += 1;
            known.bytes += unused.bytes;
            known.last = known.last.max(unused.at);
        })
        .or_insert(unused);
}
