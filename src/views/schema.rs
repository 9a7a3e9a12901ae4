//! The schema of the output of `cupeer report --format json`, from the types: their fields, and the comments on them.

use crate::diff::Diff;
use cupeer_report::model::Report;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// Report of a recording, or comparison of two. Names of fields are stable; fields may be added. Fields whose names
/// end in `_ns` contain nanoseconds: times since 1970 (CLOCK_REALTIME), or durations, as each field describes. Times
/// of processes with the same `boot_id` are ordered; no conclusion depends on the order of times across hosts. `proc`
/// names a process, unique in the recording. Example: `cupeer report --format json | jq -r '.findings[] | "\(.rule): \(.message)"'`
#[derive(JsonSchema)]
#[schemars(
    untagged,
    title = "cupeer report --format json",
    extend("$id" = "https://github.com/cupeer/cupeer/blob/main/docs/report.schema.json")
)]
#[allow(dead_code)]
enum Printed {
    Report(Box<Report>),
    Diff(Box<Diff>),
}

/// Returns the JSON schema of a report, which is `docs/report.schema.json`.
pub fn schema() -> Schema {
    of::<Printed>()
}

/// Returns the schema of a type that is printed as JSON.
pub fn of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(simplify_schema));
    settings.into_generator().into_root_schema_for::<T>()
}

/// Puts each description on one line, and removes the widths that numbers have in Rust.
fn simplify_schema(schema: &mut Schema) {
    schema.remove("format");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}
