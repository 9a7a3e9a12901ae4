//! CUDA_VISIBLE_DEVICES: which devices of the machine a process sees, in which order.

use cupeer_topology::Topology;

/// The physical indices that the variable leaves, in its order.
///
/// Items are indices or UUIDs, of which the first digits suffice where they name one device. The first item
/// that names none hides itself and all after it. A device that is named twice hides everything.
pub(crate) fn visible(machine: &Topology, variable: Option<&str>) -> Vec<usize> {
    let Some(list) = variable else { return (0..machine.devices().len()).collect() };
    let mut chosen = Vec::new();
    for item in list.split(',') {
        match named(machine, item.trim()) {
            Some(index) if chosen.contains(&index) => return Vec::new(),
            Some(index) => chosen.push(index),
            None => break,
        }
    }
    chosen
}

fn named(machine: &Topology, item: &str) -> Option<usize> {
    if item.starts_with("GPU-") {
        let mut matching =
            (0..machine.devices().len()).filter(|i| machine.devices()[*i].uuid_text().starts_with(item));
        let first = matching.next()?;
        return matching.next().is_none().then_some(first);
    }
    item.parse().ok().filter(|index| *index < machine.devices().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules() {
        let machine = Topology::parse("nvlink:4").unwrap();
        let uuid = machine.devices()[2].uuid_text();
        let list = |text: &str| visible(&machine, Some(text));
        assert_eq!(visible(&machine, None), [0, 1, 2, 3]);
        assert_eq!(list("2,0"), [2, 0]);
        assert_eq!(list(" 1 , 3"), [1, 3]);
        assert_eq!(list(&format!("{uuid},1")), [2, 1]);
        assert_eq!(list(""), [0; 0]);
        assert_eq!(list("-1"), [0; 0]);
        assert_eq!(list("0,7,1"), [0], "the first that names nothing ends the list");
        assert_eq!(list("1,NoDevFiles"), [1]);
        assert_eq!(list("0,0"), [0; 0], "a device named twice hides everything");
        assert_eq!(list("GPU-"), [0; 0], "the first digits have to name one device");
    }
}
