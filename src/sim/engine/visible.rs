//! CUDA_VISIBLE_DEVICES: which devices of the machine a process sees, in which order.

use super::answer::{Answer, fail, refuse_if};
use cupeer_spec::results::Result as Code;
use cupeer_topology::Topology;

/// Returns the indices in the machine of the devices that CUDA_VISIBLE_DEVICES (`variable`) makes visible, in
/// its order.
///
/// An item is an index, or the first digits of a UUID, as many as name one device. If an item names no
/// device, all later items are ignored. An item that names the same device as another item is an error.
pub(crate) fn parse_visible_devices(machine: &Topology, variable: Option<&str>) -> Answer<Vec<usize>> {
    let Some(list) = variable else { return Ok((0..machine.devices.len()).collect()) };
    let mut chosen = Vec::new();
    for item in list.split(',') {
        match find_named_device(machine, item.trim()) {
            Some(index) if chosen.contains(&index) => return fail(Code::INVALID_DEVICE),
            Some(index) => chosen.push(index),
            None => break,
        }
    }
    refuse_if(chosen.is_empty(), Code::NO_DEVICE, "Unable to enumerate any CUDA-capable devices")?;
    Ok(chosen)
}

fn find_named_device(machine: &Topology, item: &str) -> Option<usize> {
    if item.starts_with("GPU-") {
        let mut matching = (0..machine.devices.len()).filter(|i| machine.devices[*i].uuid_text().starts_with(item));
        let first = matching.next()?;
        return matching.next().is_none().then_some(first);
    }
    // Only the leading digits count; the rest is ignored.
    let digits = item.len() - item.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    item[..digits].parse().ok().filter(|index| *index < machine.devices.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules() {
        let machine = Topology::parse("nvlink:4").unwrap();
        let uuid = machine.devices[2].uuid_text();
        let list = |text: &str| parse_visible_devices(&machine, Some(text)).map_err(|failure| failure.code);
        assert_eq!(parse_visible_devices(&machine, None), Ok(vec![0, 1, 2, 3]));
        assert_eq!(list("2,0"), Ok(vec![2, 0]));
        assert_eq!(list(" 1 , 3"), Ok(vec![1, 3]));
        assert_eq!(list("0x,1"), Ok(vec![0, 1]));
        assert_eq!(list(&format!("{uuid},1")), Ok(vec![2, 1]));
        assert_eq!(list(""), Err(Code::NO_DEVICE));
        assert_eq!(list("-1"), Err(Code::NO_DEVICE));
        assert_eq!(list("0,7,1"), Ok(vec![0]), "the first that names nothing ends the list");
        assert_eq!(list("1,NoDevFiles"), Ok(vec![1]));
        assert_eq!(list("0,0"), Err(Code::INVALID_DEVICE));
        assert_eq!(list("GPU-"), Err(Code::NO_DEVICE), "the first digits have to name one device");
    }
}
