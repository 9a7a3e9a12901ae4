//! The schema of the output of `cupeer report --format json`, from the types: their fields, and the comments on them.

use crate::diff::Diff;
use crate::model::Report;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// Names stay; more may be added. Fields whose names end in _ns hold nanoseconds: moments of CLOCK_REALTIME since 1970, or
/// durations, as each says. Moments of processes with the same boot_id are ordered; across hosts nothing rests on order.
/// `proc` names a process, unique in the record.
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

/// The schema.
pub fn schema() -> Schema {
    of::<Printed>()
}

/// The schema of what is printed as this type.
pub fn of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(plain));
    settings.into_generator().into_root_schema_for::<T>()
}

/// Comments in one line, and numbers without the width that they have in Rust.
fn plain(schema: &mut Schema) {
    schema.remove("format");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}
