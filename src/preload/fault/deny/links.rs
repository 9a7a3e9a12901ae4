//! Decides which NVLinks of a device are hidden, and which of the NVML field values describe them.
//!
//! A link between two devices is hidden if that pair is denied. A link to a switch leads to all devices: it is hidden
//! if its device is part of any denied pair, because libraries take a visible link for a path to every device, and
//! stop if a pair has no access over it.

use super::{ask, devices, pairs};
use cupeer_spec::abi::nvmlFieldValue_t;

/// Number of links that are queried per device. No device has more.
const MOST_LINKS: u32 = 64;

/// Returns the denied pair because of which a link of a device is hidden; `None` if the link is not hidden, or is missing.
pub fn pair_hiding_link(device: u64, link: u32) -> Option<usize> {
    let pairs = pairs()?;
    let own = devices::of_handle(device);
    let touched = pairs.find_entry_with(&own)?;
    let remote = ask::remote_address(device, link)?;
    match ask::nvml_device_at(&remote).map(devices::of_handle) {
        Some(other) => pairs.find_denial(&own, &other).or_else(|| pairs.find_denial(&other, &own)),
        None => Some(touched),
    }
}

/// Links that an NVML field describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LinkValue {
    Link(u32),
    AllLinks,
    Count,
}

/// Returns the links that an NVML field describes; `None` if the field is not about links.
fn described_links(field: u32, scope: u32) -> Option<LinkValue> {
    // For each kind of counter, a run of fields: the first six links and their sum, then the next six links.
    const FIRST: [u32; 6] = [32, 39, 46, 53, 60, 67];
    const NEXT: [u32; 6] = [96, 102, 108, 114, 120, 126];
    /// NVML_FI_DEV_NVLINK_SPEED_MBPS_: of the first links and of all, of the next links.
    const SPEEDS: (u32, u32) = (84, 132);
    /// NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_, of twelve links and of all.
    const ECC: u32 = 148;
    let in_run = |start: &u32, length: u32| (*start..*start + length).contains(&field).then(|| field - start);
    if let Some(link) = FIRST.iter().chain([&SPEEDS.0]).find_map(|start| in_run(start, 7)) {
        return Some(if link == 6 { LinkValue::AllLinks } else { LinkValue::Link(link) });
    }
    if let Some(link) = NEXT.iter().chain([&SPEEDS.1]).find_map(|start| in_run(start, 6)) {
        return Some(LinkValue::Link(6 + link));
    }
    if let Some(link) = in_run(&ECC, 13) {
        return Some(if link == 12 { LinkValue::AllLinks } else { LinkValue::Link(link) });
    }
    match field {
        // NVML_FI_DEV_NVLINK_LINK_COUNT, NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT.
        91 | 147 => Some(LinkValue::Count),
        // NVML_FI_DEV_NVLINK_THROUGHPUT_, _REMOTE_, _ERROR_, _GET_ and _COUNT_: the scope is the link, or all of them.
        138..=141 | 146 | 161..=168 | 200..=225 | 235..=250 => {
            Some(if scope < MOST_LINKS { LinkValue::Link(scope) } else { LinkValue::AllLinks })
        }
        _ => None,
    }
}

/// Returns the number of links of a device that are visible, and a denied pair because of which another link is hidden.
fn visible_links(device: u64) -> (u32, Option<usize>) {
    let mut which = None;
    let mut count = 0;
    for link in 0..MOST_LINKS {
        if ask::remote_address(device, link).is_some() {
            match pair_hiding_link(device, link) {
                Some(pair) => which = which.or(Some(pair)),
                None => count += 1,
            }
        }
    }
    (count, which)
}

/// Clears the field values of a device that describe hidden links. Returns a pair that hides one of them.
///
/// # Safety
///
/// `values` is null, or points to `count` values that NVML wrote.
pub unsafe fn hide_fields(device: u64, values: *mut nvmlFieldValue_t, count: i32) -> Option<usize> {
    pairs()?.find_entry_with(&devices::of_handle(device))?;
    let count = if values.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
    let mut changed = None;
    for i in 0..count {
        // SAFETY: the caller's promise.
        let value = unsafe { values.add(i) };
        // SAFETY: the caller promises that NVML wrote that many values there.
        let mut field = unsafe { value.read_unaligned() };
        let Some(about) = described_links(field.fieldId, field.scopeId) else { continue };
        if field.value_bits() == 0 {
            continue;
        }
        let (which, left) = match about {
            LinkValue::Link(link) => (pair_hiding_link(device, link), 0),
            LinkValue::AllLinks => match visible_links(device) {
                (0, which) => (which, 0),
                _ => (None, 0),
            },
            LinkValue::Count => {
                let (count, which) = visible_links(device);
                (which, u64::from(count))
            }
        };
        if let Some(which) = which.filter(|_| field.value_bits() != left) {
            field.value = left;
            // SAFETY: the caller promises that many values, and that NVML may write to them.
            unsafe { value.write_unaligned(field) };
            changed = changed.or(Some(which));
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_about_the_links_that_nvml_h_names() {
        for (field, scope, wanted) in [
            (31, 0, None),
            (32, 9, Some(LinkValue::Link(0))),
            (38, 0, Some(LinkValue::AllLinks)),
            (73, 0, Some(LinkValue::AllLinks)),
            (74, 0, None),
            (89, 0, Some(LinkValue::Link(5))),
            (90, 0, Some(LinkValue::AllLinks)),
            (91, 0, Some(LinkValue::Count)),
            (96, 0, Some(LinkValue::Link(6))),
            (131, 0, Some(LinkValue::Link(11))),
            (137, 0, Some(LinkValue::Link(11))),
            (138, 17, Some(LinkValue::Link(17))),
            (139, u32::MAX, Some(LinkValue::AllLinks)),
            (142, 0, None),
            (147, 0, Some(LinkValue::Count)),
            (159, 0, Some(LinkValue::Link(11))),
            (160, 0, Some(LinkValue::AllLinks)),
            (165, 4, Some(LinkValue::Link(4))),
            (169, 0, None),
            (170, 0, None),
            (202, 3, Some(LinkValue::Link(3))),
        ] {
            assert_eq!(described_links(field, scope), wanted, "{field} {scope}");
        }
    }
}
