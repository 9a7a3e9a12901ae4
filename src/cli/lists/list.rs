//! `cupeer list`: the tables, as text or JSON. Every word comes from the tables themselves.

use crate::lists::{faults, rules};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use cupeer_console::output;
use cupeer_console::output::line_width;
use cupeer_nvidia::format_cuda_version;
use cupeer_spec::env::VARIABLES;
use cupeer_spec::function::{ArgSpec, Direction, FUNCTIONS, FnSpec, Library};
use cupeer_spec::others::{self, OtherFn};
use cupeer_spec::results::ResultSpec;
use cupeer_spec::runtime;
use cupeer_topology::PRESETS;
use cupeer_views::table::Table;
use serde_json::{Value, json};
use std::process::ExitCode;

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum ListFormat {
    /// A table that fits the terminal.
    Text,
    /// An array of objects; of faults one object with two of them.
    Json,
}

#[derive(Args)]
pub struct ListArgs {
    /// Topic
    pub what: Topic,
    /// Print a table or JSON
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: ListFormat,
    /// With functions: include functions of the simulated driver that cupeer does not intercept (they have no group)
    #[arg(long)]
    pub all: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Driver functions that cupeer intercepts
    Functions,
    /// Result codes of the driver
    #[value(alias = "results")]
    Errors,
    /// Machines that the simulated driver can simulate
    Topologies,
    /// Environment variables
    #[value(alias = "variables")]
    Environment,
    /// Rules that cupeer checks, and those that it cannot check
    Rules,
    /// Keys of fault plans, and what a plan can change in each function
    Faults,
}

pub fn command(args: &ListArgs) -> Result<ExitCode> {
    if args.all && args.what != Topic::Functions {
        bail!("--all works only with 'functions'; the other lists are complete");
    }
    let others = if args.all { others::sorted_by_name() } else { Vec::new() };
    if args.format == ListFormat::Json {
        return output::print_json(&match args.what {
            Topic::Functions => FUNCTIONS.iter().map(function_json).chain(others.iter().map(other_json)).collect(),
            Topic::Errors => all_results().map(error_json).collect(),
            Topic::Topologies => PRESETS.iter().map(|p| json!({"topology": p.pattern, "meaning": p.doc})).collect(),
            Topic::Environment => {
                VARIABLES.iter().map(|v| json!({"name": v.name, "value": v.value, "meaning": v.doc})).collect()
            }
            Topic::Rules => rules::rules_json(),
            Topic::Faults => faults::list_json(),
        });
    }
    let table = match args.what {
        Topic::Functions => functions_table(&others),
        Topic::Errors => {
            let row =
                |r: &ResultSpec| [r.number.to_string(), r.name().into(), r.library_text().into(), r.meaning().into()];
            build_table(["CODE", "NAME", "STRING", "MEANING"], 3, 60, all_results().map(row))
        }
        Topic::Topologies => {
            let rows = PRESETS.iter().map(|p| [p.pattern.into(), p.doc.into()]);
            build_table(["TOPOLOGY", "MACHINE"], 2, 40, rows)
        }
        Topic::Environment => {
            let rows = VARIABLES.iter().map(|v| [v.name.into(), v.value.into(), v.doc.into()]);
            build_table(["NAME", "VALUE", "MEANING"], 3, 40, rows)
        }
        Topic::Rules => rules::rules_table(),
        Topic::Faults => return output::print(&faults::format_list(line_width())),
    };
    output::print(&table.render(line_width()))
}

/// Returns the result codes of all libraries, starting with the driver's.
pub fn all_results() -> impl Iterator<Item = &'static ResultSpec> {
    [Library::Cuda, Library::Nvml].into_iter().flat_map(|library| library.results())
}

/// Returns the groups of a function: `@ipc @open`.
pub fn format_groups(function: &FnSpec) -> String {
    function.groups().map(|group| format!("@{}", group.name())).collect::<Vec<_>>().join(" ")
}

pub fn format_prototype(function: &FnSpec) -> String {
    let declared = |arg: &ArgSpec| {
        let c_type = arg.c_type();
        let space = if c_type.ends_with('*') { "" } else { " " };
        format!("{c_type}{space}{}", arg.name())
    };
    let args: Vec<String> = function.args().iter().map(declared).collect();
    let args = if args.is_empty() { "void".into() } else { args.join(", ") };
    format!("{} {}({args})", function.library.result_type(), function.name())
}

pub fn direction_word(direction: Direction) -> &'static str {
    match direction {
        Direction::In => "in",
        Direction::Out => "out",
        Direction::InOut => "inout",
        Direction::String => "string",
    }
}

fn function_json(f: &FnSpec) -> Value {
    let args: Vec<Value> = f
        .args()
        .iter()
        .map(|a| json!({"name": a.name(), "type": a.c_type(), "direction": direction_word(a.direction), "count": a.count_argument()}))
        .collect();
    json!({
        "function": f.name(),
        "meaning": f.doc(),
        "library": f.library.soname(),
        "lookup": (!f.lookup().is_empty()).then_some(f.lookup()),
        "since": (!f.lookup().is_empty()).then(|| format_cuda_version(f.since)),
        "runtime": runtime::runtime_name_of(f),
        "groups": f.groups().map(|group| group.name()).collect::<Vec<_>>(),
        "prototype": format_prototype(f),
        "args": args,
        "results": f.documented_results().filter_map(|number| f.result_name(number)).collect::<Vec<_>>(),
        "seen": f.undocumented_results().iter().filter_map(|number| f.result_name(*number)).collect::<Vec<_>>(),
        "simulated": f.simulated.name(),
        "intercepted": true,
    })
}

fn other_json(f: &OtherFn) -> Value {
    json!({
        "function": f.symbol,
        "lookup": (!f.lookup.is_empty()).then_some(f.lookup),
        "since": (!f.lookup.is_empty()).then(|| format_cuda_version(f.since)),
        "simulated": f.simulated.name(),
        "intercepted": false,
    })
}

/// Returns the name under which cuGetProcAddress finds a function, and the first CUDA version with that name.
fn lookup_columns(lookup: &str, since: u32) -> (String, String) {
    if lookup.is_empty() { ("-".into(), "-".into()) } else { (lookup.into(), format_cuda_version(since)) }
}

fn error_json(r: &ResultSpec) -> Value {
    json!({
        "number": r.number,
        "name": r.name(),
        "string": r.library_text(),
        "meaning": r.meaning(),
        "library": r.library.soname(),
        "runtime": runtime::runtime_result_name(r),
    })
}

fn functions_table(others: &[OtherFn]) -> Table {
    let mut table = Table::new(
        &[
            "FUNCTION",
            "SINCE",
            "SIMULATED",
            "GROUPS",
            "LOOKED UP AS",
            "IN THE RUNTIME",
            "DOCUMENTED RESULTS",
            "SEEN RESULTS",
        ],
        if others.is_empty() { 4 } else { 3 },
        40,
    );
    for f in FUNCTIONS {
        let (lookup, since) = lookup_columns(f.lookup(), f.since);
        let names = |codes: &mut dyn Iterator<Item = i32>| {
            codes.filter_map(|number| f.result(number)).map(ResultSpec::short_name).collect::<Vec<_>>().join(" ")
        };
        let [results, seen] =
            [names(&mut f.documented_results()), names(&mut f.undocumented_results().iter().copied())];
        let runtime = runtime::runtime_name_of(f).unwrap_or("-").to_owned();
        table.push_row([
            f.name().into(),
            since,
            f.simulated.name().into(),
            format_groups(f),
            lookup,
            runtime,
            results,
            seen,
        ]);
    }
    for f in others {
        let (lookup, since) = lookup_columns(f.lookup, f.since);
        let simulated = f.simulated.name().to_owned();
        table.push_row([
            f.symbol.into(),
            since,
            simulated,
            "-".into(),
            lookup,
            "-".into(),
            String::new(),
            String::new(),
        ]);
    }
    table
}

fn build_table<const N: usize>(
    head: [&str; N],
    needed: usize,
    least: usize,
    rows: impl Iterator<Item = [String; N]>,
) -> Table {
    let mut table = Table::new(&head, needed, least);
    rows.for_each(|row| table.push_row(row));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::function::FnId;

    #[test]
    fn prototypes_read_as_in_cuda_h() {
        assert_eq!(
            format_prototype(FnId::cuGetProcAddress_v2.spec()),
            "CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags, \
             CUdriverProcAddressQueryResult *symbolStatus)"
        );
    }
}
