//! Metrics in Prometheus's text exposition format, version 0.0.4.
//!
//! What belongs here: sums by job and by device. Pids and ranks are no labels: each new process would be a new series.

use super::assemble::sum;
use super::document::{Device, Document, Job, Process};
use super::view;
use std::fmt::Write;

/// A metric: its name, its type, what it says.
struct Metric(&'static str, &'static str, &'static str);

/// What is known of a job: a metric and its value.
type OfJob = (Metric, fn(&Job, &[&Process]) -> f64);
type OfDevice = (Metric, fn(&Device) -> Option<u64>);

const JOBS: [OfJob; 9] = [
    (Metric("cupeer_processes_running", "gauge", "Processes that run, by job."), |job, _| job.running as f64),
    (
        Metric("cupeer_processes_died", "gauge", "Processes that were killed or called exit_group."),
        |job, _| job.died as f64,
    ),
    (
        Metric(
            "cupeer_calls_total",
            "counter",
            "Recorded calls of the driver, of what is still in the recordings.",
        ),
        |job, _| job.calls as f64,
    ),
    (
        Metric(
            "cupeer_failed_calls_total",
            "counter",
            "Recorded calls that returned something else than CUDA_SUCCESS.",
        ),
        |job, _| job.failed as f64,
    ),
    (Metric("cupeer_lost_events_total", "counter", "Events that recordings could not keep."), |_, of| {
        of.iter().map(|process| process.lost).sum::<u64>() as f64
    }),
    (
        Metric(
            "cupeer_refused_entries_total",
            "counter",
            "Exports and openings for which the live table had no room.",
        ),
        |job, _| job.refused as f64,
    ),
    (
        Metric("cupeer_job_hung", "gauge", "1 if 'cupeer run --on-hang' found that the job hangs."),
        |job, _| f64::from(u8::from(job.hung_since_ns.is_some())),
    ),
    (
        Metric("cupeer_hanging_processes", "gauge", "Processes that are in one call for a second or longer."),
        |_, of| of.iter().filter_map(|process| view::hangs(process)).count() as f64,
    ),
    (
        Metric(
            "cupeer_oldest_unreturned_call_seconds",
            "gauge",
            "For how long the oldest call has not returned; 0 where none is under way.",
        ),
        |_, of| {
            let ages = of.iter().flat_map(|process| &process.unreturned).filter_map(|call| call.age_ns);
            ages.max().unwrap_or(0) as f64 / 1e9
        },
    ),
];

const DEVICES: [OfDevice; 8] = [
    (
        Metric(
            "cupeer_shared_bytes",
            "gauge",
            "Memory of a device that running processes have exported and not freed.",
        ),
        |device| Some(device.shared_bytes),
    ),
    (
        Metric(
            "cupeer_held_bytes",
            "gauge",
            "Memory of a device that other processes hold, each piece once.",
        ),
        |device| Some(device.held_bytes),
    ),
    (
        Metric("cupeer_exports", "gauge", "What running processes have exported of a device and not freed."),
        |device| Some(device.exports),
    ),
    (
        Metric("cupeer_openings", "gauge", "What running processes have opened of a device and not closed."),
        |device| Some(device.openings),
    ),
    (Metric("cupeer_memory_bytes", "gauge", "Memory of a device, from NVML."), |device| device.total_bytes),
    (Metric("cupeer_used_bytes", "gauge", "Memory of a device that is in use, from NVML."), |device| {
        device.used_bytes
    }),
    (Metric("cupeer_owned_bytes", "gauge", "Memory of a device that recorded processes have."), |device| {
        Some(sum(device.owners.iter().map(|owner| owner.bytes)))
    }),
    (
        Metric(
            "cupeer_others_bytes",
            "gauge",
            "Memory of a device that processes outside of the recordings have, from NVML.",
        ),
        |device| device.total_bytes.map(|_| sum(device.others.iter().filter_map(|other| other.bytes))),
    ),
];

/// All of it.
pub fn text(document: &Document) -> String {
    let mut text = String::new();
    for (metric, value) in &JOBS {
        let of = |job: &Job| -> Vec<&Process> {
            document.processes.iter().filter(|process| process.who.job == job.name).collect()
        };
        let series =
            document.jobs.iter().map(|job| (vec![("record", job.name.as_str())], value(job, &of(job))));
        family(&mut text, metric, series.collect());
    }
    for (metric, value) in &DEVICES {
        let labels = |device: &'_ Device| device.uuid.clone().unwrap_or_else(|| "unknown".into());
        let uuids: Vec<String> = document.devices.iter().map(labels).collect();
        let series = document.devices.iter().zip(&uuids).filter_map(|(device, uuid)| {
            Some((vec![("device", uuid.as_str()), ("name", device.name.as_str())], value(device)? as f64))
        });
        family(&mut text, metric, series.collect());
    }
    let unseen = Metric("cupeer_unseen", "gauge", "Sentences on what is not seen, as cupeer top says them.");
    family(&mut text, &unseen, vec![(Vec::new(), document.unseen.len() as f64)]);
    text
}

/// One metric with all its series. Without any, there is nothing to say.
fn family(text: &mut String, Metric(name, kind, help): &Metric, series: Vec<(Vec<(&str, &str)>, f64)>) {
    if series.is_empty() {
        return;
    }
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    for (labels, value) in series {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_each_metric_is_told_of_once() {
        let job = |name: &str| Job { name: name.into(), calls: 1 << 53, ..Job::default() };
        let document = Document { jobs: vec![job("a\\b\"c\nd"), job("e")], ..Document::default() };
        let text = text(&document);
        assert!(text.contains(
            "# TYPE cupeer_calls_total counter\n\
             cupeer_calls_total{record=\"a\\\\b\\\"c\\nd\"} 9007199254740992\ncupeer_calls_total{record=\"e\"} 9007199254740992\n"
        ), "{text}");
        assert_eq!(text.matches("# TYPE cupeer_calls_total ").count(), 1);
        // No device, no series of one.
        assert!(!text.contains("cupeer_shared_bytes") && text.ends_with("cupeer_unseen 0\n"));
    }
}
