//! Any file is a machine with devices of different UUIDs, or an error that names the file and a line of it.
#![no_main]

use cupeer_topology::Topology;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match Topology::parse_file("machine.toml", bytes) {
    Ok(machine) => {
        let devices = &machine.devices;
        assert!(!devices.is_empty() && devices.len() <= cupeer_topology::MOST_DEVICES);
        for (i, device) in devices.iter().enumerate() {
            assert_eq!(machine.index_of_uuid(&device.uuid), Some(i));
        }
    }
    Err(error) => assert!(error.to_string().starts_with("machine.toml"), "{error}"),
});
