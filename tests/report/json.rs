//! The JSON form: its schema, and what it says of the record as a whole.

use super::scene::Scene;
use super::{json_of, scene};
use serde_json::Value;
use std::sync::OnceLock;

/// Checks a report against the published schema, and that the schema knows all that the report has.
#[track_caller]
pub fn assert_valid(report: &Value) {
    static VALIDATOR: OnceLock<jsonschema::Validator> = OnceLock::new();
    let validator = VALIDATOR.get_or_init(|| validator("report.schema.json"));
    // The alternatives of the root say little of what is wrong.
    let errors: Vec<String> = validator.iter_errors(report).map(|error| format!("{error:?}")).collect();
    assert!(errors.is_empty(), "{:.4000}\n{report:#}", errors.join("\n"));
}

/// Returns a validator for a published schema, which also refuses unknown fields.
pub fn validator(name: &str) -> jsonschema::Validator {
    let path = crate::support::book::root().join("docs").join(name);
    let text = std::fs::read_to_string(path).expect("there is a schema");
    let mut schema: Value = serde_json::from_str(&text).expect("it is JSON");
    assert!(jsonschema::meta::is_valid(&schema));
    close(&mut schema);
    jsonschema::validator_for(&schema).expect("it is a schema")
}

/// Forbids what a schema does not name. Published, it allows it: more may be added.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") {
                object.insert("additionalProperties".into(), false.into());
            }
            object.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

#[test]
fn page_of_the_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/report.schema.json");
    let made = format!("{:#}\n", cupeer_views::schema::schema().to_value());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &made).expect("the schema is writable");
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == made, "docs/report.schema.json is stale: run scripts/docs");
}

#[test]
fn lost_events_escaped_libraries_and_damage_are_told_of() {
    let scene = Scene::new();
    let mut actor = scene.rank(0);
    actor.writer().change_header(|header| (header.lost, header.ended_by) = (7, 28)).unwrap();
    actor.writer().escaped("RTLD_DEEPBIND", "/opt/lib/deep.so").unwrap();
    actor.ends();
    std::fs::write(scene.dir().join("broken.cupeer"), b"nothing").unwrap();
    let report = json_of(&scene, &[]);
    assert_eq!(report["record"]["lost"], 7);
    let problems = report["record"]["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().any(|text| text.as_str().unwrap().contains("No space left on device")));
    assert_eq!(report["escaped"][0]["library"], "/opt/lib/deep.so");
    assert_eq!(report["escaped"][0]["way"], "RTLD_DEEPBIND");
}

#[test]
fn no_handle_stands_in_a_report() {
    // There are only fingerprints in a record; the address of an allocation is no secret.
    let scene = Scene::new();
    let mut actor = scene.rank(0);
    actor.export(100, 0x1122_3344_5566_7788, 0x7000).ends();
    let text = super::of(&scene, &["--format", "json"]);
    assert!(text.contains("ipc:1122334455667788"));
    let checked = format!("{:016x}", scene::checked(0x1122_3344_5566_7788));
    assert!(!text.contains(&checked), "the second fingerprint is for joining alone");
}
