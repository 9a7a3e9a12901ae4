//! Draws a document, with the user's choices, as lines of a screen. No line is wider than the screen.

use super::assemble::{has_died, sum_saturating};
use super::columns::{Cell, Column, Layout, Line, Look};
use super::document::{Device, Document, Hold, Process, Unreturned, Who};
use super::view::{self, Page, ViewState};
use crate::args::Sort;
use cupeer_console::args::value_word;
use cupeer_report::endings::format_end_short;
use cupeer_report::model::ExitKind;
use cupeer_report::moments::{bytes, date, number};
use cupeer_report::names;
use cupeer_spec::uuid::{self, GpuName};
use std::collections::BTreeSet;

/// Number of sentences about missing data that are shown above the tables: the first ones.
const MOST_UNSEEN: usize = 2;

/// Minimum number of lines of a screen that shows tables of devices.
const LEAST_ROOM: usize = 14;

const PROCESSES: [Column; 14] = [
    Column::number("RANK", 9),
    Column::number("PID", 0),
    Column::text("JOB", 10, 6),
    Column::text("PROGRAM", 4, 8),
    Column::number("SHARED", 3),
    Column::number("HELD", 6),
    Column::text("HELD BY", 11, 8),
    Column::number("HOLDS", 5),
    Column::text("HOLDS OF", 12, 8),
    Column::number("OPEN", 1),
    Column::number("CALLS/S", 1),
    Column::number("CALLS", 13),
    Column::number("FAILED", 2),
    Column::text("STATE", 0, 27),
];

const DEVICES: [Column; 8] = [
    Column::text("DEVICE", 0, 18),
    Column::text("NAME", 10, 11),
    Column::text("PCI", 11, 16),
    Column::number("EXPORTS", 4),
    Column::number("SHARED", 0),
    Column::number("HELD", 0),
    Column::number("OPEN", 0),
    Column::text("HELD BY", 0, 24),
];

const MEMORY: [Column; 7] = [
    Column::text("DEVICE", 3, 18),
    Column::text("OWNER", 0, 18),
    Column::number("MEMORY", 0),
    Column::text("", 2, BAR),
    Column::number("IN", 5),
    Column::text("MOST FROM", 4, 12),
    Column::text("KEPT BY", 9, 8),
];

/// Width of a bar for all memory of a device, in columns.
const BAR: usize = 20;

/// Returns the heading of the column by which rows are sorted.
fn column_heading(sort: Sort) -> &'static str {
    match sort {
        Sort::State => "STATE",
        Sort::Rank => "RANK",
        Sort::Pid => "PID",
        Sort::Program => "PROGRAM",
        Sort::Shared => "SHARED",
        Sort::Held => "HELD",
        Sort::Holds => "HOLDS",
        Sort::Open => "OPEN",
        Sort::Calls => "CALLS/S",
        Sort::Failed => "FAILED",
    }
}

/// Returns the lines of the screen, at most `height` of them.
pub fn draw_screen(document: &Document, view: &ViewState, width: usize, height: usize) -> Vec<Line> {
    let room = height.saturating_sub(1);
    let mut lines = match &view.page {
        Page::All => draw_overview(document, view, width, room),
        Page::One(who) => visible_lines(process_page(document, who, width), view, room),
        Page::Why(why) => {
            let look = |index| if index == 0 { Look::Head } else { Look::Plain };
            let lines = why.iter().enumerate().map(|(index, line)| Line::new(look(index), line));
            visible_lines(lines.collect(), view, room)
        }
        Page::Help => visible_lines(help_lines(document), view, room),
    };
    lines.truncate(room);
    lines.resize(room, Line::default());
    lines.push(footer(view));
    lines.into_iter().map(|line| line.cut_to_width(width)).take(height).collect()
}

/// Returns the whole document as lines, for `--once`.
pub fn draw_once(document: &Document, view: &ViewState, width: usize) -> Vec<Line> {
    let mut lines = draw_header(document, view, usize::MAX);
    for (columns, rows) in [(&MEMORY[..], memory_rows(document)), (&DEVICES, device_rows(document))] {
        if !rows.is_empty() {
            lines.push(Line::default());
            lines.extend(draw_table(columns, &rows, width, None));
        }
    }
    if !document.processes.is_empty() {
        lines.push(Line::default());
        let rows: Vec<Vec<Cell>> = view.rows(document).into_iter().map(|row| process_row(row, document)).collect();
        lines.extend(draw_table(&process_columns(document), &rows, width, None));
    }
    lines
}

fn draw_overview(document: &Document, view: &ViewState, width: usize, room: usize) -> Vec<Line> {
    let mut lines = draw_header(document, view, MOST_UNSEEN);
    let tables = [(&MEMORY[..], memory_rows(document), "rows of memory"), (&DEVICES, device_rows(document), "devices")];
    let tables: Vec<_> = tables.into_iter().filter(|(_, rows, _)| !rows.is_empty()).collect();
    // If the screen is too small for everything, one table of devices gets a third of it, and two get half of it.
    // The processes get the rest.
    let needed =
        lines.len() + view.rows(document).len() + 2 + tables.iter().map(|(_, rows, _)| rows.len() + 2).sum::<usize>();
    let most = if needed <= room { room } else { room / if tables.len() > 1 { 4 } else { 3 } };
    for (columns, rows, of_which) in tables.into_iter().filter(|_| room >= LEAST_ROOM) {
        lines.push(Line::default());
        let table = draw_table(columns, &rows, width, None);
        let more = table.len().saturating_sub(most);
        lines.extend(table.into_iter().take(if more > 0 { most - 1 } else { most }));
        if more > 0 {
            lines.push(Line::new(Look::Dim, &format!("and {} more {of_which}", more + 1)));
        }
    }
    lines.push(Line::default());
    let rows = view.rows(document);
    if rows.is_empty() {
        lines.push(Line::new(Look::Dim, &no_rows_text(document, view)));
        return lines;
    }
    let chosen = view.chosen_process(document);
    let at = rows.iter().position(|row| Some(&row.who) == chosen.as_ref()).unwrap_or(0);
    let cells: Vec<Vec<Cell>> = rows.iter().map(|row| process_row(row, document)).collect();
    let table = draw_table(&process_columns(document), &cells, width, Some(column_heading(view.sort)));
    let mut table = table.into_iter();
    lines.extend(table.next());
    let fits = room.saturating_sub(lines.len()).max(1);
    let more = rows.len() > fits;
    let fits = if more { fits - 1 } else { fits }.max(1);
    // The chosen row must stay visible.
    let first = (at + 1).saturating_sub(fits);
    for (i, line) in table.enumerate().skip(first).take(fits) {
        lines.push(if i == at { line.with_single_look(Look::Chosen, width) } else { line });
    }
    if more {
        let last = (first + fits).min(rows.len());
        lines.push(Line::new(Look::Dim, &format!("{} to {last} of {} processes", first + 1, rows.len())));
    }
    lines
}

fn no_rows_text(document: &Document, view: &ViewState) -> String {
    if !view.filter.is_empty() {
        return format!("no process is called '{}'; Esc shows all", view.filter);
    }
    match document.jobs.is_empty() {
        true => "no recording in the default directory is in progress; try 'cupeer top DIR'".into(),
        false => "no process has reached the driver yet".into(),
    }
}

fn draw_header(document: &Document, view: &ViewState, most: usize) -> Vec<Line> {
    let count = |of: fn(&super::document::Job) -> usize| document.jobs.iter().map(of).sum::<usize>();
    let (running, died, ended) = (count(|job| job.running), count(|job| job.died), count(|job| job.ended));
    let jobs = match &document.jobs[..] {
        [] => "no job".to_owned(),
        [job] => job.name.clone(),
        several => format!("{} jobs", several.len()),
    };
    let mut first = Line::new(Look::Head, "cupeer top")
        .with(Look::Plain, &format!("  {jobs}: {}", names::counted(running as u64, "process")))
        .with(Look::Plain, if running == 1 { " runs" } else { " run" });
    if died > 0 {
        first = first.with(Look::Plain, ", ").with(Look::Bad, &format!("{died} died"));
    }
    if ended > 0 {
        first = first.with(Look::Plain, &format!(", {ended} ended"));
    }
    let time = date(document.time_ns);
    let time = time.split_once(' ').map_or(time.as_str(), |(_, time)| time);
    first = first.with(Look::Dim, &format!("  {time}"));
    if view.is_paused {
        first = first.with(Look::Doubtful, "  paused");
    }
    let mut lines = vec![first, sums_line(document)];
    let (shown, more) = document.unseen.split_at(document.unseen.len().min(most));
    for (i, sentence) in shown.iter().enumerate() {
        let last = if i + 1 == shown.len() && !more.is_empty() {
            format!(" (? shows {} more)", more.len())
        } else {
            String::new()
        };
        lines.push(Line::new(Look::Doubtful, "not seen").with(Look::Plain, &format!("{last} {sentence}")));
    }
    lines
}

/// Returns a line with the sums over all processes and devices.
fn sums_line(document: &Document) -> Line {
    let of = |of: fn(&Device) -> u64| sum_saturating(document.devices.iter().map(of));
    let mut line = Line::default();
    if let Some(since) = document.jobs.iter().filter_map(|job| job.hung_since_ns).min() {
        let age = format_age(document.time_ns.saturating_sub(since));
        let hung = document.jobs.iter().filter(|job| job.hung_since_ns.is_some()).count() as u64;
        let whose = if document.jobs.len() == 1 { "the job".into() } else { names::counted(hung, "job") };
        let have = if hung == 1 { "has" } else { "have" };
        line = line.with(Look::Bad, &format!("{whose} {have} hung for {age}")).with(Look::Plain, "; ");
    }
    let hanging: Vec<u64> = document.processes.iter().filter_map(view::hanging_age).collect();
    if let Some(oldest) = hanging.iter().max() {
        let whose = names::counted(hanging.len() as u64, "process");
        line = line.with(Look::Bad, &format!("{whose} in a call for {}", format_age(*oldest))).with(Look::Plain, "; ");
    }
    let [shared, held] = [of(|device| device.shared_bytes), of(|device| device.held_bytes)].map(bytes);
    let open = number(of(|device| device.openings));
    line = line.with(Look::Plain, &format!("{shared} shared, {held} held, {open} open; "));
    if document.interval_ns.is_some() {
        let rate: f64 = document.processes.iter().filter_map(|process| process.calls_per_second).sum();
        line = line.with(Look::Plain, &format!("{} calls/s, ", format_rate(rate)));
    }
    let failed = sum_saturating(document.jobs.iter().map(|job| job.failed));
    let least = if document.jobs.iter().all(|job| job.complete) { "" } else { "+" };
    line.with(Look::Plain, &format!("{}{least} failed", number(failed)))
}

fn footer(view: &ViewState) -> Line {
    let keys = |text: &str| Line::new(Look::Dim, text);
    if view.is_typing {
        return Line::new(Look::Head, "only: ")
            .with(Look::Plain, &view.filter)
            .with(Look::Dim, "_  a rank, a pid, or a part of a program's or job's name; Enter, Esc");
    }
    if view.page != Page::All {
        return keys("Esc back  arrows scroll  q quit");
    }
    let order = format!("{}{}", value_word(view.sort), if view.reverse { ", reversed" } else { "" });
    let line = match view.filter.as_str() {
        "" => Line::default(),
        filter => Line::new(Look::Doubtful, &format!("only: {filter}  ")),
    };
    line.with(Look::Dim, "q quit  ? help  Enter more  w why  / only  p pause  s sort: ").with(Look::Head, &order)
}

/// Returns the visible lines of a page: those from the line to which the user scrolled.
fn visible_lines(lines: Vec<Line>, view: &ViewState, room: usize) -> Vec<Line> {
    let first = view.first.min(lines.len().saturating_sub(room));
    lines.into_iter().skip(first).collect()
}

fn draw_table(columns: &[Column], rows: &[Vec<Cell>], width: usize, sorted_by: Option<&str>) -> Vec<Line> {
    let layout = Layout::fit_width(columns, rows, width);
    std::iter::once(layout.heading_line(sorted_by)).chain(rows.iter().map(|row| layout.row_line(row))).collect()
}

fn plain_cell(text: impl Into<String>) -> Cell {
    (Look::Plain, text.into())
}

/// Returns the name of a device for the tables.
fn device_name(device: &Device) -> String {
    let uuid = device.uuid.as_deref().and_then(uuid::parse_uuid);
    let name = uuid.map(|uuid| GpuName { number: device.number, uuid }.to_string());
    name.unwrap_or_else(|| "unknown".into())
}

/// Returns rows with the memory of devices by owner: for each device, a row for itself, for its owners, and for
/// memory without a known owner.
fn memory_rows(document: &Document) -> Vec<Vec<Cell>> {
    document.devices.iter().flat_map(|device| memory_rows_of(device, document)).collect()
}

fn memory_rows_of(device: &Device, document: &Document) -> Vec<Vec<Cell>> {
    let owned = sum_saturating(device.owners.iter().map(|owner| owner.bytes));
    let all = device.total_bytes.unwrap_or(owned);
    let share = |amount: u64| (u128::from(amount) * BAR as u128 / u128::from(all.max(1))).min(BAR as u128) as usize;
    let row = |owner: (Look, String), amount: Option<u64>, mark: &str, rest: [String; 3]| {
        let width = amount.map_or(0, |amount| share(amount).max(usize::from(amount > 0)));
        let amount = amount.map_or("?".into(), bytes);
        [vec![plain_cell(""), owner, plain_cell(amount), plain_cell(mark.repeat(width))], rest.map(plain_cell).to_vec()]
            .concat()
    };
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    if all > 0 {
        let used = device.used_bytes.unwrap_or(owned);
        let others = share(used).saturating_sub(share(owned));
        let bar = "#".repeat(share(owned)) + &"*".repeat(others);
        let of = device.total_bytes.map_or("recorded".into(), |total| format!("all of {}", bytes(total)));
        let mut first = row((Look::Head, of), Some(used), "", Default::default());
        (first[0], first[3]) = (plain_cell(device_name(device)), plain_cell(format!("{bar:.<BAR$}")));
        rows.push(first);
    }
    for owner in &device.owners {
        let process = document.processes.iter().find(|process| process.who == owner.who);
        let program = process.map_or_else(String::new, view::program_name);
        let count = if owner.count > 0 { number(owner.count) } else { String::new() };
        let place = owner.place.as_ref().map(|place| format!("{} {place}", bytes(owner.place_bytes)));
        let kept = (owner.kept_bytes > 0)
            .then(|| format!("{}: {} freed", process_names(&owner.kept_by), bytes(owner.kept_bytes)));
        let rest = [count, place.unwrap_or_default(), kept.unwrap_or_default()];
        rows.push(row(plain_cell(format!("{} {program}", process_names([&owner.who]))), Some(owner.bytes), "#", rest));
    }
    for other in &device.others {
        let outside = if other.program.is_empty() { "outside" } else { &other.program };
        let name = (Look::Doubtful, format!("{} {outside}", other.pid));
        rows.push(row(name, other.bytes, "*", ["".into(), "not recorded".into(), "".into()]));
    }
    let unaccounted = device.unaccounted_bytes.filter(|amount| *amount > 0);
    rows.extend(unaccounted.map(|rest| row((Look::Dim, "unaccounted".into()), Some(rest), "*", Default::default())));
    rows
}

fn device_rows(document: &Document) -> Vec<Vec<Cell>> {
    let row = |device: &Device| {
        vec![
            plain_cell(device_name(device)),
            plain_cell(device.name.as_str()),
            plain_cell(device.pci.as_str()),
            plain_cell(number(device.exports)),
            plain_cell(bytes(device.shared_bytes)),
            plain_cell(bytes(device.held_bytes)),
            plain_cell(number(device.openings)),
            plain_cell(process_names(&device.holders)),
        ]
    };
    let is_shared = |device: &&Device| device.exports + device.openings > 0;
    document.devices.iter().filter(is_shared).map(row).collect()
}

/// Returns the names of several processes; ranks are written as ranges.
fn process_names<'a>(all: impl IntoIterator<Item = &'a Who>) -> String {
    let (mut ranks, mut pids) = (BTreeSet::new(), BTreeSet::new());
    for who in all {
        match who.rank {
            Some(rank) => drop(ranks.insert(rank)),
            None => drop(pids.insert(who.pid)),
        }
    }
    let ranks = (!ranks.is_empty()).then(|| names::ranks(ranks.into_iter()));
    ranks.into_iter().chain(pids.iter().map(u32::to_string)).collect::<Vec<_>>().join(", ")
}

fn holder_names(holds: &[Hold]) -> String {
    let known = process_names(holds.iter().filter_map(|hold| hold.who.as_ref()));
    let is_unknown = holds.iter().any(|hold| hold.who.is_none());
    match (known.as_str(), is_unknown) {
        ("", true) => "unknown".into(),
        (_, true) => format!("{known}, unknown"),
        _ => known,
    }
}

/// Returns the columns of the table of processes: with ranks if any process has one.
fn process_columns(document: &Document) -> [Column; 14] {
    let mut columns = PROCESSES;
    if document.processes.iter().any(|process| process.who.rank.is_some()) {
        columns[0].spare = 0;
    }
    columns
}

fn process_row(process: &Process, document: &Document) -> Vec<Cell> {
    let zero = |text: String| if text == "0B" || text == "0" { "-".into() } else { text };
    let least = if process.complete { "" } else { "+" };
    let count = |count: Option<u64>| count.map_or("?".into(), |count| format!("{}{least}", number(count)));
    let failed = match process.failed {
        Some(0) if process.complete => plain_cell("-"),
        Some(1..) => (Look::Doubtful, count(process.failed)),
        _ => plain_cell(count(process.failed)),
    };
    let rate = match process.calls_per_second {
        Some(rate) => zero(format_rate(rate)),
        None if process.exit.has_ended() => "-".into(),
        None => "?".into(),
    };
    vec![
        plain_cell(process.who.rank.map_or("-".into(), |rank| rank.to_string())),
        plain_cell(process.who.pid.to_string()),
        plain_cell(if document.jobs.len() > 1 { process.who.job.as_str() } else { "" }),
        plain_cell(view::program_name(process)),
        plain_cell(zero(bytes(process.shared_bytes))),
        plain_cell(zero(bytes(process.held_bytes))),
        plain_cell(holder_names(&process.held_by)),
        plain_cell(zero(bytes(process.holds_bytes))),
        plain_cell(holder_names(&process.holds)),
        plain_cell(zero(number(process.openings))),
        plain_cell(rate),
        plain_cell(count(process.calls)),
        failed,
        state_cell(process),
    ]
}

/// Returns the cell about what a process does, or about its end.
fn state_cell(process: &Process) -> Cell {
    if process.exit.has_ended() {
        let look = if has_died(&process.exit) { Look::Bad } else { Look::Dim };
        let left = match process.openings {
            0 => String::new(),
            open => format!(", left {} open", number(open)),
        };
        let how = match process.exit.kind {
            ExitKind::Returned => format!("ended: {}", format_end_short(process.exit)),
            _ => format_end_short(process.exit),
        };
        return (look, how + &left);
    }
    if let Some(doing) = &process.hung {
        return (Look::Bad, format!("hung: {doing}"));
    }
    if let (Some(age_ns), Some(oldest)) = (view::hanging_age(process), process.oldest_unreturned()) {
        let more = process.unreturned.iter().filter(|call| call.age_ns >= Some(view::HANGS)).count() - 1;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        return (Look::Bad, format!("{} {}{more}", format_age(age_ns), oldest.function));
    }
    (Look::Dim, if process.exit.kind == ExitKind::Running { "runs" } else { "may run or not" }.into())
}

/// Returns the page about one process, with everything that is known.
fn process_page(document: &Document, who: &Who, width: usize) -> Vec<Line> {
    let Some(process) = document.processes.iter().find(|process| process.who == *who) else {
        return vec![Line::new(Look::Dim, &format!("process {} is not seen any more", who.pid))];
    };
    let rank = who.rank.map(|rank| format!(", rank {rank}")).unwrap_or_default();
    let title =
        Line::new(Look::Head, &format!("process {}{rank}", who.pid)).with(Look::Plain, &format!(" of {}", who.job));
    let (look, how) = state_cell(process);
    let mut lines = vec![title, Line::new(Look::Plain, &process.program), Line::new(look, &how), Line::default()];
    lines.extend(totals_lines(process));
    lines.extend(holds_table("Who holds its memory", &process.held_by, width));
    lines.extend(holds_table("Whose memory it holds", &process.holds, width));
    lines.extend(unreturned_table(process, width));
    lines
}

/// Returns the counts and sizes of a process, one line each.
fn totals_lines(process: &Process) -> Vec<Line> {
    let or_more = if process.complete { "" } else { " or more" };
    let calls = |count: Option<u64>| count.map_or("unknown".into(), |count| number(count) + or_more);
    let rate = process.calls_per_second.map(|rate| format!(", {} a second", format_rate(rate)));
    let (calls, failed, rate) = (calls(process.calls), calls(process.failed), rate.unwrap_or_default());
    let mut lines = vec![Line::new(Look::Plain, &format!("calls      {calls}{rate}; failed: {failed}"))];
    if process.lost > 0 {
        let lost = format!("lost       {} events are not in its record", number(process.lost));
        lines.push(Line::new(Look::Doubtful, &lost));
    }
    let (shared, held) = (bytes(process.shared_bytes), bytes(process.held_bytes));
    let (exports, holds) = (names::counted(process.exports, "export"), bytes(process.holds_bytes));
    let open = names::counted(process.openings, "opened object");
    let others = [
        format!("peers      access to {}", names::counted(process.peers, "peer context")),
        format!("shares     {shared} in {exports}, of which others hold {held}"),
        format!("holds      {holds} of others; {open} and not closed"),
    ];
    lines.extend(others.iter().map(|text| Line::new(Look::Plain, text)));
    lines
}

/// Returns a table of the processes on the other side of shared memory, with its title; empty if there are none.
fn holds_table(title: &str, holds: &[Hold], width: usize) -> Vec<Line> {
    const COLUMNS: [Column; 4] =
        [Column::number("RANK", 1), Column::number("PID", 0), Column::number("MEMORY", 0), Column::number("OPEN", 0)];
    let row = |hold: &Hold| {
        let (rank, pid) = hold.who.as_ref().map_or((None, None), |who| (who.rank, Some(who.pid)));
        let named = |number: Option<u32>, other: &str| number.map_or(other.into(), |number| number.to_string());
        let cells = [named(rank, "-"), named(pid, "unknown"), bytes(hold.bytes), number(hold.openings)];
        cells.map(plain_cell).to_vec()
    };
    titled_table(title, &COLUMNS, holds.iter().map(row).collect(), width)
}

fn unreturned_table(process: &Process, width: usize) -> Vec<Line> {
    const COLUMNS: [Column; 3] =
        [Column::number("FOR", 0), Column::number("THREAD", 0), Column::text("FUNCTION", 0, 20)];
    let row = |call: &Unreturned| {
        let look = if call.age_ns >= Some(view::HANGS) { Look::Bad } else { Look::Plain };
        let age = call.age_ns.map_or("?".into(), format_age);
        vec![(look, age), plain_cell(call.tid.to_string()), plain_cell(call.function.as_str())]
    };
    let rows = process.unreturned.iter().map(row).collect();
    titled_table("Calls that have not returned", &COLUMNS, rows, width)
}

/// Returns a table with a title; empty if it has no rows.
fn titled_table(title: &str, columns: &[Column], rows: Vec<Vec<Cell>>, width: usize) -> Vec<Line> {
    if rows.is_empty() {
        return Vec::new();
    }
    let head = [Line::default(), Line::new(Look::Head, title)];
    head.into_iter().chain(draw_table(columns, &rows, width, None)).collect()
}

const HELP: &str = "\
q, Ctrl-C      quit
up, down       choose a process; PgUp, PgDn, Home, End
Enter          all about the chosen process
w              what the processes of its job wait for, as 'cupeer why' prints it
Esc            back; then show all processes again
s, S           sort by the next column, by the one before
r              sort the other way round
/              only a rank, a pid, or programs and jobs with this in their names
p, space       pause, and go on
Ctrl-Z         stop; fg goes on

MEMORY         memory that a process allocated, from NVML if that is more; the bar is its part of the device: # recorded
               processes, * others, . free; IN says in how many allocations, MOST FROM where the most of it was allocated
KEPT BY        who keeps memory that the process freed
SHARED         memory that a process has exported and not freed
HELD           what of it others hold; HELD BY says who
HOLDS          what it holds of others; HOLDS OF says whose
OPEN           what it has opened and not closed
CALLS/S        recorded calls between the last two looks
FAILED         calls that returned something else than CUDA_SUCCESS
STATE          the call that it is in for a second or longer, or how it ended
+              or more: a ring keeps only the last calls, and some may be lost
?              not known";

fn help_lines(document: &Document) -> Vec<Line> {
    let mut lines: Vec<Line> = HELP.lines().map(|line| Line::new(Look::Plain, line)).collect();
    if !document.unseen.is_empty() {
        lines.extend([Line::default(), Line::new(Look::Head, "Not seen")]);
        lines.extend(document.unseen.iter().map(|sentence| Line::new(Look::Plain, sentence)));
    }
    lines
}

/// Formats a number of calls per second, with a decimal if it is small.
fn format_rate(rate: f64) -> String {
    if rate > 0.0 && rate < 9.95 { format!("{rate:.1}") } else { number(rate.round() as u64) }
}

/// Formats a duration, with tenths of a second from one second on.
fn format_age(ns: u64) -> String {
    match ns / 100_000_000 {
        tenths @ 10..600 => format!("{}.{}s", tenths / 10, tenths % 10),
        _ => cupeer_report::moments::duration(ns),
    }
}
