//! Processes that run on after the program with device files open that they inherited: the driver keeps the device memory of the
//! process that opened these until they end.

use super::watch::{descendants, process_name, recording_name};
use std::fs;
use std::path::Path;

/// Beginnings of paths of device files, for NVIDIA's driver and for the simulated driver.
const DEVICE_FILES: [&str; 2] = ["/dev/nvidia", "/memfd:nvidia"];
/// Maximum number of processes that get a sentence; further ones are omitted.
const MOST_NAMED: usize = 3;

/// Returns a sentence for each descendant of this process that has device files open and made no recorded call.
pub fn unrecorded_device_users(record: Option<&Path>) -> Vec<String> {
    let own = std::process::id();
    let recorded: Vec<String> = record.into_iter().flat_map(file_names).collect();
    let has_record = |pid: u32| recording_name(pid).is_none_or(|name| recorded.iter().any(|it| it.contains(&name)));
    let others = descendants(own).into_iter().filter(|pid| *pid != own && !has_record(*pid));
    let sentence = |pid: u32| {
        let file = find_device_file(&Path::new("/proc").join(pid.to_string()))?;
        Some(format!(
            "process {pid} ({}), which made no recorded call, is still running with {file} open: if it was forked from a process \
             that used CUDA and has ended, the driver keeps the device memory of that process until process {pid} ends; start \
             workers before CUDA is initialized, or by spawn",
            process_name(pid)
        ))
    };
    others.filter_map(sentence).take(MOST_NAMED).collect()
}

fn file_names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Returns the first device file that a process has open, by its folder in /proc.
fn find_device_file(process: &Path) -> Option<String> {
    let links = fs::read_dir(process.join("fd")).ok()?.flatten();
    let mut files = links.filter_map(|link| fs::read_link(link.path()).ok()?.into_os_string().into_string().ok());
    let file = files.find(|file| DEVICE_FILES.iter().any(|start| file.starts_with(start)))?;
    Some(file.trim_end_matches(" (deleted)").to_owned())
}

#[cfg(test)]
mod tests {
    use super::find_device_file;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn device_files_are_told_from_other_files() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(find_device_file(folder.path()), None);
        let links = folder.path().join("fd");
        fs::create_dir(&links).unwrap();
        for (number, target) in ["/dev/null", "pipe:[17]", "/tmp/dev/nvidia0"].iter().enumerate() {
            symlink(target, links.join(number.to_string())).unwrap();
        }
        assert_eq!(find_device_file(folder.path()), None);
        symlink("/dev/nvidia0", links.join("7")).unwrap();
        assert_eq!(find_device_file(folder.path()).as_deref(), Some("/dev/nvidia0"));
    }
}
