//! The live table of a host, read and written anew into the archive. It names nobody.

use super::addresses::Addresses;
use super::archive::Archive;
use super::files::Member;
use anyhow::Result;
use cupeer_record::LiveTable;

/// Adds the file. Gives what went wrong: sentences without a subject.
pub fn add(member: &Member, addresses: &mut Addresses, archive: &mut Archive) -> Result<Vec<String>> {
    let table = match LiveTable::open(&member.path) {
        Ok(table) => table,
        Err(problem) => return Ok(vec![format!("{problem}, and is left out")]),
    };
    addresses.table(&table.entries);
    archive.add(&member.name, &table.bytes())?;
    Ok(table.problem.into_iter().collect())
}
