use super::*;

const P: Process = Process { pid: 4711, rank: Some(3) };

#[test]
fn sentences_have_their_values() {
    let uuid = [0xab; 16];
    let device = Device { ordinal: 1, uuid };
    for (reason, wanted) in [
        (Reason::IpcFlags { flags: 0, is_taken: false }, "Flags must be 1 (is 0)"),
        (
            Reason::UseBeyondEnd {
                name: "srcDevice",
                start: 0x7f0000000000,
                bytes: 4 << 20,
                beyond: 2 << 20,
                range: (0x7f0000000000, 2 << 20),
                handle: Some(Handle(0x1f)),
                is_foreign: true,
            },
            "srcDevice goes 2 MiB beyond memory that this process opened; the call uses 0x7f0000000000, 4 MiB; ipc:000000000000001f is open at 0x7f0000000000, 2 MiB",
        ),
        (
            Reason::UseBeyondEnd {
                name: "dstDevice",
                start: 0x7f00001ff800,
                bytes: 4096,
                beyond: 2048,
                range: (0x7f0000000000, 2 << 20),
                handle: None,
                is_foreign: true,
            },
            "dstDevice goes 2 KiB beyond memory that this process imported; the call uses 0x7f00001ff800, 4 KiB; the mapping is 0x7f0000000000, 2 MiB, and nothing is mapped behind it",
        ),
        (
            Reason::UseBehindEnd {
                name: "srcDevice",
                start: 0x7f0000201000,
                behind: 4096,
                range: (0x7f0000000000, 2 << 20),
                handle: None,
            },
            "srcDevice is 4 KiB behind memory that this process imported; nothing is at 0x7f0000201000; the mapping is 0x7f0000000000, 2 MiB",
        ),
        (
            Reason::UseWithoutAccess {
                name: "dstDevice",
                address: 0x7f0000000010,
                device,
                context: None,
                range: (0x7f0000000000, 2 << 20),
                is_granted: false,
                home: None,
            },
            "device 1 (abab..abab) has no access to dstDevice 0x7f0000000010; cuMemSetAccess was not called for it; the mapping is 0x7f0000000000, 2 MiB",
        ),
        (
            Reason::IpcFlags { flags: 0x5555_0010, is_taken: false },
            "Flags must be 1 (is 1431633936): the handle is probably passed by pointer, and must be passed by value; the driver then takes the pointer for Flags",
        ),
        (
            Reason::IpcInteriorPointer { address: 0x7f0000080000, base: 0x7f0000000000, bytes: 2 << 20 },
            "0x7f0000080000 is 524288 bytes into the 2 MiB allocation at 0x7f0000000000; the handle refers to the whole allocation, so the importer must add 524288 bytes",
        ),
        (
            Reason::IpcMemoryKind {
                address: 0x10,
                kind: MemoryKind::Virtual,
                handle_types: 9,
                because: Some("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
            },
            "cuIpcGetMemHandle cannot export 0x10, which is virtual memory; it comes from cuMemCreate and cuMemMap, with handle types POSIX_FILE_DESCRIPTOR and FABRIC; the cause is PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
        (
            Reason::IpcFreedWhileOpen {
                address: 0x10,
                bytes: 512,
                handle: Handle(1),
                importers: 3,
                first: P,
                uses: (0, 0),
            },
            "0x10 (512 bytes) was freed while open in process 4711 (rank 3) and 2 more processes; its handle is ipc:0000000000000001; using it is now undefined",
        ),
        (
            Reason::PeerUnreachable { from: device, to: Device { ordinal: -1, uuid } },
            "cuDeviceCanAccessPeer is 0 from device 1 (abab..abab) to GPU abab..abab",
        ),
        (
            Reason::DeviceOutOfRange { name: "peerDev", device: 4, count: 2, visible: Some("6,7") },
            "peerDev is 4, but this process sees devices 0 to 1 (CUDA_VISIBLE_DEVICES=6,7)",
        ),
    ] {
        assert_eq!(reason.to_string(), wanted);
    }
    assert_eq!([999_000, 3_240_000, 3_240_000_000].map(|ns| Ago(ns).to_string()), ["999 us", "3.2 ms", "3.2 s"]);
    assert_eq!(Count(2, "process").to_string() + &Count(1, "handle").to_string(), "2 processes1 handle");
}

#[test]
fn hints_know_the_values() {
    let reason = |because| Reason::IpcMemoryKind { address: 1, kind: MemoryKind::Pool, handle_types: 0, because };
    assert!(reason(Some("PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync")).hint().contains("backend:cudaMallocAsync"));
    assert!(reason(None).hint().contains("cuMemPoolExportPointer"));
    assert_eq!(Reason::PeerFlags { flags: 1 }.hint(), Rule::PeerFlags.spec().hint());
    let close = |inside, is_own| Reason::IpcCloseAddress { address: 16, inside, is_own, elsewhere: None }.hint();
    assert!(close(Some(8), false).contains("without an offset") && !close(None, true).contains("offset"));
    assert!(close(None, true).contains("cuMemFree") && !close(Some(8), false).contains("cuMemFree"));
    let had = |is_ended| HadContext::Here { context: 16, is_ended, has_closed: false };
    let without = |is_ended| Reason::NoCurrentContext { tid: 1, had: had(is_ended) }.hint();
    assert!(without(true).starts_with("Keep the context") && without(false).contains("PrimaryCtxRetain"));
    let export = |types| Reason::VmmHandleType { wanted: 1, types }.hint();
    assert!(export(None).starts_with("Pass on") && export(Some(0)).contains("requestedHandleTypes"));
}

#[test]
fn sizes_are_rounded() {
    let sizes = [0, 1023, 1024, 1536, (1 << 20) - 1, 600 << 20, 112_579_313_664, (1 << 30) - 1, 3 << 50];
    let texts = ["0 bytes", "1 KiB", "1 KiB", "1.5 KiB", "1 MiB", "600 MiB", "105 GiB", "1 GiB", "3 PiB"];
    assert_eq!(sizes.map(|size| Size(size).to_string()), texts);
}
