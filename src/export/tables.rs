//! The tables, each with its columns and what they mean. `docs/reference/tables.md` is made of them.
//!
//! A column that was there once stays, with its name, its type and its meaning: other people's queries name it. New ones
//! are added at the end of their table, and to `columns.txt` here; a test holds us to that.

use crate::table::table;

table! {
    /// Processes of the job.
    Processes: Process<'a> = "process" of processes: true, sorted by began_ns {
        /// Start of its recording, as `start_ns`.
        began_ns: i64,
        /// Pid of its parent.
        ppid: i32,
        /// Inode of its pid namespace.
        pid_ns: i64,
        /// Program.
        program: &'a str,
        /// Arguments, starting with the program's name: a JSON array of strings.
        arguments: &'a str,
        /// Environment variables that decide what CUDA programs do: a JSON object of strings.
        variables: &'a str,
        /// Extent of the recording: all calls (`full`), or the last ones (`ring`).
        mode: &'a str,
        /// Number of its rows in the table `call`.
        calls: i64,
        /// Number of its rows in the table `mark`.
        marks: i64,
        /// Number of calls and marks that could not be recorded.
        lost: i64,
        /// Number of calls that a fault plan changed, delayed, held, or ended.
        injected: i64,
        /// How the process ended: `returned`, `signal`, `died`, `executed`, `gone`, `unseen`, or `running`.
        exit: &'a str,
        /// Exit status; null if it has none.
        exit_code: Option<i32>,
        /// Number of the signal that ended the process; null if none did.
        exit_signal: Option<i32>,
        /// How much of the process could be read: `whole`; `running`, everything up to now; `ring`, its last calls; `lost`,
        /// without the calls that could not be recorded; `cut`, the rest of a damaged file.
        looked: &'a str,
        /// Problem with its file; null if there is none.
        problem: Option<&'a str>,
        /// How calls of its libraries bypassed cupeer: a JSON array of strings; null if none is known.
        escaped: Option<&'a str>,
    }
}

table! {
    /// Recorded calls.
    Calls: Call<'a> = "call" of processes: true, sorted by time_ns {
        /// Time at which the call was forwarded.
        time_ns: i64,
        /// Duration of the call; null if it has not returned.
        duration_ns: Option<i64>,
        /// Thread that made the call.
        tid: i32,
        /// Stream of the recording that contains the call.
        stream: i32,
        /// Number of the call in that stream.
        seq: i64,
        /// Library of the function: `cuda`, `nvml`, or `cudart`.
        library: &'a str,
        /// Function that was called.
        function: &'a str,
        /// How the call ended: `returned`, `pending` (it has not), or `unwound`: left by an exception, a cancellation, or a jump.
        outcome: &'a str,
        /// Name of the result, or its number; null if there is none.
        result: Option<&'a str>,
        /// True if the result came from a fault plan instead of the driver.
        injected: bool,
        /// Fault of a plan that set the result, or that holds the call.
        injected_by: Option<&'a str>,
        /// Fingerprint of the handle that the call exported or opened.
        fingerprint: Option<&'a str>,
        /// Object that the call exported, opened, closed, created, or ended: an address, an event, or a handle of the process.
        address: Option<i64>,
        /// Size of the object in bytes: of the allocation, or the size that was requested.
        bytes: Option<i64>,
        /// Device of the current context, numbered as in the process; see the table `device`.
        device: Option<i32>,
        /// Device of the other context; null if there is none.
        peer_device: Option<i32>,
        /// Call stack, in the table `stack`.
        stack: Option<i64>,
        /// Message of the driver about the call.
        message: Option<&'a str>,
        /// True if the failure is expected: enabling something that is enabled, releasing at exit something that is released, or
        /// the answer to a probe that the call alone shows.
        is_usual: bool,
        /// How many calls the row stands for: this one, and those of its thread that failed in the same way after it and have no
        /// rows of their own.
        calls: i64,
        /// When the last of them returned; null where it is one call.
        calls_until_ns: Option<i64>,
    }
}

table! {
    /// Handles: everything that was exported, or opened without a known export, with its state.
    Objects: Object<'a> = "object" of processes: false, sorted by time_ns {
        /// Time of the first export or, if no export is known, of the first open.
        time_ns: i64,
        /// Fingerprint of the handle.
        fingerprint: &'a str,
        /// Kind of object: `memory`, `event`, `allocation`, `pool`, or `pool pointer`.
        kind: &'a str,
        /// State of the handle, as in the report: the worst state of all processes that opened it.
        state: &'a str,
        /// UUID of the device.
        device: Option<&'a str>,
        /// Size of the allocation in bytes.
        bytes: Option<i64>,
        /// Allocator of the memory; null if it is unknown.
        allocator: Option<&'a str>,
        /// Time of the first export.
        exported_ns: Option<i64>,
        /// Number of exports.
        exports: i64,
        /// Time at which its allocation was freed or released, or the event destroyed.
        freed_ns: Option<i64>,
        /// Function that freed, released, or destroyed it.
        freed_by: Option<&'a str>,
        /// Fingerprint of the handle that this one is a damaged copy of; null otherwise.
        damaged_from: Option<&'a str>,
        /// Number of its rows in the table `opening`.
        openings: i64,
        /// Number of failed calls that tried to open it.
        failed: i64,
    }
}

table! {
    /// Open handles: one row from the call that opens a handle until the process has closed it as often as it opened it. The
    /// process is the importer.
    Openings: Opening<'a> = "opening" of processes: true, sorted by opened_ns {
        /// Time at which it was opened.
        opened_ns: i64,
        /// Time at which it was closed; null if it was not.
        closed_ns: Option<i64>,
        /// Function that closed it.
        closed_by: Option<&'a str>,
        /// Thread that opened it.
        tid: i32,
        /// Fingerprint of the handle.
        fingerprint: &'a str,
        /// Kind of object, as in the table `object`.
        kind: &'a str,
        /// State of this open handle, as in the report.
        state: &'a str,
        /// UUID of the device of the importer's context.
        device: Option<&'a str>,
        /// Number of times that the handle was opened in that time.
        times: i64,
        /// Number of earlier rows of the same process that are left out.
        earlier: i64,
        /// Size of the allocation in bytes.
        bytes: Option<i64>,
        /// Allocator of the memory; null if it is unknown.
        allocator: Option<&'a str>,
        /// Process that exported it; null if it is unknown.
        exporter_proc: Option<&'a str>,
        /// Host of the exporter.
        exporter_host: Option<&'a str>,
        /// Pid of the exporter.
        exporter_pid: Option<i32>,
        /// Rank of the exporter.
        exporter_rank: Option<i32>,
        /// UUID of the exporter's device.
        exporter_device: Option<&'a str>,
    }
}

table! {
    /// Findings: one row for all findings of one rule and one function, with one result and from one place, over all
    /// processes. The process is that of the first finding.
    Findings: Finding<'a> = "finding" of processes: true, sorted by time_ns {
        /// Start of the call of the first finding.
        time_ns: i64,
        /// Start of the call of the last finding.
        last_ns: i64,
        /// Rule; `cupeer explain RULE` describes it.
        rule: &'a str,
        /// Severity: `error`, `warning`, or `note`.
        severity: &'a str,
        /// Confidence: `certain`, `stale`, or `inferred`.
        confidence: &'a str,
        /// Function that was called.
        function: &'a str,
        /// Argument that the finding is about; null if it is about none.
        argument: Option<&'a str>,
        /// Name of the result, or its number; null if the call has not returned.
        result: Option<&'a str>,
        /// Thread of the first finding.
        tid: i32,
        /// Number of the call of the first finding in its stream.
        seq: i64,
        /// Number of findings.
        times: i64,
        /// Number of processes that have the finding.
        processes: i64,
        /// Ranks that have the finding: a JSON array of numbers.
        ranks: &'a str,
        /// Message, with the values of the first finding.
        message: &'a str,
        /// Source of the rule: a sentence of the documentation, or an observation.
        sentence: Option<&'a str>,
        /// Hint.
        hint: &'a str,
        /// Message of the driver about the first finding.
        driver_message: Option<&'a str>,
        /// Call stack of the first finding, in the table `stack`.
        stack: Option<i64>,
    }
}

table! {
    /// Call stacks: one row per frame, the caller first.
    Stacks: Stack = "stack" of processes: true, sorted by stack {
        /// Number of the stack, unique in the job.
        stack: i64,
        /// Position of the frame in the stack, from 0.
        depth: i32,
        /// Number of the frame in the table `frame`.
        frame: i64,
        /// True if the report shows this frame as the caller: the first one outside the CUDA runtime.
        is_caller: bool,
    }
}

table! {
    /// Frames of call stacks, each once per host. The process is the first one that has the frame.
    Frames: Frame<'a> = "frame" of processes: true, sorted by frame {
        /// Number of the frame, unique in the job.
        frame: i64,
        /// Path of the library.
        library: Option<&'a str>,
        /// Build id of the library in hexadecimal digits.
        build_id: Option<&'a str>,
        /// Offset in the library; the address if the library is unknown.
        library_offset: i64,
        /// Function; null without symbols.
        function: Option<&'a str>,
        /// Source file; null without debugging information.
        file: Option<&'a str>,
        /// Line in the source file.
        line: Option<i32>,
        /// Python file of the line that led to this frame.
        python_file: Option<&'a str>,
        /// Line in the Python file.
        python_line: Option<i32>,
        /// Python function.
        python_function: Option<&'a str>,
    }
}

table! {
    /// Marks that programs set with `cupeer_mark`.
    Marks: Mark<'a> = "mark" of processes: true, sorted by time_ns {
        /// Time of the mark.
        time_ns: i64,
        /// Thread that made the call.
        tid: i32,
        /// Text of the mark.
        text: &'a str,
    }
}

table! {
    /// Faults of fault plans: one row per fault, over all processes and hosts.
    Faults: Fault<'a> = "fault" of processes: false, sorted by time_ns {
        /// Time at which it first fired, if the report shows it; otherwise the start of the recording.
        time_ns: i64,
        /// Name of its plan.
        plan: &'a str,
        /// Name of the fault, which `injected_by` refers to.
        name: &'a str,
        /// Text of the fault; null for a plan that a program armed itself.
        rule: Option<&'a str>,
        /// Number of calls that matched its conditions.
        matched: Option<i64>,
        /// Number of calls at which it fired or, in a dry run, would have fired.
        fired: i64,
        /// Number of processes under its plan.
        processes: i64,
        /// True if this was a dry run.
        is_dry_run: bool,
    }
}

table! {
    /// Devices, as each process sees them.
    Devices: Device<'a> = "device" of processes: true, sorted by began_ns {
        /// Start of the recording of the process, as `start_ns`.
        began_ns: i64,
        /// Number of the device in the process.
        ordinal: i32,
        /// UUID of the device.
        uuid: &'a str,
        /// PCI address of the device.
        pci: &'a str,
        /// Name of the device.
        name: &'a str,
    }
}

table! {
    /// Pairs of devices: what each process did from one device to another.
    Pairs: Pair<'a> = "pair" of processes: true, sorted by began_ns {
        /// Start of the recording of the process, as `start_ns`.
        began_ns: i64,
        /// UUID of the device that accesses.
        from_device: Option<&'a str>,
        /// UUID of the device whose memory is accessed.
        to_device: Option<&'a str>,
        /// Number of queries about the pair.
        asked: i64,
        /// Result of the last query; null without a query.
        can_access: Option<bool>,
        /// True if the process ever enabled access.
        enabled: bool,
        /// Time at which it last enabled access.
        enabled_ns: Option<i64>,
        /// Time at which access was disabled again.
        disabled_ns: Option<i64>,
        /// Number of mappings that got access.
        mappings: i64,
        /// Number of mappings that still have access at the end.
        mappings_now: i64,
        /// Number of failed queries, enables, and disables.
        failed: i64,
        /// Number of calls about the pair whose result a fault plan set.
        injected: i64,
        /// Number of times that the process opened IPC memory across the pair.
        opened: i64,
        /// Number of those attempts that failed.
        open_failed: i64,
        /// Number of copies from the memory of the first device to that of the second.
        copies: i64,
        /// Bytes of these copies.
        copied_bytes: i64,
    }
}
