use super::*;
use cupeer_record::Outcome;
use cupeer_record::writer::{self, About, Writer};
use cupeer_spec::function::FnId::{self, *};
use cupeer_spec::record::Header;
use cupeer_spec::record::end::{EndSpan, RecordedEnd};

fn record(ring: Option<u32>, fill: impl FnOnce(&mut Writer, u32)) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    writer::write_job_file(folder.path()).unwrap();
    let mut writer = Writer::create(folder.path(), About { ring, ..About::default() }).unwrap();
    let stream = writer.stream(1000).unwrap();
    fill(&mut writer, stream);
    writer.finish().unwrap();
    let shown = folder.path().display().to_string();
    lines(folder.path(), "DIR").iter().map(|line| line.text.replace(&shown, "DIR")).collect()
}

fn fail(writer: &mut Writer, stream: u32, function: FnId, at: u64, result: i32) {
    let mut call = writer::call(function, at, at + 5);
    call.outcome = Outcome::Returned(result);
    writer.call(stream, &call).unwrap();
}

#[test]
fn handles_are_counted_and_not_openings() {
    let lines = record(None, |writer, stream| {
        let mut open = |at: u64, handle: u8, address: u64| {
            let mut call = writer::call(cuIpcOpenMemHandle_v2, at, at + 1);
            writer::set(&mut call, "handle", &[handle; 16]);
            writer::set(&mut call, "pdptr", &address.to_le_bytes());
            writer::set(&mut call, "Flags", &1u32.to_le_bytes());
            writer.call(stream, &call).unwrap();
        };
        (0..10).for_each(|i| open(10 + i, 1, 0x7000));
        open(30, 2, 0x8000);
        open(31, 3, 0x9000);
        let mut close = writer::call(cuIpcCloseMemHandle, 40, 41);
        writer::set(&mut close, "dptr", &0x8000u64.to_le_bytes());
        writer.call(stream, &close).unwrap();
    });
    assert_eq!(
        lines,
        [
            "1 process, 13 recorded calls, 0 failed; 'cupeer report DIR' shows them",
            "  2 of 3 memory handles were left open; --leaks shows where"
        ]
    );
}

#[test]
fn last_calls_of_a_ring_are_counted() {
    let calls = |count: u64| {
        let lines = record(Some(8), |writer, stream| {
            let call = |i| writer::call(cuCtxEnablePeerAccess, 10 * i, 10 * i + 5);
            for i in 1..=count {
                writer.call(stream, &call(i)).unwrap();
            }
        });
        lines.concat()
    };
    assert!(calls(10).starts_with("1 process, 10 recorded calls, 0 failed"), "it has them all");
    let many = calls(100_000);
    assert!(many.starts_with("1 process, the last ") && many.contains(" calls, 0 failed"), "{many}");
}

#[test]
fn releases_after_driver_shutdown_have_not_failed() {
    let lines = record(None, |writer, stream| {
        let late = [cuDevicePrimaryCtxRelease, cuMemFree_v2, cuIpcCloseMemHandle, cuIpcGetMemHandle];
        for (i, function) in late.into_iter().enumerate() {
            fail(writer, stream, function, 10 * i as u64, 4);
        }
        fail(writer, stream, cuIpcCloseMemHandle, 60, 1);
    });
    let failed: Vec<&str> = lines.iter().filter(|line| line.contains(" call")).map(|line| line.trim()).collect();
    let wanted = [
        "1 process, 5 recorded calls, 2 failed, 3 expected failures (results that programs ask for); 'cupeer report DIR' shows them",
        "cuIpcCloseMemHandle, 2 calls: 1 INVALID_VALUE",
        "cuIpcGetMemHandle, 1 call: 1 DEINITIALIZED",
    ];
    assert!(wanted.iter().all(|line| failed.contains(line)) && failed.len() == 3, "{lines:#?}");
}

#[test]
fn killed_processes_are_in_the_order_of_their_ends_and_not_of_their_last_calls() {
    let folder = tempfile::tempdir().unwrap();
    writer::write_job_file(folder.path()).unwrap();
    for (pid, at, ended) in [(1000, 10, 900), (1001, 500, 600)] {
        let mut writer = Writer::create(folder.path(), About { pid, ..About::default() }).unwrap();
        let stream = writer.stream(pid).unwrap();
        writer.call(stream, &writer::call(cuCtxEnablePeerAccess, at, at + 5)).unwrap();
        let kill = |header: &mut Header| {
            (header.end, header.ended) = (RecordedEnd::Signal(9).to_word(), EndSpan::at(ended));
        };
        writer.change_header(kill).unwrap();
        writer.finish().unwrap();
    }
    let lines = lines(folder.path(), "DIR");
    let killed: Vec<bool> = lines.iter().take(2).map(|line| line.text.starts_with("process 1001 ")).collect();
    assert_eq!(killed, [true, false], "{lines:?}");
}

#[test]
fn problems_are_styled_and_counts_are_not() {
    let of = |mark: Option<Emphasis>, text: &str| {
        SummaryLine { text: text.into(), emphasis: mark, is_about_problem: true }.format_highlighted(Style::Colored)
    };
    let finding = of(Some(Emphasis::Warning), "  warning x: a warning");
    assert_eq!(finding, "  \x1b[33mwarning\x1b[0m x: a warning");
    assert_eq!(of(Some(Emphasis::Error), "process 1 died"), "\x1b[31mprocess 1 died\x1b[0m");
    assert_eq!(of(None, "2 processes"), "2 processes");
    assert!(
        !SummaryLine::about_problem(Emphasis::Note, String::new()).is_about_problem
            && SummaryLine::about_problem(Emphasis::Warning, String::new()).is_about_problem
    );
}

#[test]
fn one_that_is_left_out_is_one() {
    let lines = record(None, |writer, stream| {
        let ipc = [cuIpcGetMemHandle, cuIpcGetEventHandle, cuIpcOpenEventHandle, cuIpcCloseMemHandle];
        for (i, function) in ipc.into_iter().chain([cuCtxEnablePeerAccess]).enumerate() {
            fail(writer, stream, function, 10 * i as u64, 1);
        }
    });
    assert_eq!(lines.last().unwrap(), "  and 1 more function that failed");
}
