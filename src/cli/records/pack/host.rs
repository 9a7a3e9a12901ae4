//! What a host leaves beside its processes, read and written anew into the archive: its live table, which names nobody,
//! and what fault plans did on it. What only running processes need is left out.
//!
//! Each function gives what went wrong: sentences without a subject.

use super::addresses::Addresses;
use super::archive::Archive;
use super::files::Member;
use super::redact::Redaction;
use anyhow::Result;
use cupeer_record::{FaultFile, LiveTable};

pub fn add_table(member: &Member, addresses: &mut Addresses, archive: &mut Archive) -> Result<Vec<String>> {
    let table = match LiveTable::open(&member.path) {
        Ok(table) => table,
        Err(problem) => return Ok(vec![format!("{problem}, and is left out")]),
    };
    addresses.table(&table.entries);
    archive.add(&member.name, &table.bytes())?;
    Ok(table.problem.into_iter().collect())
}

pub fn add_faults(member: &Member, redaction: &Redaction, archive: &mut Archive) -> Result<Vec<String>> {
    let mut file = match FaultFile::open(&member.path) {
        Ok(file) => file,
        Err(problem) => return Ok(vec![format!("{problem}, and is left out")]),
    };
    file.rules.iter_mut().for_each(|rule| rule.text = redaction.rule(&rule.text));
    archive.add(&member.name, &file.bytes())?;
    Ok(file.problem.into_iter().collect())
}
