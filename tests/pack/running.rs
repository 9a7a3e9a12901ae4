//! Packing while programs run, and what the library itself has recorded.

use super::{numbers, pack, report, text, with};
use crate::support::{compile_text, copy_program, done, sim_library, temp_dir};
use cupeer_record::Job;
use cupeer_record::writer::{self, About, Writer, call};
use cupeer_spec::function::FnId;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Unpacks as anybody can.
fn unpack(file: &Path, to: &Path) -> Job {
    fs::create_dir_all(to).unwrap();
    let done = Command::new("tar").arg("xzf").arg(file).arg("-C").arg(to).status();
    assert!(done.unwrap().success());
    Job::open(&to.join("cupeer-record")).unwrap()
}

/// The events of a stream of the record that grows.
const MOST: u64 = 40_000;

#[test]
fn a_record_that_grows_is_packed_without_a_gap() {
    let at = temp_dir();
    let directory = at.path().join("record");
    fs::create_dir(&directory).unwrap();
    writer::write_job_file(&directory).unwrap();
    let is_over = AtomicBool::new(false);
    /// Ends the writer, also where an assertion fails.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let _end = End(&is_over);
        scope.spawn(|| {
            let about = About { at_once: true, ..About::default() };
            let mut writer = Writer::create(&directory, about).unwrap();
            let streams = [1, 2, 3].map(|tid| writer.stream(tid).unwrap());
            for i in 0..MOST {
                for stream in streams {
                    let start = 2_000_000 + i * 100;
                    writer.call(stream, &call(FnId::cuDeviceCanAccessPeer, start, start + 1)).unwrap();
                }
                if is_over.load(Relaxed) {
                    break;
                }
            }
        });
        let mut longest = 0;
        for round in 0.. {
            // Until it has gone through many windows.
            if longest as u64 > MOST / 2 {
                break;
            }
            let file = at.path().join(format!("{round}.cupeer.tar.gz"));
            let ended = done(&mut with(&["pack", text(&directory), "-o", text(&file)]));
            if !ended.status.success() {
                assert!(ended.stderr.contains("holds no recording of a process"), "{}", ended.stderr);
                continue;
            }
            let job = unpack(&file, &at.path().join(round.to_string()));
            for (stream, numbers) in numbers(&job) {
                longest = longest.max(numbers.len());
                let whole = (0..numbers.len() as u64).eq(numbers.iter().copied());
                assert!(whole, "round {round}, {stream:?}: {numbers:?}");
            }
        }
    });
}

#[test]
fn functions_of_the_recorded_library_are_named_elsewhere() {
    const PROGRAM: &str = r#"
        #include <stdio.h>
        int cuInit(unsigned), cuDeviceCanAccessPeer(int *, int, int);
        __attribute__((noinline)) int ask_a_device(int peer) {
            int yes = 0, result = cuDeviceCanAccessPeer(&yes, 0, peer);
            return result + yes;
        }
        int main(void) {
            cuInit(0);
            printf("%d\n", ask_a_device(99));
            return 0;
        }
    "#;
    let at = temp_dir();
    let built = compile_text("asks", PROGRAM, &[text(&sim_library())]);
    let program = at.path().join("asks");
    copy_program(&built, &program);
    let directory = at.path().join("record");
    let ended = done(&mut with(&["run", "--sim", "--out", text(&directory), "--", text(&program)]));
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "101\n"), "{}", ended.stderr);
    let mut there = report(&directory);
    let source = there.as_object_mut().unwrap().remove("source_lines");
    assert!(source.is_some_and(|lines| lines[0]["text"].as_str().is_some_and(|text| text.contains("int yes"))));
    let caller = there["failures"][0]["caller"]["function"].as_str().unwrap_or_default();
    assert!(caller.starts_with("ask_a_device+0x"), "{there:#}");
    let (file, _) = pack(&directory, &[]);
    fs::remove_dir_all(&directory).unwrap();
    fs::remove_file(&program).unwrap();
    assert_eq!(report(&file), there);
}
