//! The engines: that all read the same, and that the recipes of `docs/fleet` say what the report says. What cannot be had
//! is left out: `scripts/engines` fetches them into `target/engines`.

use super::{export, exports, report, scene};
use crate::support::{self, done, plain, temp_dir};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Folder into which `scripts/engines` downloads.
const PACKAGES: &str = "target/engines";

/// Returns true if an engine is installed, and reports it if not.
fn has(module: &str) -> bool {
    if !Path::new(ROOT).join(PACKAGES).join(module).exists() {
        left_out!("{PACKAGES}/{module} is not there; scripts/engines fetches it");
        return false;
    }
    let java = || std::env::var_os("JAVA_HOME").map_or("java".into(), |home| PathBuf::from(home).join("bin/java"));
    let runs = |java: &Path| plain(java).arg("-version").output().is_ok_and(|ended| ended.status.success());
    if module == SPARK && !runs(&java()) {
        left_out!("Spark, because there is no Java");
        return false;
    }
    true
}

const SPARK: &str = "pyspark";

/// Asks an engine: its answer, or nothing where it cannot be had.
#[track_caller]
fn ask(engine: &str, module: &str, exports: &Path, asked: &[&str]) -> Option<Value> {
    if !has(module) {
        return None;
    }
    let packages = Path::new(ROOT).join(PACKAGES);
    let mut command = plain("python3");
    command.arg(Path::new(ROOT).join("tests/export/engines.py")).arg(engine).arg(exports).args(asked);
    command.env("PYTHONPATH", &packages).current_dir(exports);
    let ended = done(&mut command);
    assert!(ended.status.success(), "{engine}: {}", ended.stderr);
    let line = ended.stdout.lines().last().unwrap_or_default();
    Some(serde_json::from_str(line).unwrap_or_else(|error| panic!("{engine}: {error}: {}", ended.stdout)))
}

/// Those that read tables, and the modules of Python by which they are known.
const ENGINES: [(&str, &str); 6] = [
    ("duckdb", "duckdb"),
    ("pyarrow", "pyarrow"),
    ("pandas", "pandas"),
    ("polars", "polars"),
    ("clickhouse", "chdb"),
    ("spark", SPARK),
];

#[test]
fn all_engines_read_the_same() {
    let (scene, folder) = (scene(), temp_dir());
    let all = exports(&scene.dir(), folder.path());
    export(&scene.dir(), &all.join("another"), &["--job", "another"]);
    let answers: Vec<(&str, Value)> =
        ENGINES.iter().filter_map(|(engine, module)| Some((*engine, ask(engine, module, &all, &["sums"])?))).collect();
    let Some((first, expected)) = answers.first() else { return };
    assert!(expected["call"]["rows_"].as_u64() > Some(60), "{expected}");
    assert!(expected["call"]["s_time_ns"].as_u64() > Some(0), "{expected}");
    for (engine, answer) in &answers {
        for (table, sums) in expected.as_object().unwrap() {
            assert_eq!(&answer[table], sums, "{table} as {engine} and {first} read it");
        }
    }
}

/// The rows of a recipe.
fn of<'a>(answer: &'a Value, recipe: &str) -> &'a Vec<Value> {
    answer[recipe].as_array().unwrap_or_else(|| panic!("no answer to {recipe}"))
}

const RECIPES: [&str; 6] = ["ranks.sql", "holders.sql", "opens.sql", "failures.sql", "growth.sql", "weeks.sql"];
/// Those that read all calls.
const HEAVIEST: [&str; 3] = ["ranks.sql", "opens.sql", "weeks.sql"];

/// Compares what the recipes say of a record with its report.
fn compare(record: &Path, answer: &Value) {
    let report = report(record, &["--all"]);
    let functions = report["functions"].as_array().unwrap();

    let mut deviating = Vec::new();
    for function in functions {
        for row in function["ranks"]["deviating"].as_array().into_iter().flatten() {
            deviating.push(json!([function["function"], row["rank"], row["calls"], row["others"], row["exact"]]));
        }
    }
    deviating.sort_by_key(ToString::to_string);
    let row = |row: &Value| json!([row["function"], row["rank"], row["calls"], row["others"], flag(&row["exact"])]);
    let mut said: Vec<Value> = of(answer, "ranks.sql").iter().map(row).collect();
    said.sort_by_key(ToString::to_string);
    assert_eq!(said, deviating);

    let mut held: BTreeMap<(String, String, String), (u64, u64, u64)> = BTreeMap::new();
    for handle in report["handles"].as_array().unwrap() {
        let opens = handle["opens"].as_array().unwrap().iter().filter(|open| open["closed_ns"].is_null());
        for open in opens {
            let key = (text(&open["proc"]), text(&handle["exporter"]), text(&handle["kind"]));
            let sums = held.entry(key).or_default();
            sums.0 += 1;
            sums.1 += open["times"].as_u64().unwrap();
            sums.2 += handle["bytes"].as_u64().unwrap_or(0);
        }
    }
    let mut said: BTreeMap<(String, String, String), (u64, u64, u64)> = BTreeMap::new();
    for row in of(answer, "holders.sql") {
        let key = (text(&row["proc"]), text(&row["exporter_proc"]), text(&row["kind"]));
        let sums = said.entry(key).or_default();
        sums.0 += number(&row["handles"]);
        sums.1 += number(&row["times"]);
        sums.2 += number(&row["bytes"]);
    }
    assert_eq!(said, held);

    let opens = |function: &&Value| {
        let name = text(&function["function"]);
        name.contains("Open") && name.contains("Handle") || name.contains("Import")
    };
    let opens: Vec<&Value> = functions.iter().filter(opens).collect();
    let sum = |rows: &[Value], name: &str| rows.iter().map(|row| number(&row[name])).sum::<u64>();
    let said = of(answer, "opens.sql");
    assert_eq!(sum(said, "opens"), opens.iter().map(|function| number(&function["calls"])).sum::<u64>());
    let failures = opens.iter().flat_map(|function| function["failures"].as_object().unwrap().values());
    assert_eq!(sum(said, "failed"), failures.map(number).sum::<u64>());
    let longest = |rows: &mut dyn Iterator<Item = &Value>| rows.map(|row| number(&row["max_ns"])).max();
    assert_eq!(longest(&mut said.iter()), longest(&mut opens.into_iter()));

    let usual = |failure: &&Value| {
        let mut groups = report["failure_groups"].as_array().unwrap().iter();
        let is_it = |group: &&Value| group["function"] == failure["function"] && group["result"] == failure["result"];
        !groups.find(is_it).expect("the group")["usual"].as_bool().unwrap()
    };
    let mut first: BTreeMap<String, (u64, String, String)> = BTreeMap::new();
    for failure in report["failures"].as_array().unwrap().iter().filter(usual) {
        let what = (number(&failure["time_ns"]), text(&failure["function"]), text(&failure["result"]));
        first.entry(text(&failure["proc"])).or_insert(what);
    }
    let said = of(answer, "failures.sql");
    assert_eq!(said.len(), first.len());
    for row in said {
        let what = (number(&row["time_ns"]), text(&row["function"]), text(&row["result"]));
        assert_eq!(first[&text(&row["proc"])], what);
    }

    let said = of(answer, "weeks.sql");
    assert_eq!(said.len(), functions.len());
    for function in functions {
        let row = said.iter().find(|row| row["function"] == function["function"]).expect("the function");
        assert_eq!(number(&row["calls"]), number(&function["calls"]));
        assert_eq!(number(&row["total_ns"]), number(&function["total_ns"]));
        if let Some(half) = function["p50_ns"].as_u64() {
            let said = number(&row["p50_ns"]);
            assert!(said.abs_diff(half) <= half / 40 + 1, "{}: {said} and {half}", function["function"]);
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// True, or 1.
fn flag(value: &Value) -> bool {
    value.as_bool().unwrap_or_else(|| value.as_u64() == Some(1))
}

#[test]
fn recipes_say_what_the_report_says() {
    let (scene, folder) = (scene(), temp_dir());
    let all = exports(&scene.dir(), folder.path());
    let Some(answer) = ask("duckdb", "duckdb", &all, &RECIPES) else { return };
    compare(&scene.dir(), &answer);
    assert!(!of(&answer, "ranks.sql").is_empty() && of(&answer, "failures.sql").len() == 2, "{answer}");

    let leaks = report(&scene.dir(), &["--leaks", "--since-mark", "warm", "--until-mark", "done"]);
    let sum = |rows: &[Value], name: &str| rows.iter().map(|row| number(&row[name])).sum::<u64>();
    let (grown, leaks) = (of(&answer, "growth.sql"), leaks["leaks"].as_array().unwrap());
    assert_eq!(sum(grown, "handles"), sum(leaks, "handles"));
    assert_eq!(sum(grown, "bytes"), sum(leaks, "bytes"));
    assert!(sum(grown, "handles") >= 4, "{grown:?}");
}

#[test]
fn recipes_say_the_same_of_programs() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let program = support::compile_c("../scripts/demo.d/share.c", &["-ldl"]);
    let mut run = support::with(&["run", "--sim=nvlink:2", "--record", "full", "-o"]);
    let ended = done(run.arg(&record).arg("--").arg(program));
    assert!(ended.status.success(), "{}", ended.stderr);
    let all = exports(&record, folder.path());
    let Some(answer) = ask("duckdb", "duckdb", &all, &RECIPES) else { return };
    compare(&record, &answer);
    assert!(number(&of(&answer, "opens.sql")[0]["opens"]) >= 1, "{answer}");
}

#[test]
fn jobs_are_compared_with_the_one_before() {
    let (scene, folder) = (scene(), temp_dir());
    let all = exports(&scene.dir(), folder.path());
    export(&scene.dir(), &all.join("next"), &["--job", "next"]);
    let Some(answer) = ask("duckdb", "duckdb", &all, &["weeks.sql"]) else { return };
    let rows = of(&answer, "weeks.sql");
    for row in rows {
        match row["job"].as_str() {
            Some("job") => assert_eq!(row["calls_before"], Value::Null),
            _ => assert_eq!((&row["calls_before"], &row["p50_before_ns"]), (&row["calls"], &row["p50_ns"])),
        }
    }
    assert_eq!(rows.iter().filter(|row| row["job"] == "next").count() * 2, rows.len());
}

#[test]
fn other_engines_answer_the_recipes_as_duckdb_does() {
    let (scene, folder) = (scene(), temp_dir());
    let all = exports(&scene.dir(), folder.path());
    let Some(expected) = ask("duckdb", "duckdb", &all, &RECIPES) else { return };
    for (engine, module, recipes) in [("clickhouse", "chdb", &RECIPES[..]), ("spark", SPARK, &HEAVIEST[..])] {
        let Some(answer) = ask(engine, module, &all, recipes) else { continue };
        assert_same(&answer, &expected, recipes, engine);
    }
}

/// On workers of its own, in processes beside it, as on a site: what it says, it writes as tables.
#[test]
fn spark_writes_the_answers_of_a_site_as_tables() {
    let (scene, folder) = (scene(), temp_dir());
    let all = exports(&scene.dir(), folder.path());
    export(&scene.dir(), &all.join("next"), &["--job", "next"]);
    let answers = folder.path().join("answers");
    let fleet = |recipes: &[&str]| {
        let places = [&all, &answers].map(|place| format!("file://{}", place.display()));
        let mut command = plain(Path::new(ROOT).join("scripts/fleet-spark"));
        done(command.args(places).args(recipes).current_dir(folder.path()))
    };
    let Some(expected) = ask("duckdb", "duckdb", &all, &RECIPES).filter(|_| has(SPARK)) else { return };
    let wrong = fleet(&["seasons"]);
    assert!(wrong.stderr.contains("there is no recipe seasons; there are failures, growth, "), "{}", wrong.stderr);
    assert!(!wrong.status.success() && !answers.exists());
    // Twice: what is there is replaced.
    for recipes in [&["weeks"][..], &[]] {
        let ended = fleet(recipes);
        assert!(ended.status.success(), "{}", ended.stderr);
        let lines: Vec<&str> = ended.stdout.lines().filter(|line| line.ends_with(" rows")).collect();
        assert_eq!(lines.len(), if recipes.is_empty() { RECIPES.len() } else { 1 }, "{}", ended.stdout);
    }
    let answer = ask("duckdb", "duckdb", &answers, &["answers"]).expect("it was there");
    assert_same(&answer, &expected, &RECIPES, "the tables");
}

/// The rows of recipes are the same, in whatever order.
#[track_caller]
fn assert_same(answer: &Value, expected: &Value, recipes: &[&str], who: &str) {
    for recipe in recipes {
        let rows = |answer: &Value| {
            let mut rows: Vec<String> = of(answer, recipe).iter().map(|row| plain_row(row).to_string()).collect();
            rows.sort();
            rows
        };
        assert_eq!(rows(answer), rows(expected), "{recipe} in {who}");
    }
}

/// A row whose flags are numbers, as some engines have them.
fn plain_row(row: &Value) -> Value {
    let plain = |value: &Value| if value.is_boolean() { json!(u8::from(flag(value))) } else { value.clone() };
    let row: BTreeMap<&String, Value> =
        row.as_object().unwrap().iter().map(|(name, value)| (name, plain(value))).collect();
    json!(row)
}
