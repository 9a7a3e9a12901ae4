//! The report as JSON: the rows of the model, unchanged.

use crate::form::{Cleaning, Comparison, FormInput, FormProperties, ReportForm};
use anyhow::Result;
use cupeer_report::terminal::write_json;
use std::io::{self, Write};

/// Form `json`.
pub struct JsonForm;

impl ReportForm for JsonForm {
    fn properties(&self) -> FormProperties {
        let comparison = Some(Comparison { title: "JSON", render: |diff, _, out| write_json(out, diff) });
        let cleaning = Cleaning::Own;
        FormProperties {
            cleaning,
            comparison,
            needs_callers: true,
            ..FormProperties::new("json", "One object (docs/report.schema.json)")
        }
    }

    fn render(&self, given: &mut FormInput, out: &mut dyn Write) -> Result<io::Result<()>> {
        Ok(write_json(out, given.report()?))
    }
}
