//! Rules about multicast objects. Their source is only the documentation: they were never compared with a real driver.

macro_rules! multicast_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule MulticastUnsupported "multicast-unsupported" {
    says: "Multicast objects must be created only for, and joined only by, devices that support multicast.",
    functions: [cuMulticastCreate, cuMulticastAddDevice], results: [NOT_SUPPORTED],
    decided_by: multicast_unsupported,
    reasons: [MulticastUnsupported { device: Option<Device> }: ("{} does not support multicast; CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED is 0", Or(device, "a device"))],
    severity: Error, scope: Call, found: InFailures, tells: [],
    rests_on: Documented("cuMulticastCreate", "Support for multicast on a specific device can be queried using the device attribute CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED"),
    cause: "a device does not support multicast",
    ruled_out: "all devices of this process support multicast",
    hint: "Query CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED of each device first (cuDeviceGetAttribute), and do not use multicast if one returns 0. Multicast needs NVSwitches and a running Fabric Manager.",
    seen: "NCCL#1788",
}
rule MulticastGranularity "multicast-granularity" {
    says: "Sizes and offsets of multicast objects must be multiples of their granularity.",
    functions: [cuMulticastCreate, cuMulticastBindMem, cuMulticastBindMem_v2, cuMulticastBindAddr, cuMulticastBindAddr_v2, cuMulticastUnbind],
    results: [INVALID_VALUE],
    decided_by: multicast_granularity,
    reasons: [MulticastGranularity { name: &'a str, value: u64, granularity: u64 }: ("{name} is {value}, which is not a multiple of the granularity ({})", Bytes(granularity))],
    severity: Error, scope: Call, found: InFailures, tells: [],
    rests_on: Documented("cuMulticastCreate", "This size must be a multiple of the value returned by cuMulticastGetGranularity with the flag CU_MULTICAST_GRANULARITY_MINIMUM."),
    cause: "a size or an offset is not a multiple of the granularity",
    ruled_out: "sizes and offsets are multiples of the granularity",
    hint: "Round sizes and offsets up to a multiple of the granularity that cuMulticastGetGranularity returns for the same properties. Allocate the bound memory in these sizes.",
}
rule MulticastDevice "multicast-device" {
    says: "A device must be added to a multicast object once, and no more devices than the object was created for.",
    functions: [cuMulticastAddDevice], results: [INVALID_VALUE, ILLEGAL_STATE],
    decided_by: multicast_device,
    reasons: [MulticastDevice { device: Device, wanted: Option<u32> }: (if let Some(wanted) = wanted => "the multicast object was created for {}, which this process has already added; {device} is one too many", Count(u64::from(wanted), "device");
            "this process has added {device} to the multicast object already")],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Documented("cuMulticastAddDevice", "The association of the device to the multicast object is permanent during the life time of the multicast object."),
    costs: "The call fails; if another device is missing because this one was added twice, every process that binds memory waits forever.",
    cause: "the device was added already, or the object has all its devices",
    ruled_out: "this process has not added the device, and the object is not known to have all its devices",
    hint: "In each process, add the devices that it uses once. Set numDevices of cuMulticastCreate to the number of devices of all processes together.",
}
rule MulticastMemory "multicast-memory" {
    says: "Memory must be bound only to a multicast object that its device was added to.",
    functions: [cuMulticastBindMem, cuMulticastBindMem_v2, cuMulticastBindAddr, cuMulticastBindAddr_v2],
    results: [INVALID_DEVICE, INVALID_VALUE],
    decided_by: multicast_memory,
    reasons: [
        MulticastMemory { device: Device }: ("the memory is on {device}, which is not in the multicast object; this process has not added it"),
        MulticastOtherMemory { device: Device, home: Device }: ("memory on {home} is bound for {device}"),
    ],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Documented("cuMulticastBindMem", "The memory allocation must have been created on one of the devices that was added to the multicast team via cuMulticastAddDevice."),
    costs: "The call fails, with CUDA_ERROR_INVALID_DEVICE or CUDA_ERROR_INVALID_VALUE.",
    cause: "the memory is on a device that was not added",
    ruled_out: "the device of the memory was added, or the device of the memory is unknown",
    hint: "Add the memory's device with cuMulticastAddDevice in the process that binds, or bind memory of a device that was added.",
}
rule MulticastHandleType "multicast-handle-type" {
    says: "Only exportable memory must be bound to a multicast object that is exportable or imported.",
    functions: [cuMulticastBindMem, cuMulticastBindMem_v2, cuMulticastBindAddr, cuMulticastBindAddr_v2],
    results: [INVALID_VALUE],
    decided_by: multicast_handle_type,
    reasons: [MulticastHandleType { is_imported: bool }: ("the memory has handle types NONE, but the multicast object {}", if is_imported { "was imported" } else { "has handle types" })],
    severity: Error, scope: Process, found: InFailures, tells: [],
    rests_on: Documented("cuMulticastBindMem", "Externally shareable as well as imported multicast objects can be bound only to externally shareable memory."),
    cause: "the memory was created without handle types",
    ruled_out: "the memory has handle types, or the object has none",
    hint: "Set requestedHandleTypes in the CUmemAllocationProp of cuMemCreate to the handle types of the multicast object, even if the memory itself is never exported.",
}
rule MulticastIncomplete "multicast-incomplete" {
    says: "All devices must be added to a multicast object before a process binds memory to it.",
    functions: [cuMulticastBindMem, cuMulticastBindMem_v2, cuMulticastBindAddr, cuMulticastBindAddr_v2],
    reasons: [MulticastIncomplete { added: u32, wanted: u32 }: ("the call has not returned: it waits until {} are added to the multicast object, but only {added} {}", Count(u64::from(wanted), "device"), if added == 1 { "is" } else { "are" })],
    severity: Warning, scope: Processes, found: InRecordings, tells: [],
    rests_on: Documented("cuMulticastAddDevice", "Any calls to cuMulticastBindMem, cuMulticastBindMem_v2, cuMulticastBindAddr, or cuMulticastBindAddr_v2 will block until all devices have been added."),
    costs: "The call waits forever, without a message, and so does every process that waits for this one.",
    hint: "Bind only after all processes have confirmed that their cuMulticastAddDevice succeeded. If it failed in any process, release the object in all of them. Set numDevices of cuMulticastCreate to the number of devices that are added.",
    seen: "torchcomms#2773, NCCL#1672",
}
    } };
}
