//! The tables, each with its columns and what they mean. `docs/reference/tables.md` is made of them.
//!
//! A column that was there once stays, with its name, its type and its meaning: other people's queries name it. New ones
//! are added at the end of their table, and to `columns.txt` here; a test holds us to that.

use crate::cells::{Flag, Int, Kind, Long, Maybe, Monotonic, Text};
use crate::table::table;

table! {
    /// Processes of the job.
    Processes, Process = "process" of processes sorted by began_ns {
        /// Start of its recording, as `start_ns`.
        began_ns: Monotonic,
        /// Pid of its parent.
        ppid: Int,
        /// Inode of its pid namespace.
        pid_ns: Long,
        /// Program.
        program: Text,
        /// Arguments, starting with the program's name: a JSON array of strings.
        arguments: Text,
        /// Environment variables that decide what CUDA programs do: a JSON object of strings.
        variables: Text,
        /// Extent of the recording: all calls (`full`), or the last ones (`ring`).
        mode: Text,
        /// Number of its rows in the table `call`.
        calls: Long,
        /// Number of its rows in the table `mark`.
        marks: Long,
        /// Number of calls and marks that could not be recorded.
        lost: Long,
        /// Number of calls that a fault plan changed, delayed, held, or ended.
        injected: Long,
        /// How the process ended: `returned`, `signal`, `died`, `executed`, `gone`, `unseen`, or `running`.
        exit: Text,
        /// Exit status; null if it has none.
        exit_code: Maybe<Int>,
        /// Number of the signal that ended the process; null if none did.
        exit_signal: Maybe<Int>,
        /// How much of the process could be read: `whole`; `running`, everything up to now; `ring`, its last calls; `lost`,
        /// without the calls that could not be recorded; `cut`, the rest of a damaged file.
        looked: Text,
        /// Problem with its file; null if there is none.
        problem: Maybe<Text>,
        /// How calls of its libraries bypassed cupeer: a JSON array of strings; null if none is known.
        escaped: Maybe<Text>,
    }
}

table! {
    /// Recorded calls.
    Calls, Call = "call" of processes sorted by time_ns {
        /// Time at which the call was forwarded.
        time_ns: Monotonic,
        /// Duration of the call; null if it has not returned.
        duration_ns: Maybe<Monotonic>,
        /// Thread that made the call.
        tid: Int,
        /// Stream of the recording that contains the call.
        stream: Int,
        /// Number of the call in that stream.
        seq: Monotonic,
        /// Library of the function: `cuda`, `nvml`, or `cudart`.
        library: Text,
        /// Function that was called.
        function: Text,
        /// How the call ended: `returned`, `pending` (it has not), or `unwound`: left by an exception, a cancellation, or a jump.
        outcome: Text,
        /// Name of the result, or its number; null if there is none.
        result: Maybe<Text>,
        /// True if the result came from a fault plan instead of the driver.
        injected: Flag,
        /// Fault of a plan that set the result, or that holds the call.
        injected_by: Maybe<Text>,
        /// Fingerprint of the handle that the call exported or opened.
        fingerprint: Maybe<Text>,
        /// Object that the call exported, opened, closed, created, or ended: an address, an event, or a handle of the process.
        address: Maybe<Long>,
        /// Size of the object in bytes: of the allocation, or the size that was requested.
        bytes: Maybe<Long>,
        /// Device of the current context, numbered as in the process; see the table `device`.
        device: Maybe<Int>,
        /// Device of the other context; null if there is none.
        peer_device: Maybe<Int>,
        /// Call stack, in the table `stack`.
        stack: Maybe<Long>,
        /// Message of the driver about the call.
        message: Maybe<Text>,
        /// True if the failure is expected: enabling something that is enabled, releasing at exit something that is released, or
        /// the answer to a probe that the call alone shows.
        is_usual: Flag,
        /// How many calls the row stands for: this one, and those of its thread that failed in the same way after it and have no
        /// rows of their own.
        calls: Long,
        /// When the last of them returned; null where it is one call.
        calls_until_ns: Maybe<Long>,
    }
}

table! {
    /// Handles: everything that was exported, or opened without a known export, with its state.
    Objects, Object = "object" of anything sorted by time_ns {
        /// Time of the first export or, if no export is known, of the first open.
        time_ns: Monotonic,
        /// Fingerprint of the handle.
        fingerprint: Text,
        /// Kind of object: `memory`, `event`, `allocation`, `pool`, or `pool pointer`.
        kind: Text,
        /// State of the handle, as in the report: the worst state of all processes that opened it.
        state: Text,
        /// UUID of the device.
        device: Maybe<Text>,
        /// Size of the allocation in bytes.
        bytes: Maybe<Long>,
        /// Allocator of the memory; null if it is unknown.
        allocator: Maybe<Text>,
        /// Time of the first export.
        exported_ns: Maybe<Long>,
        /// Number of exports.
        exports: Long,
        /// Time at which its allocation was freed or released, or the event destroyed.
        freed_ns: Maybe<Long>,
        /// Function that freed, released, or destroyed it.
        freed_by: Maybe<Text>,
        /// Fingerprint of the handle that this one is a damaged copy of; null otherwise.
        damaged_from: Maybe<Text>,
        /// Number of its rows in the table `opening`.
        openings: Long,
        /// Number of failed calls that tried to open it.
        failed: Long,
    }
}

table! {
    /// Open handles: one row from the call that opens a handle until the process has closed it as often as it opened it. The
    /// process is the importer.
    Openings, Opening = "opening" of processes sorted by opened_ns {
        /// Time at which it was opened.
        opened_ns: Monotonic,
        /// Time at which it was closed; null if it was not.
        closed_ns: Maybe<Long>,
        /// Function that closed it.
        closed_by: Maybe<Text>,
        /// Thread that opened it.
        tid: Int,
        /// Fingerprint of the handle.
        fingerprint: Text,
        /// Kind of object, as in the table `object`.
        kind: Text,
        /// State of this open handle, as in the report.
        state: Text,
        /// UUID of the device of the importer's context.
        device: Maybe<Text>,
        /// Number of times that the handle was opened in that time.
        times: Long,
        /// Number of earlier rows of the same process that are left out.
        earlier: Long,
        /// Size of the allocation in bytes.
        bytes: Maybe<Long>,
        /// Allocator of the memory; null if it is unknown.
        allocator: Maybe<Text>,
        /// Process that exported it; null if it is unknown.
        exporter_proc: Maybe<Text>,
        /// Host of the exporter.
        exporter_host: Maybe<Text>,
        /// Pid of the exporter.
        exporter_pid: Maybe<Int>,
        /// Rank of the exporter.
        exporter_rank: Maybe<Int>,
        /// UUID of the exporter's device.
        exporter_device: Maybe<Text>,
    }
}

table! {
    /// Findings: one row for all findings of one rule and one function, with one result and from one place, over all
    /// processes. The process is that of the first finding.
    Findings, Finding = "finding" of processes sorted by time_ns {
        /// Start of the call of the first finding.
        time_ns: Monotonic,
        /// Start of the call of the last finding.
        last_ns: Long,
        /// Rule; `cupeer explain RULE` describes it.
        rule: Text,
        /// Severity: `error`, `warning`, or `note`.
        severity: Text,
        /// Confidence: `certain`, `stale`, or `inferred`.
        confidence: Text,
        /// Function that was called.
        function: Text,
        /// Argument that the finding is about; null if it is about none.
        argument: Maybe<Text>,
        /// Name of the result, or its number; null if the call has not returned.
        result: Maybe<Text>,
        /// Thread of the first finding.
        tid: Int,
        /// Number of the call of the first finding in its stream.
        seq: Long,
        /// Number of findings.
        times: Long,
        /// Number of processes that have the finding.
        processes: Long,
        /// Ranks that have the finding: a JSON array of numbers.
        ranks: Text,
        /// Message, with the values of the first finding.
        message: Text,
        /// Source of the rule: a sentence of the documentation, or an observation.
        sentence: Maybe<Text>,
        /// Hint.
        hint: Text,
        /// Message of the driver about the first finding.
        driver_message: Maybe<Text>,
        /// Call stack of the first finding, in the table `stack`.
        stack: Maybe<Long>,
    }
}

table! {
    /// Call stacks: one row per frame, the caller first.
    Stacks, Stack = "stack" of processes sorted by stack {
        /// Number of the stack, unique in the job.
        stack: Monotonic,
        /// Position of the frame in the stack, from 0.
        depth: Int,
        /// Number of the frame in the table `frame`.
        frame: Long,
        /// True if the report shows this frame as the caller: the first one outside the CUDA runtime.
        is_caller: Flag,
    }
}

table! {
    /// Frames of call stacks, each once per host. The process is the first one that has the frame.
    Frames, Frame = "frame" of processes sorted by frame {
        /// Number of the frame, unique in the job.
        frame: Monotonic,
        /// Path of the library.
        library: Maybe<Text>,
        /// Build id of the library in hexadecimal digits.
        build_id: Maybe<Text>,
        /// Offset in the library; the address if the library is unknown.
        library_offset: Long,
        /// Function; null without symbols.
        function: Maybe<Text>,
        /// Source file; null without debugging information.
        file: Maybe<Text>,
        /// Line in the source file.
        line: Maybe<Int>,
        /// Python file of the line that led to this frame.
        python_file: Maybe<Text>,
        /// Line in the Python file.
        python_line: Maybe<Int>,
        /// Python function.
        python_function: Maybe<Text>,
    }
}

table! {
    /// Marks that programs set with `cupeer_mark`.
    Marks, Mark = "mark" of processes sorted by time_ns {
        /// Time of the mark.
        time_ns: Monotonic,
        /// Thread that made the call.
        tid: Int,
        /// Text of the mark.
        text: Text,
    }
}

table! {
    /// Faults of fault plans: one row per fault, over all processes and hosts.
    Faults, Fault = "fault" of anything sorted by time_ns {
        /// Time at which it first fired, if the report shows it; otherwise the start of the recording.
        time_ns: Monotonic,
        /// Name of its plan.
        plan: Text,
        /// Name of the fault, which `injected_by` refers to.
        name: Text,
        /// Text of the fault; null for a plan that a program armed itself.
        rule: Maybe<Text>,
        /// Number of calls that matched its conditions.
        matched: Maybe<Long>,
        /// Number of calls at which it fired or, in a dry run, would have fired.
        fired: Long,
        /// Number of processes under its plan.
        processes: Long,
        /// True if this was a dry run.
        is_dry_run: Flag,
    }
}

table! {
    /// Devices, as each process sees them.
    Devices, Device = "device" of processes sorted by began_ns {
        /// Start of the recording of the process, as `start_ns`.
        began_ns: Monotonic,
        /// Number of the device in the process.
        ordinal: Int,
        /// UUID of the device.
        uuid: Text,
        /// PCI address of the device.
        pci: Text,
        /// Name of the device.
        name: Text,
    }
}

table! {
    /// Pairs of devices: what each process did from one device to another.
    Pairs, Pair = "pair" of processes sorted by began_ns {
        /// Start of the recording of the process, as `start_ns`.
        began_ns: Monotonic,
        /// UUID of the device that accesses.
        from_device: Maybe<Text>,
        /// UUID of the device whose memory is accessed.
        to_device: Maybe<Text>,
        /// Number of queries about the pair.
        asked: Long,
        /// Result of the last query; null without a query.
        can_access: Maybe<Flag>,
        /// True if the process ever enabled access.
        enabled: Flag,
        /// Time at which it last enabled access.
        enabled_ns: Maybe<Long>,
        /// Time at which access was disabled again.
        disabled_ns: Maybe<Long>,
        /// Number of mappings that got access.
        mappings: Long,
        /// Number of mappings that still have access at the end.
        mappings_now: Long,
        /// Number of failed queries, enables, and disables.
        failed: Long,
        /// Number of calls about the pair whose result a fault plan set.
        injected: Long,
        /// Number of times that the process opened IPC memory across the pair.
        opened: Long,
        /// Number of those attempts that failed.
        open_failed: Long,
        /// Number of copies from the memory of the first device to that of the second.
        copies: Long,
        /// Bytes of these copies.
        copied_bytes: Long,
    }
}
