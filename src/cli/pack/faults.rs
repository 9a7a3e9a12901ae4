//! What fault plans did on a host, on its way into the archive: rules with their counts, and what was damaged. What only
//! running processes need is left out.

use super::archive::Archive;
use super::files::Member;
use super::redact::Redaction;
use anyhow::Result;
use cupeer_record::FaultFile;

/// Adds the file. Gives what went wrong: sentences without a subject.
pub fn add(member: &Member, redaction: &Redaction, archive: &mut Archive) -> Result<Vec<String>> {
    let mut file = match FaultFile::open(&member.path) {
        Ok(file) => file,
        Err(problem) => return Ok(vec![format!("{problem}, and is left out")]),
    };
    for rule in &mut file.rules {
        rule.text = redaction.rule(&rule.text);
    }
    archive.add(&member.name, &file.bytes())?;
    Ok(file.problem.into_iter().collect())
}
