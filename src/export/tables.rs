//! The tables, each with its columns and what they mean. `docs/tables.md` is made of them.
//!
//! A column that was there once stays, with its name, its type and its meaning: other people's queries name it. New ones
//! are added at the end of their table, and to `columns.txt` here; a test holds us to that.

use crate::cells::{Flag, Int, Kind, Long, Maybe, Print, Rising, Text, Word};
use crate::table::table;

table! {
    /// The processes of the job.
    Processes, Process = "process" of processes sorted by began_ns {
        /// When its recording began, as `start_ns`.
        began_ns: Rising,
        /// The pid of its parent.
        ppid: Int,
        /// The inode of its pid namespace.
        pid_ns: Long,
        /// Its program.
        program: Text,
        /// Its arguments, the program's name first: a JSON array of texts.
        arguments: Text,
        /// The variables of its environment that decide what CUDA programs do: a JSON object of texts.
        variables: Text,
        /// Whether all events were kept (`full`), or the last ones (`ring`).
        mode: Text,
        /// Its rows in the table `call`.
        calls: Long,
        /// Its rows in the table `mark`.
        marks: Long,
        /// Events that could not be kept.
        lost: Long,
        /// Calls that a fault plan changed, delayed, held or ended.
        injected: Long,
        /// How it ended: `returned`, `signal`, `died`, `executed`, `gone`, `unseen`, or that it was `running`.
        exit: Text,
        /// The exit status, where it returned one.
        exit_code: Maybe<Int>,
        /// The number of the signal that ended it, where one did.
        exit_signal: Maybe<Int>,
        /// How far it could be looked at: `whole`; `running`, up to now; `ring`, its last events; `lost`, without those
        /// that could not be kept; `cut`, what is left of its file.
        looked: Text,
        /// What is wrong with its file.
        problem: Maybe<Text>,
        /// The ways in which calls of its libraries escaped cupeer: a JSON array of texts; null where none is known.
        escaped: Maybe<Text>,
    }
}

table! {
    /// The calls: each one that the record has.
    Calls, Call = "call" of processes sorted by time_ns {
        /// When it was forwarded.
        time_ns: Rising,
        /// How long it took; null where it has not returned.
        duration_ns: Maybe<Rising>,
        /// The thread.
        tid: Int,
        /// The stream of the record that has it.
        stream: Int,
        /// Its number in that stream.
        seq: Rising,
        /// The library of the function: `cuda`, `nvml` or `cudart`.
        library: Word,
        /// The function.
        function: Word,
        /// How it ended: `returned`, `pending` (it has not), or `unwound` by an exception or a cancellation.
        outcome: Word,
        /// The name of the result, or its number; null where it has none.
        result: Maybe<Word>,
        /// Whether the result came from a fault plan instead of the driver.
        injected: Flag,
        /// The rule of a fault plan that made the result, or keeps the call from returning.
        injected_by: Maybe<Text>,
        /// What stands for the handle that it exported or opened.
        fingerprint: Maybe<Print>,
        /// What it exported, opened, closed, made or ended: an address, an event or a handle, as the process names it.
        address: Maybe<Long>,
        /// Of how many bytes it is: the size of the allocation, or the one that was asked for.
        bytes: Maybe<Long>,
        /// The device of the current context, as the process numbers it; see the table `device`.
        device: Maybe<Int>,
        /// The device of the other context, where there is one.
        peer_device: Maybe<Int>,
        /// Who made it: a stack of the table `stack`.
        stack: Maybe<Long>,
        /// What the driver said.
        message: Maybe<Text>,
        /// Whether it failed as calls do when all is well: to switch on what is on, or to give back at exit what is gone.
        is_usual: Flag,
        /// How many calls the row stands for: this one, and those of its thread that failed in the same way after it and have no
        /// rows of their own.
        calls: Long,
        /// When the last of them returned; null where it is one call.
        calls_until_ns: Maybe<Long>,
    }
}

table! {
    /// The ledger: what was exported, or opened without being known, and how that stands.
    Objects, Object = "object" of anything sorted by time_ns {
        /// When it was exported or, where nobody is known to have done that, opened first.
        time_ns: Rising,
        /// What stands for its handle.
        fingerprint: Print,
        /// What it is: `memory`, `event`, `allocation`, `pool` or `pool pointer`.
        kind: Text,
        /// How it stands, in the report's words; of several openings it has the worst.
        state: Text,
        /// The device, by its UUID.
        device: Maybe<Text>,
        /// The size of the allocation.
        bytes: Maybe<Long>,
        /// Whose memory it is.
        allocator: Maybe<Text>,
        /// When it was exported first.
        exported_ns: Maybe<Long>,
        /// How often it was exported.
        exports: Long,
        /// When its allocation was freed or released, or the event destroyed.
        freed_ns: Maybe<Long>,
        /// The function that did so.
        freed_by: Maybe<Text>,
        /// Of a handle that nobody exported: the one that it is a damaged copy of.
        damaged_from: Maybe<Print>,
        /// Its rows in the table `opening`.
        openings: Long,
        /// How often opening it failed.
        failed: Long,
    }
}

table! {
    /// The openings: from where a process opened a handle to where it had closed it as often. The process is the one that
    /// opened it.
    Openings, Opening = "opening" of processes sorted by opened_ns {
        /// When it was opened.
        opened_ns: Rising,
        /// When it was closed.
        closed_ns: Maybe<Long>,
        /// The function that closed it.
        closed_by: Maybe<Text>,
        /// The thread that opened it.
        tid: Int,
        /// What stands for the handle.
        fingerprint: Print,
        /// What it is of.
        kind: Text,
        /// How this opening stands, in the report's words.
        state: Text,
        /// The device of the opener's context, by its UUID.
        device: Maybe<Text>,
        /// How often it was opened in that time.
        times: Long,
        /// How many earlier openings by the same process are left out.
        earlier: Long,
        /// The size of the allocation.
        bytes: Maybe<Long>,
        /// Whose memory it is.
        allocator: Maybe<Text>,
        /// The process that exported it, where that is known.
        exporter_proc: Maybe<Text>,
        /// Its host.
        exporter_host: Maybe<Text>,
        /// Its pid.
        exporter_pid: Maybe<Int>,
        /// Its rank.
        exporter_rank: Maybe<Int>,
        /// The exporter's device, by its UUID.
        exporter_device: Maybe<Text>,
    }
}

table! {
    /// The findings: all of one rule and function, with one result and from one place, over all processes. The process is
    /// that of the first.
    Findings, Finding = "finding" of processes sorted by time_ns {
        /// When the first began.
        time_ns: Rising,
        /// When the last began.
        last_ns: Long,
        /// The rule: `cupeer explain RULE` says more.
        rule: Text,
        /// `error`, `warning` or `note`.
        severity: Text,
        /// `certain`, `stale` or `inferred`.
        confidence: Text,
        /// The function.
        function: Text,
        /// The argument that it is about.
        argument: Maybe<Text>,
        /// The name of the result, or its number; null where the call has not returned.
        result: Maybe<Text>,
        /// The thread of the first.
        tid: Int,
        /// The number of its call in its stream.
        seq: Long,
        /// How many there are.
        times: Long,
        /// In how many processes.
        processes: Long,
        /// The ranks among them: a JSON array of numbers.
        ranks: Text,
        /// What was found, with the values of the first.
        message: Text,
        /// What the rule rests on.
        sentence: Maybe<Text>,
        /// What to do.
        hint: Text,
        /// What the driver said about the first.
        driver_message: Maybe<Text>,
        /// Who made the first: a stack of the table `stack`.
        stack: Maybe<Long>,
    }
}

table! {
    /// The call stacks: a row for each frame, the caller first.
    Stacks, Stack = "stack" of processes sorted by stack {
        /// The stack, unique in the job.
        stack: Rising,
        /// Which frame of it, from 0.
        depth: Int,
        /// The frame, of the table `frame`.
        frame: Long,
        /// Whether this frame made the call, as the report has it: the first one outside of the CUDA runtime.
        is_caller: Flag,
    }
}

table! {
    /// The frames of call stacks, each once for a host. The process is the first that has it.
    Frames, Frame = "frame" of processes sorted by frame {
        /// The frame, unique in the job.
        frame: Rising,
        /// The path of the library.
        library: Maybe<Text>,
        /// Its build id in hexadecimal digits.
        build_id: Maybe<Text>,
        /// Where in it, or the address where the library is unknown.
        library_offset: Long,
        /// The function, where symbols are at hand.
        function: Maybe<Text>,
        /// The file of its source, where debugging information is at hand.
        file: Maybe<Text>,
        /// The line there.
        line: Maybe<Int>,
        /// The file of the line of Python that has led here.
        python_file: Maybe<Text>,
        /// That line.
        python_line: Maybe<Int>,
        /// The function of Python.
        python_function: Maybe<Text>,
    }
}

table! {
    /// What programs have marked with `cupeer_mark`.
    Marks, Mark = "mark" of processes sorted by time_ns {
        /// When.
        time_ns: Rising,
        /// The thread.
        tid: Int,
        /// The text.
        text: Text,
    }
}

table! {
    /// What fault plans did: a row for each of their rules, over all processes and hosts.
    Faults, Fault = "fault" of anything sorted by time_ns {
        /// When it fired first, as far as the report shows that; else when the record began.
        time_ns: Rising,
        /// The name of its plan.
        plan: Text,
        /// Its own name, which `injected_by` refers to.
        name: Text,
        /// The rule as it was written; null of a plan that a program armed itself.
        rule: Maybe<Text>,
        /// Calls that met its conditions.
        matched: Maybe<Long>,
        /// The calls at which it fired or, in a dry run, would have.
        fired: Long,
        /// How many processes were under its plan.
        processes: Long,
        /// Whether this was a dry run.
        is_dry_run: Flag,
    }
}

table! {
    /// The devices, as each process sees them.
    Devices, Device = "device" of processes sorted by began_ns {
        /// When the recording of the process began, as `start_ns`.
        began_ns: Rising,
        /// Its number in the process.
        ordinal: Int,
        /// Its UUID.
        uuid: Text,
        /// Its PCI address.
        pci: Text,
        /// Its name.
        name: Text,
    }
}

table! {
    /// The peer matrix: what each process did from one device to another.
    Pairs, Pair = "pair" of processes sorted by began_ns {
        /// When the recording of the process began, as `start_ns`.
        began_ns: Rising,
        /// The device that accesses, by its UUID.
        from_device: Maybe<Text>,
        /// The device whose memory is accessed.
        to_device: Maybe<Text>,
        /// How often it asked about the two.
        asked: Long,
        /// The last answer it got; null where it did not ask.
        can_access: Maybe<Flag>,
        /// Whether it ever enabled access.
        enabled: Flag,
        /// When it last did.
        enabled_ns: Maybe<Long>,
        /// When access was disabled again.
        disabled_ns: Maybe<Long>,
        /// How often a mapping was given access.
        mappings: Long,
        /// To how many of them it has access at the end.
        mappings_now: Long,
        /// How often asking, enabling and disabling failed.
        failed: Long,
        /// How many of its calls about the two a fault plan answered.
        injected: Long,
        /// How often it opened IPC memory over the two.
        opened: Long,
        /// How often that failed.
        open_failed: Long,
        /// How many copies went from the memory of the first device to that of the second.
        copies: Long,
        /// Their bytes.
        copied_bytes: Long,
    }
}
