//! `cupeer explain`: everything that the tables say about one function, result code, rule or key of fault plans.

use crate::lists::list::{self, direction_word, format_groups, format_prototype};
use crate::lists::{faults, rules};
use anyhow::{Result, bail};
use clap::Args;
use cupeer_console::output;
use cupeer_console::output::line_width;
use cupeer_nvidia::format_cuda_version;
use cupeer_rules::RULES;
use cupeer_spec::function::{FUNCTIONS, Fidelity, FnSpec, Library};
use cupeer_spec::names::find_nearest_name;
use cupeer_spec::others::{self, OtherFn};
use cupeer_spec::results::{self, ResultSpec};
use cupeer_spec::{fault, runtime};
use cupeer_views::table::{Table, wrap};
use std::collections::BTreeSet;
use std::process::ExitCode;

#[derive(Args)]
pub struct ExplainArgs {
    /// Driver function, rule, key of fault plans, or result code (a number, or a name with or without CUDA_ERROR_)
    #[arg(allow_negative_numbers = true)]
    pub name: String,
}

pub fn command(args: &ExplainArgs) -> Result<ExitCode> {
    let name = args.name.trim();
    if let Some(found) = runtime::find_function(name) {
        let newest = found.driver_functions().max_by_key(|f| f.since).map_or(String::new(), describe_function);
        let meant = wrap_paragraph(&(found.explanation() + "."), line_width());
        return output::print(&format!("{meant}\n{newest}"));
    }
    if let Some(found) = FUNCTIONS.iter().find(|f| f.name().eq_ignore_ascii_case(name)) {
        return output::print(&describe_function(found));
    }
    let others = others::sorted_by_name();
    if let Some(found) = others.iter().find(|f| f.symbol.eq_ignore_ascii_case(name)) {
        return output::print(&describe_other_function(found));
    }
    if let Some(found) = RULES.iter().find(|rule| rule.name().eq_ignore_ascii_case(name)) {
        return output::print(&rules::explain_rule(found, line_width()));
    }
    let hexadecimal = name.strip_prefix("0x").and_then(|digits| i32::from_str_radix(digits, 16).ok());
    // A number means the driver's result; so does a name without prefix, even if other libraries have that name, too.
    let found = hexadecimal.and_then(results::find_spec).or_else(|| results::parse_result_code(name));
    let found = found.or_else(|| Library::Cudart.parse_result(name));
    let is_name = name.parse::<i64>().is_err();
    if let Some(found) = found.or_else(|| Library::Nvml.parse_result(name).filter(|_| is_name)) {
        // The name may be the CUDA runtime's name of the result.
        let meant = runtime::find_result(name).map_or(String::new(), |found| {
            wrap_paragraph(&(runtime::explain_result(found) + "."), line_width()) + "\n"
        });
        return output::print(&(meant + &describe_result(found)));
    }
    if let Some(found) = fault::keys().find(|key| key.name.eq_ignore_ascii_case(name)) {
        return output::print(&faults::explain_key(found, line_width()));
    }
    if !is_name {
        bail!("no result code has the number {name}; 'cupeer list errors' lists them all");
    }
    let codes = || list::all_results();
    let short = codes().map(ResultSpec::short_name);
    let names = FUNCTIONS.iter().map(|f| f.name()).chain(others.iter().map(|f| f.symbol));
    let names = names.chain(codes().map(ResultSpec::name)).chain(short).chain(runtime::all_names());
    let names = names.chain(RULES.iter().map(|rule| rule.name())).chain(fault::keys().map(|key| key.name));
    let names: Vec<&str> = names.collect();
    let none = format!("no function, result code, rule or key of fault plans is named '{name}'");
    let like = names_containing(name, &names);
    match find_nearest_name(name, names).filter(|_| !name.is_empty()) {
        Some(meant) => bail!("{none}; did you mean '{meant}'?"),
        None if !like.is_empty() => bail!("{none}; did you mean {}?", like.join(", ")),
        None => bail!("{none}; 'cupeer list' with functions, errors, rules or faults lists them all"),
    }
}

/// Returns the names that contain `part`, quoted; none if there are too many.
fn names_containing(part: &str, names: &[&str]) -> Vec<String> {
    const MOST: usize = 8;
    let part = part.to_ascii_lowercase();
    let has_it = |name: &&&str| part.len() > 2 && name.to_ascii_lowercase().contains(&part);
    let found: BTreeSet<&&str> = names.iter().filter(has_it).collect();
    let found = found.into_iter().map(|name| format!("'{name}'"));
    Some(found.collect()).filter(|found: &Vec<_>| found.len() <= MOST).unwrap_or_default()
}

fn describe_fidelity(fidelity: Fidelity) -> &'static str {
    match fidelity {
        Fidelity::Recorded => "its answers are compared with those recorded on a real driver",
        Fidelity::Documented => "it answers as the documentation says, which was not compared with a real driver",
        Fidelity::Inferred => "its answers are inferred: the documentation is silent",
        Fidelity::Unsupported => "missing: it answers CUDA_ERROR_NOT_SUPPORTED",
        Fidelity::Absent => "its library is not simulated",
    }
}

fn wrap_paragraph(text: &str, width: usize) -> String {
    wrap(text, width).join("\n") + "\n"
}

fn describe_function(f: &FnSpec) -> String {
    let width = line_width();
    let whole = format_prototype(f) + ";";
    let mut text = whole.clone() + "\n";
    if whole.len() > width {
        let (head, args) = whole.split_once('(').unwrap_or((&whole, ""));
        text = format!("{head}(\n    {}\n", args.replace(", ", ",\n    ").replace(");", "\n);"));
    }
    text += &format!("\n{}\n", wrap_paragraph(&f.doc(), width));
    let mut facts = Table::new(&["", ""], 2, 40);
    facts.push_row(["library".into(), f.library.soname().into()]);
    if !f.lookup().is_empty() {
        facts.push_row([
            "looked up as".into(),
            format!("{}, from version {} on", f.lookup(), format_cuda_version(f.since)),
        ]);
    }
    facts.push_row(["groups".into(), format_groups(f)]);
    facts.push_row(["simulated".into(), format!("{}: {}", f.simulated.name(), describe_fidelity(f.simulated))]);
    text += facts.render(width).trim_start();

    let mut args = Table::new(&["ARGUMENT", "DIRECTION", "TYPE"], 3, 20);
    for (index, arg) in f.args().iter().enumerate() {
        let mut c_type = arg.c_type();
        if let Some(count) = arg.count_argument() {
            c_type += &format!(", an array with {} elements", f.args()[count].name());
        } else if f.hands_out() == Some(index) {
            c_type += ", receives the function";
        }
        args.push_row([arg.name().into(), direction_word(arg.direction).into(), c_type]);
    }
    let mut results = Table::new(&["CODE", "DOCUMENTED RESULT", "MEANING"], 3, 20);
    let mut seen = Table::new(&["CODE", "SEEN, NOT DOCUMENTED", "MEANING"], 3, 20);
    let row = |number| f.result(number).map(|r| [r.number.to_string(), r.name().into(), r.meaning().into()]);
    f.documented_results().filter_map(row).for_each(|cells| results.push_row(cells));
    f.undocumented_results().iter().copied().filter_map(row).for_each(|cells| seen.push_row(cells));
    text += &["", &args.render(width), &results.render(width)].join("\n");
    let more = [seen, rules::rules_table_for(f), rules::probes_table_for(f), rules::causes_without_rule(f)];
    for table in more.iter().filter(|table| !table.is_empty()) {
        text += &format!("\n{}", table.render(width));
    }
    text
}

/// Describes a driver function that cupeer does not intercept.
fn describe_other_function(f: &OtherFn) -> String {
    let lookup = match f.lookup {
        "" => "not found by look-up".to_owned(),
        name => format!("{name}, from version {} on", format_cuda_version(f.since)),
    };
    let mut facts = Table::new(&["", ""], 2, 40);
    facts.push_row(["library".into(), "libcuda.so.1".into()]);
    facts.push_row(["looked up as".into(), lookup]);
    facts.push_row(["simulated".into(), format!("{}: {}", f.simulated.name(), describe_fidelity(f.simulated))]);
    let facts = facts.render(line_width());
    format!(
        "{}\n\ncupeer does not intercept it: its calls go straight to the driver.\n\n{}",
        f.symbol,
        facts.trim_start()
    )
}

fn describe_result(r: &ResultSpec) -> String {
    let width = line_width();
    let head = format!("{} = {}: {}", r.name(), r.number, r.library_text());
    let mut text = format!("{}\n{}", wrap_paragraph(&head, width), wrap_paragraph(r.meaning(), width));
    let documented: Vec<&str> = rules::documenting_functions(r).map(|f| f.name()).collect();
    text += &match documented.len() {
        0 => "\nNo function that cupeer intercepts documents it.\n".to_owned(),
        n if n == FUNCTIONS.iter().filter(|f| f.library == r.library).count() => {
            format!("\nAll functions of {} that cupeer intercepts document it.\n", r.library.soname())
        }
        _ => format!(
            "\nDocumented for\n{}\n",
            documented.iter().map(|name| format!("    {name}")).collect::<Vec<_>>().join("\n")
        ),
    };
    let seen: Vec<&str> = rules::functions_observed_with(r).map(|f| f.name()).collect();
    if !seen.is_empty() {
        text += &format!("\nSeen from real drivers, though not documented, for\n    {}\n", seen.join("\n    "));
    }
    for why in rules::reasons_for_result(r) {
        text += &format!("\n{}", why.render(width));
    }
    text
}
