//! Metrics in Prometheus's text exposition format, version 0.0.4.
//!
//! Sums by job and by device. Pids and ranks are not labels, because each new process would be a new series.

use super::assemble::sum_saturating;
use super::document::{Device, Document, Job, Process};
use super::view;

/// A metric of a job: its name, its help, and the function that returns its value.
type JobMetric = (&'static str, &'static str, fn(&Job, &[&Process]) -> f64);
type DeviceMetric = (&'static str, &'static str, fn(&Device) -> Option<u64>);

/// Metrics of a job. Names of counters end in `_total`; all other metrics are gauges.
const JOBS: [JobMetric; 9] = [
    ("cupeer_processes_running", "Processes that run, by job.", |job, _| job.running as f64),
    ("cupeer_processes_died", "Processes that were killed or called exit_group.", |job, _| job.died as f64),
    ("cupeer_calls_total", "Recorded calls of the driver, of what is still in the recordings.", |job, _| {
        job.calls as f64
    }),
    ("cupeer_failed_calls_total", "Recorded calls that returned something else than CUDA_SUCCESS.", |job, _| {
        job.failed as f64
    }),
    ("cupeer_lost_events_total", "Events that recordings could not keep.", |_, processes| {
        processes.iter().map(|process| process.lost).sum::<u64>() as f64
    }),
    ("cupeer_refused_entries_total", "Exports and openings for which the live table had no room.", |job, _| {
        job.refused as f64
    }),
    ("cupeer_job_hung", "1 if 'cupeer run --on-hang' found that the job hangs.", |job, _| {
        f64::from(u8::from(job.hung_since_ns.is_some()))
    }),
    ("cupeer_hanging_processes", "Processes that are in one call for a second or longer.", |_, processes| {
        processes.iter().filter_map(|process| view::hanging_age(process)).count() as f64
    }),
    (
        "cupeer_oldest_unreturned_call_seconds",
        "For how long the oldest call has not returned; 0 where none is under way.",
        |_, processes| {
            let calls = processes.iter().flat_map(|process| &process.unreturned);
            calls.filter_map(|call| call.age_ns).max().unwrap_or(0) as f64 / 1e9
        },
    ),
];

/// Metrics of a device.
const DEVICES: [DeviceMetric; 8] = [
    ("cupeer_shared_bytes", "Memory of a device that running processes have exported and not freed.", |device| {
        Some(device.shared_bytes)
    }),
    ("cupeer_held_bytes", "Memory of a device that other processes hold, each piece once.", |device| {
        Some(device.held_bytes)
    }),
    ("cupeer_exports", "What running processes have exported of a device and not freed.", |device| {
        Some(device.exports)
    }),
    ("cupeer_openings", "What running processes have opened of a device and not closed.", |device| {
        Some(device.openings)
    }),
    ("cupeer_memory_bytes", "Memory of a device, from NVML.", |device| device.total_bytes),
    ("cupeer_used_bytes", "Memory of a device that is in use, from NVML.", |device| device.used_bytes),
    ("cupeer_owned_bytes", "Memory of a device that recorded processes have.", |device| {
        Some(sum_saturating(device.owners.iter().map(|owner| owner.bytes)))
    }),
    ("cupeer_others_bytes", "Memory of a device that processes outside of the recordings have, from NVML.", |device| {
        device.total_bytes.map(|_| sum_saturating(device.others.iter().filter_map(|other| other.bytes)))
    }),
];

/// Returns all metrics in the text format.
pub fn format_metrics(document: &Document) -> String {
    let mut text = String::new();
    for (name, help, value) in JOBS {
        let series = document.jobs.iter().map(|job| {
            let of_job = document.processes.iter().filter(|process| process.who.job == job.name);
            (format_labels(&[("record", &job.name)]), value(job, &of_job.collect::<Vec<_>>()))
        });
        add_metric(&mut text, name, help, series);
    }
    for (name, help, value) in DEVICES {
        let series = document.devices.iter().filter_map(|device| {
            let uuid = device.uuid.as_deref().unwrap_or("unknown");
            Some((format_labels(&[("device", uuid), ("name", &device.name)]), value(device)? as f64))
        });
        add_metric(&mut text, name, help, series);
    }
    let unseen = (String::new(), document.unseen.len() as f64);
    add_metric(&mut text, "cupeer_unseen", "Sentences on what is not seen, as cupeer top says them.", [unseen]);
    text
}

/// Adds a metric with all its series; adds nothing if there are no series.
fn add_metric(text: &mut String, name: &str, help: &str, series: impl IntoIterator<Item = (String, f64)>) {
    let mut series = series.into_iter().peekable();
    if series.peek().is_some() {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        *text += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        text.extend(series.map(|(labels, value)| format!("{name}{labels} {value}\n")));
    }
}

fn format_labels(labels: &[(&str, &str)]) -> String {
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape_label(value))).collect();
    format!("{{{}}}", labels.join(","))
}

fn escape_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_each_metric_is_told_of_once() {
        let job = |name: &str| Job { name: name.into(), calls: 1 << 53, ..Job::default() };
        let document = Document { jobs: vec![job("a\\b\"c\nd"), job("e")], ..Document::default() };
        let text = format_metrics(&document);
        assert!(text.contains(
            "# TYPE cupeer_calls_total counter\n\
             cupeer_calls_total{record=\"a\\\\b\\\"c\\nd\"} 9007199254740992\ncupeer_calls_total{record=\"e\"} 9007199254740992\n"
        ), "{text}");
        assert_eq!(text.matches("# TYPE cupeer_calls_total ").count(), 1);
        // Without devices, there is no series of them.
        assert!(!text.contains("cupeer_shared_bytes") && text.ends_with("cupeer_unseen 0\n"));
    }
}
