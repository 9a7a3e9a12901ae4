//! The report as JSON: the rows of the model, unchanged.

use crate::form::{About, Cleaning, Comparison, Form, Given};
use anyhow::Result;
use cupeer_report::terminal::write_json;
use std::io::{self, Write};

/// Form `json`.
pub struct JsonForm;

impl Form for JsonForm {
    fn about(&self) -> About {
        let comparison = Some(Comparison { title: "JSON", render: |diff, _, out| write_json(out, diff) });
        let cleaning = Cleaning::Own;
        About {
            cleaning,
            comparison,
            has_callers: true,
            ..About::new("json", "One object (docs/report.schema.json)")
        }
    }

    fn render(&self, given: &mut Given, out: &mut dyn Write) -> Result<io::Result<()>> {
        Ok(write_json(out, given.report()?))
    }
}
