//! The live table of a host, on its way into the archive. It names nobody, so it goes unchanged.

use super::addresses::Addresses;
use super::archive::Archive;
use super::files::Member;
use super::reading::Reading;
use anyhow::Result;
use cupeer_record::LiveTable;
use cupeer_record::plain::{self, Links};
use cupeer_spec::record::BLOCK;

/// Adds the file. Gives what went wrong: sentences without a subject.
pub fn add(member: &Member, addresses: &mut Addresses, archive: &mut Archive) -> Result<Vec<String>> {
    let table = match LiveTable::open(&member.path) {
        Ok(table) => table,
        Err(problem) => return Ok(vec![format!("{problem}, and is left out")]),
    };
    let file = match plain::open(&member.path, Links::Refused).and_then(|file| Reading::of_file(file, true)) {
        Ok(file) => file,
        Err(error) => return Ok(vec![format!("cannot be read: {error}")]),
    };
    addresses.table(&table.entries);
    archive.begin(&member.name, file.size, 0)?;
    let mut problem = None;
    let mut buffer = vec![0; BLOCK];
    for at in (0..file.size).step_by(BLOCK) {
        let bytes = &mut buffer[..(file.size - at).min(BLOCK as u64) as usize];
        match file.piece(at, bytes) {
            Ok(Some(())) => {}
            // Entries show by themselves whether they are whole.
            Ok(None) => problem = Some("changed faster than it could be read".to_owned()),
            Err(error) => {
                bytes.fill(0);
                problem = Some(format!("cannot be read completely: {error}"));
            }
        }
        archive.write(bytes)?;
    }
    Ok(problem.into_iter().collect())
}
