//! Owners of memory.

use super::scene::{Actor, Scene};
use super::{json_of, of};
use cupeer_record::Library;
use serde_json::json;

/// Address of an allocator's library.
const ALLOCATOR: u64 = 0x77_0000;

/// Loads the library of an allocator.
fn load(actor: &mut Actor, path: &str) {
    let range = ALLOCATOR..ALLOCATOR + 0x1_0000;
    let library = Library { base: ALLOCATOR, range, since: 0, build_id: vec![0xef], path: path.into() };
    actor.writer().library(&library).expect("a library");
}

#[test]
fn the_library_that_exported_memory_tells_whose_it_is() {
    for (path, calls, wanted) in [
        ("/py/torch/lib/libc10_cuda.so", true, json!({ "name": "PyTorch's native allocator", "certainty": "certain" })),
        ("/py/cupy_backends/cuda/api/runtime.so", true, json!({ "name": "CuPy's pool", "certainty": "probable" })),
        ("/opt/lib/librmm.so", true, json!({ "name": "RMM's pool", "certainty": "probable" })),
        ("/py/torch/lib/libtorch_cuda.so", true, json!(null)),
        ("/opt/lib/libother.so", true, json!({ "name": "cudaMalloc", "certainty": "probable" })),
        // Another library that may have allocated it is loaded, and makes no call.
        ("/opt/lib/librmm.so", false, json!(null)),
    ] {
        let scene = Scene::new();
        let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
        load(&mut exporter, path);
        let mut call = exporter.exporting(100, 0x11, 0x7000);
        call.details.frames = vec![call.caller];
        call.details.frames.extend(calls.then_some(ALLOCATOR + 0x20));
        exporter.add(&call).free(900, 0x7000).ends();
        importer.open(200, 0x11, 0x9000).ends();
        let report = json_of(&scene, &[]);
        assert_eq!(report["handles"][0]["allocator"], wanted, "{path}");
        assert_eq!(report["leaks"][0]["allocator"], wanted, "{path}");
        let findings = report["findings"].as_array().expect("an array").iter();
        let mut objects = findings.flat_map(|finding| finding["objects"].as_array().into_iter().flatten());
        let export = objects.find(|object| object["role"] == "export").expect("an export");
        assert_eq!(export["allocator"], wanted, "{path}");
        let name = wanted["name"].as_str().filter(|name| *name != "cudaMalloc");
        let text = of(&scene, &["--leaks"]);
        assert!(name.is_none_or(|name| text.contains(&format!("2MiB of {name}"))), "{text}");
        assert!(name.is_some() || !text.contains("2MiB of"), "{text}");
    }
}
