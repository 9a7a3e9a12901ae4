//! The TOML file of a machine.
//!
//! ```toml
//! links = "pcie"            # between all devices where no [[link]] says otherwise; default "nvlink"
//!
//! peers = 8                 # how many peers a device has room for; default 8, and no limit where links are "nvlink"
//! kernels = "skip"          # modules load, kernels launch and do nothing; without it, neither is supported
//! graphs = "check"          # graphs that use memory that is gone are refused; without it, they run into that memory
//! reuse = "early"           # handles are given out again as early as documentation allows; without it, as a driver was seen to
//! late = 7                  # asynchronous work is done as late as the rules allow; the number seeds its order. Default: at once
//!
//! multicast = true          # NVSwitches that multicast; default where the links are "nvlink"
//!
//! [[device]]                # one for each device, or none at all and `count = 4`
//! name = "NVIDIA H200"
//! uuid = "GPU-c09ee200-5130-4d0e-b00d-000000000000"
//! pci = "0000:1B:00.0"
//! memory = "139GiB"         # or a number of bytes
//! compute_capability = "9.0"
//!
//! [[link]]                  # one direction: what `from` can do with the memory of `to`
//! from = 0
//! to = 1
//! kind = "nvlink"
//! both = true               # and the other direction; default false
//! performance_rank = 0      # these five override what the kind says
//! can_access = true
//! native_atomics = true
//! array_access = true
//! partial_atomics = false
//! data = "lost"             # what is written over it: "good", "lost", "stale" (late by one write), or "stall"; default "good"
//! data_by = "kernels"       # of "kernels" or of "copies" alone; default "any"
//! atomic_capabilities = [0, 0]  # what cuDeviceGetP2PAtomicCapabilities says of each CUatomicOperation; default zeros
//! peer = "good"             # what 'cupeer doctor --p2p' has found: of peer access within a process,
//! ipc = "refused"           # of legacy IPC, and of virtual memory shared as a descriptor. "good", "wrong", "stale", "stalls",
//! vmm = "not-tested"        # "refused" or "not-tested". --deny-peer denies what is bad; the simulated driver does not look
//! copy_mb_s = 372000        # and measured: 10^6 bytes a second of copies and of a kernel's writes, and nanoseconds from a
//! kernel_mb_s = 361000      # kernel's write to its seeing the answer. For people; nothing reads these
//! round_trip_ns = 1800
//! ```

use crate::machine::{
    DataCarrier, Device, Link, LinkDamage, LinkKind, MOST_DEVICES, MethodVerdict, OPERATIONS, PciAddress,
    SharingMethod, Topology,
};
use crate::preset::CHOICES;
use cupeer_spec::names::find_nearest_name;
use cupeer_spec::uuid;
use std::collections::HashSet;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A mistake in a file, and its offset in bytes.
#[derive(Debug)]
pub(crate) struct FileMistake {
    pub at: usize,
    pub message: String,
}

fn mistake_at<T>(span: Range<usize>, message: impl Into<String>) -> Result<T, FileMistake> {
    Err(FileMistake { at: span.start, message: message.into() })
}

type Value<'a> = &'a Spanned<DeValue<'a>>;

const TOP_KEYS: &[&str] =
    &["links", "count", "peers", "kernels", "graphs", "reuse", "late", "multicast", "device", "link"];
const DEVICE_KEYS: &[&str] = &["name", "uuid", "pci", "memory", "compute_capability"];
const LINK_KEYS: &[&str] = &[
    "from",
    "to",
    "kind",
    "both",
    "can_access",
    "performance_rank",
    "native_atomics",
    "array_access",
    "partial_atomics",
    "data",
    "data_by",
    "atomic_capabilities",
    "peer",
    "ipc",
    "vmm",
    "copy_mb_s",
    "kernel_mb_s",
    "round_trip_ns",
];

pub(crate) fn parse(text: &str) -> Result<Topology, FileMistake> {
    let document = DeTable::parse(text).map_err(|e| FileMistake {
        at: e.span().map_or(0, |span| span.start),
        message: e.message().replace('\n', "; "),
    })?;
    let top = document.get_ref();
    check_keys(top, TOP_KEYS)?;
    let kind = top.get("links").map_or(Ok(LinkKind::Nvlink), expect_link_kind)?;
    let tables = top.get("device").map_or(Ok(Vec::new()), |v| expect_tables(v, "device"))?;
    let count = match top.get("count") {
        None if tables.is_empty() => {
            return mistake_at(0..0, "a machine has at least one [[device]], or 'count = N'");
        }
        None => tables.len(),
        Some(value) if tables.is_empty() => expect_index(value, 1..MOST_DEVICES + 1)?,
        Some(value) => {
            return mistake_at(value.span(), "'count' is for a file without [[device]]: leave one of them out");
        }
    };
    if count > MOST_DEVICES {
        return mistake_at(tables[MOST_DEVICES].0.clone(), format!("a machine has at most {MOST_DEVICES} devices"));
    }
    let mut machine = Topology::with_uniform_links(count, kind);
    if let Some(value) = top.get("peers") {
        machine.most_peers = Some(expect_index(value, 0..MOST_DEVICES)?);
    }
    for (key, choice, flag) in CHOICES {
        if let Some(value) = top.get(*key) {
            let wanted = format!("'{key}' must be '{choice}', or left out");
            *flag(&mut machine) = expect_value(value, (expect_string(value)? == *choice).then_some(true), &wanted)?;
        }
    }
    if let Some(value) = top.get("late") {
        machine.late = Some(expect_value(
            value,
            parse_integer(value.get_ref()),
            "'late' must be a number, which seeds the order of the work",
        )?);
    }
    if let Some(value) = top.get("multicast") {
        machine.has_multicast = expect_boolean(value)?;
    }
    for (i, (_, table)) in tables.iter().enumerate() {
        read_device(table, &mut machine.devices[i])?;
    }
    check_distinct(&machine.devices, &tables)?;
    let mut said = HashSet::new();
    for (span, table) in top.get("link").map_or(Ok(Vec::new()), |v| self::expect_tables(v, "link"))? {
        read_link(span, table, &mut machine, &mut said)?;
    }
    Ok(machine)
}

fn read_device(table: &DeTable, device: &mut Device) -> Result<(), FileMistake> {
    check_keys(table, DEVICE_KEYS)?;
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "name" => {
                let is_name = |name: &&str| !name.is_empty() && name.len() <= 255 && !name.contains('\0');
                let name = Some(expect_string(value)?).filter(is_name);
                device.name = expect_value(value, name, "a name must have 1 to 255 bytes and no NUL")?.into();
            }
            "uuid" => {
                let wanted = "a UUID must be 'GPU-' and 8-4-4-4-12 hexadecimal digits";
                device.uuid = expect_value(value, read_uuid(expect_string(value)?), wanted)?;
            }
            "pci" => {
                let wanted = "a PCI address must be DOMAIN:BUS:DEVICE.0, as in '0000:1B:00.0'";
                device.pci = expect_value(value, read_pci(expect_string(value)?), wanted)?;
            }
            "memory" => {
                let wanted = "memory must be a number of bytes, or as in '139GiB', from 1 MiB to 1 PiB";
                device.memory = expect_value(value, read_memory(value.get_ref()), wanted)?;
            }
            _ => {
                let wanted = "a compute capability must be MAJOR.MINOR, as in '9.0'";
                device.compute_capability = expect_value(value, read_capability(expect_string(value)?), wanted)?;
            }
        }
    }
    Ok(())
}

fn read_link(
    span: Range<usize>,
    table: &DeTable,
    machine: &mut Topology,
    said: &mut HashSet<(usize, usize)>,
) -> Result<(), FileMistake> {
    check_keys(table, LINK_KEYS)?;
    let count = machine.devices.len();
    let end = |key| match table.get(key) {
        Some(value) => expect_index(value, 0..count),
        None => mistake_at(span.clone(), format!("this [[link]] lacks '{key}', the index of a device")),
    };
    let (from, to) = (end("from")?, end("to")?);
    if from == to {
        return mistake_at(span, format!("this [[link]] leads from device {from} to itself"));
    }
    let both = table.get("both").map_or(Ok(false), expect_boolean)?;
    for (from, to) in [(from, to), (to, from)].into_iter().take(1 + usize::from(both)) {
        if !said.insert((from, to)) {
            return mistake_at(span, format!("a second [[link]] from device {from} to device {to}"));
        }
    }
    let mut link = machine.links[from * count + to];
    // The kind comes first: the other keys override its defaults.
    if let Some(value) = table.get("kind") {
        link = expect_link_kind(value)?.default_link();
    }
    for (key, value) in table {
        read_property(&mut link, key.get_ref(), value)?;
    }
    machine.links[from * count + to] = link;
    if both {
        machine.links[to * count + from] = link;
    }
    Ok(())
}

/// Reads a key of a `[[link]]` other than `from`, `to`, `both`, and `kind`.
fn read_property(link: &mut Link, key: &str, value: Value) -> Result<(), FileMistake> {
    match key {
        "can_access" => link.can_access = expect_boolean(value)?,
        "native_atomics" => link.native_atomics = expect_boolean(value)?,
        "array_access" => link.array_access = expect_boolean(value)?,
        "partial_atomics" => link.partial_atomics = expect_boolean(value)?,
        "performance_rank" => link.performance_rank = expect_index(value, 0..1001)? as i32,
        "data" => link.data = expect_keyword(value, LinkDamage::ALL, "what becomes of data is")?,
        "data_by" => link.data_by = expect_keyword(value, DataCarrier::ALL, "data is taken by")?,
        "atomic_capabilities" => link.atomic_capabilities = read_capabilities(value)?,
        "copy_mb_s" | "kernel_mb_s" | "round_trip_ns" => {
            expect_value(value, parse_integer(value.get_ref()), "must be a number")?;
        }
        _ => {
            if let Some(method) = SharingMethod::ALL.into_iter().find(|method| method.name() == key) {
                link.verdicts[method as usize] = Some(expect_keyword(value, MethodVerdict::ALL, "a verdict is")?);
            }
        }
    }
    Ok(())
}

/// Fails if two devices have the same UUID or the same PCI address, each of which must identify a device.
fn check_distinct(devices: &[Device], tables: &[(Range<usize>, &DeTable)]) -> Result<(), FileMistake> {
    for (i, device) in devices.iter().enumerate() {
        for (j, other) in devices[..i].iter().enumerate() {
            let what = if device.uuid == other.uuid {
                "UUID"
            } else if device.pci == other.pci {
                "PCI address"
            } else {
                continue;
            };
            let span = tables.get(i).map_or(0..0, |(span, _)| span.clone());
            return mistake_at(span, format!("devices {j} and {i} have the same {what}: give each its own"));
        }
    }
    Ok(())
}

fn check_keys(table: &DeTable, known: &[&str]) -> Result<(), FileMistake> {
    for key in table.keys() {
        let name = key.get_ref().as_ref();
        if !known.contains(&name) {
            let hint = match find_nearest_name(name, known.iter().copied()) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => format!("there are {}", known.join(", ")),
            };
            return mistake_at(key.span(), format!("unknown key '{name}'; {hint}"));
        }
    }
    Ok(())
}

fn expect_tables<'a>(value: Value<'a>, key: &str) -> Result<Vec<(Range<usize>, &'a DeTable<'a>)>, FileMistake> {
    let wrong = format!("'{key}' is a list of tables: write [[{key}]]");
    let DeValue::Array(items) = value.get_ref() else { return mistake_at(value.span(), wrong) };
    items
        .iter()
        .map(|item| match item.get_ref() {
            DeValue::Table(table) => Ok((item.span(), table)),
            _ => mistake_at(item.span(), wrong.clone()),
        })
        .collect()
}

/// Returns the value that was read, or a mistake that names the expected form.
fn expect_value<T>(value: Value, read: Option<T>, wanted: &str) -> Result<T, FileMistake> {
    read.map_or_else(|| mistake_at(value.span(), wanted), Ok)
}

fn expect_string<'a>(value: Value<'a>) -> Result<&'a str, FileMistake> {
    expect_value(value, value.get_ref().as_str(), "must be a text in quotes")
}

fn expect_boolean(value: Value) -> Result<bool, FileMistake> {
    expect_value(value, value.get_ref().as_bool(), "must be true or false")
}

fn expect_index(value: Value, range: Range<usize>) -> Result<usize, FileMistake> {
    let number = parse_integer(value.get_ref()).and_then(|number| usize::try_from(number).ok());
    let wanted = format!("must be a number from {} to {}", range.start, range.end - 1);
    expect_value(value, number.filter(|number| range.contains(number)), &wanted)
}

fn parse_integer(value: &DeValue) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn expect_link_kind(value: Value) -> Result<LinkKind, FileMistake> {
    let name = expect_string(value)?;
    let wanted = format!("there is no kind of link '{name}'; the kinds are nvlink, pcie and none");
    expect_value(value, LinkKind::ALL.iter().find(|(_, known)| *known == name), &wanted).map(|(kind, _)| *kind)
}

/// Reads a list of numbers, one for each operation. Missing numbers at the end are 0.
fn read_capabilities(value: Value) -> Result<[u32; OPERATIONS], FileMistake> {
    let wanted = format!("must be a list of at most {OPERATIONS} numbers of 32 bits");
    let items = value.get_ref().as_array().filter(|items| items.len() <= OPERATIONS);
    let mut all = [0; OPERATIONS];
    for (place, item) in all.iter_mut().zip(expect_value(value, items, &wanted)?.iter()) {
        let number = parse_integer(item.get_ref()).and_then(|number| u32::try_from(number).ok());
        *place = expect_value(item, number, &wanted)?;
    }
    Ok(all)
}

/// Returns the value that a word stands for. `what` begins the message that lists the known words.
fn expect_keyword<T: Copy>(value: Value, known: &[(T, &str)], what: &str) -> Result<T, FileMistake> {
    let name = expect_string(value)?;
    let names: Vec<&str> = known.iter().map(|(_, known)| *known).collect();
    let wanted = format!("there is no '{name}' here; {what} one of {}", names.join(", "));
    expect_value(value, known.iter().find(|(_, known)| *known == name), &wanted).map(|(meant, _)| *meant)
}

fn read_uuid(text: &str) -> Option<[u8; 16]> {
    text.starts_with("GPU-").then(|| uuid::parse_uuid(text))?
}

/// Parses a number of hexadecimal digits. Unlike the standard library, refuses a sign.
fn parse_hexadecimal(text: &str) -> Option<u128> {
    text.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u128::from_str_radix(text, 16).ok())?
}

fn read_pci(text: &str) -> Option<PciAddress> {
    let mut parts = text.strip_suffix(".0").unwrap_or(text).rsplit(':');
    let mut part = |most: u128| parts.next().map_or(Some(0), parse_hexadecimal).filter(|n| *n <= most);
    let address = PciAddress { device: part(0x1f)? as u8, bus: part(0xff)? as u8, domain: part(0xffff_ffff)? as u32 };
    (text.contains(':') && parts.next().is_none()).then_some(address)
}

fn read_memory(value: &DeValue) -> Option<u64> {
    let bytes = match value {
        DeValue::String(text) => {
            let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
            let scale = match text[digits.len()..].trim() {
                "" => 0,
                "KiB" => 10,
                "MiB" => 20,
                "GiB" => 30,
                "TiB" => 40,
                _ => return None,
            };
            digits.parse::<u64>().ok()?.checked_mul(1 << scale)?
        }
        other => parse_integer(other)?,
    };
    (1 << 20..=1 << 50).contains(&bytes).then_some(bytes)
}

fn read_capability(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?;
    Some((digits(major).filter(|n| (1..100).contains(n))?, digits(minor).filter(|n| *n < 10)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Topology {
        parse(text).unwrap_or_else(|e| panic!("{text}: {}", e.message))
    }

    fn wrong(text: &str) -> (usize, String) {
        let error = parse(text).unwrap_err();
        (1 + text[..error.at].matches('\n').count(), error.message)
    }

    #[test]
    fn devices_and_links_are_read() {
        let machine = read(
            "links = 'none'\n[[device]]\nname = 'A'\nuuid = 'GPU-00112233-4455-6677-8899-aabbccddeeff'\n\
             pci = '0001:a0:1f.0'\nmemory = '2GiB'\ncompute_capability = '8.6'\n[[device]]\n\
             [[link]]\nfrom = 0\nto = 1\nkind = 'pcie'\nnative_atomics = true\nperformance_rank = 3\n",
        );
        let device = &machine.devices[0];
        assert_eq!((device.name.as_str(), device.memory, device.compute_capability), ("A", 2 << 30, (8, 6)));
        assert_eq!(device.uuid_text(), "GPU-00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!(device.pci.to_string(), "0001:A0:1F.0");
        let there = machine.link(0, 1).unwrap();
        assert!(there.can_access && there.native_atomics && there.performance_rank == 3);
        assert!(!machine.link(1, 0).unwrap().can_access, "a link is one direction");
    }

    #[test]
    fn damage_and_test_results_are_read() {
        let machine = read(
            "count = 2\n[[link]]\nfrom = 0\nto = 1\ndata = 'stale'\ndata_by = 'copies'\natomic_capabilities = [1, 7]\n\
             ipc = 'refused'\nvmm = 'not-tested'\ncopy_mb_s = 372000\n",
        );
        let link = machine.link(0, 1).unwrap();
        assert_eq!(
            (link.damage_for(DataCarrier::Copies), link.damage_for(DataCarrier::Kernels)),
            (LinkDamage::Stale, LinkDamage::Good)
        );
        assert_eq!((link.atomic_capabilities[..3].to_vec(), link.is_bad()), (vec![1, 7, 0], true));
        assert_eq!(
            (link.verdict(SharingMethod::Peer), link.verdict(SharingMethod::Ipc)),
            (None, Some(MethodVerdict::Refused))
        );
        assert!(!machine.link(1, 0).unwrap().is_bad());
    }

    #[test]
    fn both_directions_counts_and_kernels() {
        assert!(read("count = 1\nkernels = 'skip'\n").skips_kernels);
        assert!(read("count = 1\ngraphs = 'check'\n").checks_graphs);
        assert!(read("count = 1\nreuse = 'early'\n").reuses_early);
        let machine = read("count = 3\nlinks = 'pcie'\n[[link]]\nfrom = 2\nto = 0\nkind = 'none'\nboth = true\n");
        assert_eq!(machine.devices.len(), 3);
        assert!(!machine.link(2, 0).unwrap().can_access && !machine.link(0, 2).unwrap().can_access);
        assert!(machine.link(1, 2).unwrap().can_access && !machine.skips_kernels);
        assert!(!read("count = 2\nmulticast = false\n").has_multicast);
        assert!(read("count = 2\nlinks = 'pcie'\nmulticast = true\n").has_multicast);
        assert!(!read("count = 2\nlinks = 'pcie'\n").has_multicast && !read("count = 1\n").has_multicast);
    }

    #[test]
    fn mistakes_have_a_line_and_a_remedy() {
        for (text, line, message) in [
            ("", 1, "a machine has at least one [[device]], or 'count = N'"),
            ("[[device]]\nmemmory = 1\n", 2, "unknown key 'memmory'; did you mean 'memory'?"),
            ("count = 65\n", 1, "must be a number from 1 to 64"),
            ("count = 1\n[[device]]\n", 1, "'count' is for a file without [[device]]: leave one of them out"),
            ("device = 3\n", 1, "'device' is a list of tables: write [[device]]"),
            ("[[device]]\nuuid = 'GPU-1'\n", 2, "a UUID must be 'GPU-' and 8-4-4-4-12 hexadecimal digits"),
            (
                "[[device]]\nmemory = '2GB'\n",
                2,
                "memory must be a number of bytes, or as in '139GiB', from 1 MiB to 1 PiB",
            ),
            ("count = 2\n[[link]]\nto = 1\n", 2, "this [[link]] lacks 'from', the index of a device"),
            ("count = 2\n[[link]]\nfrom = 0\nto = 2\n", 4, "must be a number from 0 to 1"),
            ("count = 2\n[[link]]\nfrom = 1\nto = 1\n", 2, "this [[link]] leads from device 1 to itself"),
            (
                "count = 2\n[[link]]\nfrom = 0\nto = 1\ndata = 'lots'\n",
                5,
                "there is no 'lots' here; what becomes of data is one of good, lost, stale, stall",
            ),
            (
                "count = 2\n[[link]]\nfrom = 0\nto = 1\natomic_capabilities = [1, -1]\n",
                5,
                "must be a list of at most 13 numbers of 32 bits",
            ),
            ("count = 1\nkernels = 'run'\n", 2, "'kernels' must be 'skip', or left out"),
            (
                "[[device]]\npci = '0000:01:00.0'\n[[device]]\npci = '0000:01:00.0'\n",
                3,
                "devices 0 and 1 have the same PCI address: give each its own",
            ),
            ("links = 'sli'\ncount = 1\n", 1, "there is no kind of link 'sli'; the kinds are nvlink, pcie and none"),
        ] {
            assert_eq!(wrong(text), (line, message.to_owned()), "{text}");
        }
        let (line, message) = wrong("count = 1\nlinks = \n");
        assert!(line == 2 && !message.is_empty());
    }
}
