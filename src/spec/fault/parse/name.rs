//! The name of a rule.

use super::draft::FaultDraft;
use super::span::Span;
use super::{LONGEST_NAME, PlanError};

/// Parses a clause `name=NAME`.
pub fn set_name<'a>(draft: &mut FaultDraft<'a>, value: Span<'a>) -> Result<(), PlanError> {
    if !is_fault_name(value.text) {
        return Err(value.error_at_start(format!(
            "{} is not a name; a name has 1 to {LONGEST_NAME} letters, digits, '.', '_', '-' and '/'",
            value.quoted_for_message()
        )));
    }
    draft.name = Some(value);
    Ok(())
}

/// Returns true if a rule may have this name.
pub fn is_fault_name(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte))
}
