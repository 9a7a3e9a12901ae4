//! The entries about a process in its recording, rewritten for the archive.
//!
//! Everything between the entries becomes zero: a process that died while it wrote one has left its bytes there.

use super::redact::Redaction;
use cupeer_record::Library;
use cupeer_spec::record::meta::{self, ALIGN, Head, MAGIC};

const HEAD: usize = size_of::<Head>();

/// Redacts the entries of a block. Returns the number of entries that were left out for lack of room, because the
/// replacement for redacted data may be longer than the data.
pub fn redact_block(block: &mut [u8], start: usize, redaction: &Redaction, mut found: impl FnMut(Library)) -> usize {
    if block.len() <= start {
        return 0;
    }
    let mut kept: Vec<(u16, Vec<u8>)> = Vec::new();
    for entry in meta::entries(block, start) {
        if entry.tag == meta::LIBRARY {
            cupeer_record::parse_library(entry.bytes).map(&mut found);
        }
        kept.extend(redaction.redact_entry(entry.tag, entry.bytes).map(|bytes| (entry.tag, bytes)));
    }
    let count = kept.len();
    drop_entries_to_fit(&mut kept, block.len() - start);
    block[start..].fill(0);
    let mut at = start;
    for (tag, bytes) in &kept {
        block[at..at + 2].copy_from_slice(&MAGIC.to_le_bytes());
        block[at + 2..at + 4].copy_from_slice(&tag.to_le_bytes());
        block[at + 4..at + HEAD].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        block[at + HEAD..at + HEAD + bytes.len()].copy_from_slice(bytes);
        at += entry_size(bytes);
    }
    count - kept.len()
}

/// Removes entries until all fit into `room` bytes, beginning with the least important kinds.
fn drop_entries_to_fit(entries: &mut Vec<(u16, Vec<u8>)>, room: usize) {
    // The last entry needs no padding; the size of a block is no multiple of ALIGN if its file was cut off.
    let mut all: usize = entries.iter().map(|(_, bytes)| entry_size(bytes)).sum();
    for least in [Some(meta::VARIABLE), Some(meta::ARGUMENT), None] {
        while all > room {
            let Some(last) = entries.iter().rposition(|(tag, _)| least.is_none_or(|least| least == *tag)) else {
                break;
            };
            all -= entry_size(&entries.remove(last).1);
        }
    }
}

fn entry_size(bytes: &[u8]) -> usize {
    (HEAD + bytes.len()).next_multiple_of(ALIGN)
}

/// Clears all entries in the second reading of a block that the first reading did not have.
pub fn clear_unannounced(first: &[u8], second: &mut [u8], start: usize) {
    if second.len() <= start {
        return;
    }
    let read = second.to_vec();
    second[start..].fill(0);
    for entry in meta::entries(first, start) {
        let (head, end) = (entry.at - HEAD, entry.at + entry.bytes.len());
        second[head..entry.at].copy_from_slice(&first[head..entry.at]);
        second[entry.at..end].copy_from_slice(&read[entry.at..end]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::pack::redact::Redact;

    fn block(entries: &[(u16, &[u8])]) -> Vec<u8> {
        let mut block = Vec::new();
        for (tag, bytes) in entries {
            block.extend(MAGIC.to_le_bytes());
            block.extend(tag.to_le_bytes());
            block.extend((bytes.len() as u32).to_le_bytes());
            block.extend(*bytes);
            block.resize(block.len().next_multiple_of(ALIGN), 0);
        }
        block
    }

    fn texts(block: &[u8]) -> Vec<(u16, String)> {
        meta::entries(block, 0).map(|e| (e.tag, String::from_utf8_lossy(e.bytes).into_owned())).collect()
    }

    #[test]
    fn incomplete_entries_are_not_kept() {
        let mut bytes = block(&[(meta::ARGUMENT, b"one"), (meta::ARGUMENT, b"a secret of some length")]);
        bytes[16] = 0;
        bytes.extend(block(&[(meta::ARGUMENT, b"two")]));
        redact_block(&mut bytes, 0, &Redaction::new(&[], [].into_iter(), [].into_iter()), |_| ());
        assert_eq!(texts(&bytes), [(meta::ARGUMENT, "one".into()), (meta::ARGUMENT, "two".into())]);
        assert!(!String::from_utf8_lossy(&bytes).contains("secret"));
    }

    #[test]
    fn variables_are_dropped_first_for_lack_of_space() {
        let library = [&[0u8; 33][..], b"/a/liblonger2.so"].concat();
        let mut bytes = block(&[(meta::VARIABLE, b"RANK=1"), (meta::ARGUMENT, b"x"), (meta::LIBRARY, &library)]);
        let redaction = Redaction::new(&[Redact::Paths], [].into_iter(), [].into_iter());
        let mut libraries = Vec::new();
        assert_eq!(redact_block(&mut bytes, 0, &redaction, |library| libraries.push(library.path)), 1);
        assert_eq!(libraries, ["/a/liblonger2.so"]);
        let kept = texts(&bytes);
        assert_eq!((kept.len(), kept[0].0, kept[1].0), (2, meta::ARGUMENT, meta::LIBRARY));
        assert!(kept[1].1.ends_with("/liblonger2.so") && kept[1].1.contains("/~"));
    }

    #[test]
    fn an_entry_that_appears_between_two_readings_waits() {
        let second = block(&[(meta::ARGUMENT, b"one"), (meta::ARGUMENT, b"two")]);
        let mut first = second.clone();
        first[16..].fill(0);
        let mut both = second.clone();
        clear_unannounced(&first, &mut both, 0);
        assert_eq!(texts(&both), [(meta::ARGUMENT, "one".into())]);
    }
}
