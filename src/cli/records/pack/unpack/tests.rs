//! Archives that somebody else made.

use super::{ALWAYS_ALLOWED_SIZE, FileLimits, MOST_RATIO, unpack_to_temporary, write_files};
use flate2::{Compression, write::GzEncoder};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

type Archive = Builder<GzEncoder<Vec<u8>>>;

fn packed(fill: impl FnOnce(&mut Archive)) -> (TempDir, PathBuf) {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    fill(&mut archive);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.cupeer.tar.gz");
    std::fs::write(&path, archive.into_inner().unwrap().finish().unwrap()).unwrap();
    (directory, path)
}

/// Adds a file, whatever its name.
fn add(archive: &mut Archive, name: &str, kind: EntryType, size: u64, bytes: impl Read) {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o4777);
    if kind.is_symlink() || kind.is_hard_link() {
        header.set_link_name("/etc/passwd").unwrap();
    }
    header.set_cksum();
    archive.append(&header, bytes).unwrap();
}

fn end(archive: &mut Archive) {
    add(archive, "cupeer-record/pack.json", EntryType::Regular, 2, &b"{}"[..]);
}

#[track_caller]
fn refused(path: &std::path::Path, why: &str) {
    let Err(error) = unpack_to_temporary(path) else { panic!("it was unpacked") };
    let error = format!("{error:#}");
    assert!(error.contains(why) && !error.contains('\n'), "{error}");
}

#[test]
fn only_plain_files_with_the_names_of_a_record_are_taken() {
    for name in [
        "../../x.cupeer",
        "/tmp/x.cupeer",
        "cupeer-record/../x.cupeer",
        "cupeer-record/a/x.cupeer",
        "cupeer-record/1/2/x.cupeer",
        "cupeer-record/1/symbols.json",
        "cupeer-record/notes.txt",
        "cupeer-record",
        "x.cupeer",
        "other/x.cupeer",
    ] {
        let (_directory, path) = packed(|archive| {
            add(archive, name, EntryType::Regular, 1, &b"x"[..]);
            end(archive);
        });
        refused(&path, "does not belong in a packed recording");
    }
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Fifo, EntryType::Directory, EntryType::Char] {
        let (_directory, path) = packed(|archive| {
            add(archive, "cupeer-record/x.cupeer", kind, 0, io::empty());
            end(archive);
        });
        refused(&path, "does not belong in a packed recording");
    }
}

#[test]
fn a_file_comes_once_and_nothing_after_the_end() {
    let twice = |archive: &mut Archive| {
        for _ in 0..2 {
            add(archive, "cupeer-record/job", EntryType::Regular, 1, &b"x"[..]);
        }
        end(archive);
    };
    refused(&packed(twice).1, "File exists");
    let after = |archive: &mut Archive| {
        end(archive);
        add(archive, "cupeer-record/job", EntryType::Regular, 1, &b"x"[..]);
    };
    refused(&packed(after).1, "there is something after its end");
}

#[test]
fn truncated_and_damaged_archives_are_refused() {
    let (_directory, path) = packed(|archive| add(archive, "cupeer-record/job", EntryType::Regular, 1, &b"x"[..]));
    refused(&path, "it is incomplete");
    let (_directory, path) = packed(end);
    let whole = std::fs::read(&path).unwrap();
    assert!(unpack_to_temporary(&path).is_ok());
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        refused(&path, "failed to unpack ");
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] = !bytes[at];
        std::fs::write(&path, bytes).unwrap();
        let _ = unpack_to_temporary(&path);
    }
    std::fs::write(&path, "no archive").unwrap();
    refused(&path, "it is damaged, or not a packed recording");
}

#[test]
fn holes_stay_holes_and_bombs_are_refused() {
    const HOLE: u64 = 1 << 26;
    let (_directory, path) = packed(|archive| {
        add(archive, "cupeer-record/1/x.cupeer", EntryType::Regular, HOLE, io::repeat(0).take(HOLE));
        end(archive);
    });
    let unpacked = unpack_to_temporary(&path).unwrap();
    let place = unpacked.directory_path().join("1/x.cupeer");
    let file = place.metadata().unwrap();
    assert_eq!((file.len(), file.mode() & 0o7000), (HOLE, 0));
    assert!(file.blocks() < 1024, "{}", file.blocks());
    drop(unpacked);
    assert!(!place.exists());

    let size = ALWAYS_ALLOWED_SIZE + 4096;
    let (_directory, path) = packed(|archive| {
        add(archive, "cupeer-record/x.cupeer", EntryType::Regular, size, io::repeat(1).take(size));
        end(archive);
    });
    assert!(path.metadata().unwrap().len() * MOST_RATIO < size);
    refused(&path, "it unpacks to far more than a file of this size can hold");
}

#[test]
fn announced_files_that_are_missing_are_refused() {
    let mut header = Header::new_gnu();
    header.set_path("cupeer-record/x.cupeer").unwrap();
    header.set_size(1 << 60);
    header.set_cksum();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(header.as_bytes()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.cupeer.tar.gz");
    std::fs::write(&path, encoder.finish().unwrap()).unwrap();
    refused(&path, "it is damaged");
}

#[test]
fn too_many_files_are_counted_before_they_are_written() {
    let most = FileLimits { written: 10, all: 30 };
    let unpack = |count: usize| {
        let (_directory, path) = packed(|archive| {
            for number in 1..count {
                add(archive, &format!("cupeer-record/{number}.cupeer"), EntryType::Regular, 1, &b"x"[..]);
            }
            end(archive);
        });
        let place = tempfile::tempdir().unwrap();
        let result = write_files(&path, place.path(), most).map_err(|error| format!("{error:#}"));
        (result.map(drop), std::fs::read_dir(place.path()).unwrap().count())
    };
    for count in [most.written, most.written + 1, most.all] {
        assert_eq!(unpack(count), (Ok(()), count));
    }
    for count in [most.all + 1, 2 * most.all] {
        assert_eq!(unpack(count), (Err("it has more than 30 files".to_owned()), most.written));
    }
}
