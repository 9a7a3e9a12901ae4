//! The report as JSON: the rows of the model, unchanged.

use crate::base::terminal::write_json;
use crate::views::form::{Cleaning, Comparison, Form, Given};
use anyhow::Result;
use std::io::{self, Write};

/// Form `json`.
pub struct JsonForm;

impl Form for JsonForm {
    fn name(&self) -> &'static str {
        "json"
    }

    fn help(&self) -> &'static str {
        "One object (docs/report.schema.json)"
    }

    fn cleaning(&self) -> Cleaning {
        Cleaning::Own
    }

    fn render(&self, given: &mut Given, out: &mut dyn Write) -> Result<io::Result<()>> {
        Ok(write_json(out, given.report(true)?))
    }

    fn comparison(&self) -> Option<Comparison> {
        Some(Comparison { title: "JSON", render: |diff, _, out| write_json(out, diff) })
    }
}
