//! Use of the memory of all devices, by process, as NVML reports it.

use super::{list_device_handles, query_text};
use crate::call;
use crate::library::{Device, query_device_value, start_nvml};
use cupeer_record::{MemoryHolder, MemorySample, alive, host, sample};
use libloading::os::unix::Library as Handle;
use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::mem::ManuallyDrop;

/// Maximum number of processes of a device that NVML lists; with more processes, it lists none.
const MOST_PROCESSES: usize = 4096;
/// NVML_VALUE_NOT_AVAILABLE.
const NOT_AVAILABLE: u64 = u64::MAX;
/// Version field of nvmlMemory_v2_t in the format of nvml.h: the size of the structure, and the number 2.
const MEMORY_V2: u64 = 40 | 2 << 24;
/// Kinds of processes in the names of NVML's functions. A process that both computes and draws is of two kinds, with the
/// same memory.
const PROCESS_KINDS: [&str; 3] = ["Compute", "Graphics", "MPSCompute"];
/// Suffixes of the functions that list processes, and the number of 8-byte words for each process: pid, bytes and, except
/// in the first version, a MIG instance.
const LIST_FUNCTION_VERSIONS: [(&str, usize); 3] = [("_v3", 3), ("_v2", 3), ("", 2)];

/// NVML, loaded and initialized in this process.
pub struct LoadedNvml(ManuallyDrop<Handle>);

impl LoadedNvml {
    pub fn load() -> Result<LoadedNvml, String> {
        start_nvml().map(LoadedNvml)
    }

    /// Returns a sample of the memory of each device, or of each MIG instance if the device is partitioned.
    pub fn take_samples(&self) -> Result<Vec<MemorySample>, String> {
        let boot_id = host::boot_id().unwrap_or_default();
        let devices = list_device_handles(&self.0)?.into_iter().flat_map(|device| self.list_mig_instances(device));
        let sample = |device| {
            let uuid = cupeer_spec::uuid::parse_uuid(&query_text(&self.0, "nvmlDeviceGetUUID", device).ok()?)?;
            let [total, used, free] = self.query_memory(device)?;
            let holder = |(pid, bytes): (u32, u64)| {
                let (process, name) = alive::process_of_driver_pid(pid).unzip();
                let bytes = (bytes != NOT_AVAILABLE).then_some(bytes);
                MemoryHolder { pid, process, bytes, name: name.unwrap_or_default() }
            };
            let holders = self.query_processes(device).map(|all| all.into_iter().map(holder).collect());
            Some(MemorySample { boot_id, at: sample::sample_time(), device: uuid, total, used, free, holders })
        };
        Ok(devices.filter_map(sample).collect())
    }

    /// Returns the MIG instances of a device, or the device itself if it has none.
    fn list_mig_instances(&self, device: Device) -> Vec<Device> {
        let count: c_uint = query_device_value(&self.0, "nvmlDeviceGetMaxMigDeviceCount", device).unwrap_or(0);
        let instance = |index| {
            let mut instance = Device::NONE;
            call!(&self.0, "nvmlDeviceGetMigDeviceHandleByIndex",
                (device => Device, index => c_uint, &mut instance => *mut Device))
            .ok()
            .map(|()| instance)
        };
        let instances = (0..count).filter_map(instance).collect::<Vec<_>>();
        if instances.is_empty() { vec![device] } else { instances }
    }

    /// Returns the total, used, and free bytes of a device. This version of the query does not count reserved memory as
    /// used; nvidia-smi uses it, too.
    fn query_memory(&self, device: Device) -> Option<[u64; 3]> {
        let mut words = [MEMORY_V2, 0, 0, 0, 0];
        let asked = call!(&self.0, "nvmlDeviceGetMemoryInfo_v2", (device => Device, words.as_mut_ptr() => *mut u64));
        if asked.is_ok() {
            let [_, total, _, free, used] = words;
            return Some([total, used, free]);
        }
        let [total, free, used] = query_device_value(&self.0, "nvmlDeviceGetMemoryInfo", device).ok()?;
        Some([total, used, free])
    }

    /// Returns the processes that use memory of a device, each with its number of bytes; `None` if NVML cannot list
    /// processes of any kind.
    fn query_processes(&self, device: Device) -> Option<BTreeMap<u32, u64>> {
        let lists = PROCESS_KINDS.iter().filter_map(|kind| {
            let list = |(version, words): &(&str, usize)| {
                let function = format!("nvmlDeviceGet{kind}RunningProcesses{version}");
                self.query_process_list(device, &function, *words)
            };
            LIST_FUNCTION_VERSIONS.iter().find_map(list)
        });
        lists.reduce(|mut all, more| {
            all.extend(more);
            all
        })
    }

    fn query_process_list(&self, device: Device, function: &str, words: usize) -> Option<BTreeMap<u32, u64>> {
        let (mut count, mut buffer) = (MOST_PROCESSES as c_uint, vec![0u64; words * MOST_PROCESSES]);
        call!(&self.0, function, (device => Device, &mut count => *mut c_uint, buffer.as_mut_ptr() => *mut u64))
            .ok()?;
        // The pid is the lower half of its word; the upper half is padding.
        let process =
            |words: &[u64]| (u32::from_ne_bytes(words[0].to_ne_bytes()[..4].try_into().unwrap_or_default()), words[1]);
        Some(buffer.chunks_exact(words).take(count as usize).map(process).collect())
    }
}
