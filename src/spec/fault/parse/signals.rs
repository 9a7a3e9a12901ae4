//! The reading of signals: by name or number.

use super::PlanError;
use super::span::Span;
use super::values::parse_number;
use crate::names::find_nearest_name;
use crate::signals::NAMES;

/// Parses a signal: its name, with or without SIG, or its number.
pub fn parse_signal(text: Span) -> Result<i32, PlanError> {
    if text.text.is_empty() {
        return Err(text.error_at_start("a signal is missing here, such as SEGV or 11"));
    }
    if text.text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(parse_number(text, 1, 64, "11")? as i32);
    }
    let upper = text.text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some(at) = NAMES.iter().position(|known| *known == name) {
        return Ok(at as i32 + 1);
    }
    let hint = match find_nearest_name(name, NAMES) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => "write it as in 'kill -l', or a number from 1 to 64".into(),
    };
    Err(text.error_at_start(format!("there is no signal {}; {hint}", text.quoted_for_message())))
}
