//! Declarations of cuda.h for a C file, which derive from the table: the file then compiles on a machine without a CUDA toolkit.

use cupeer_spec::abi::{CUmemAccess_flags, CUmemAllocationHandleType, CUmemAllocationType, CUmemLocationType};
use cupeer_spec::function::{FnId, FnSpec, Library};
use cupeer_spec::results::RESULTS;
use cupeer_spec::value::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Types and functions that the table does not have.
const BEGIN: &str = include_str!("declarations.h");

/// Returns a header for a C file: the functions that it calls, and their types. The comment at its head names others.
pub fn declare_used(text: &str) -> String {
    let code = text.split_once("*/").map_or(text, |(_, code)| code);
    let words: BTreeSet<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let results = RESULTS.iter().map(|result| format!("{} = {}", result.name(), result.number));
    let results = results.collect::<Vec<_>>().join(", ");
    let mut enumerations: BTreeMap<&str, u64> = structure_values().map(|(number, name)| (name, number)).collect();
    let mut functions = String::new();
    for function in declared(&words) {
        for arg in function.args() {
            let names = (arg.arg_type().names)();
            enumerations.extend(names.into_iter().map(|(number, name)| (name, number)));
        }
        let args: Vec<String> = function.args().iter().map(|arg| arg.c_type()).collect();
        let args = if args.is_empty() { "void".to_owned() } else { args.join(", ") };
        let (name, lookup) = (function.name(), function.lookup());
        if name != lookup && words.contains(lookup) {
            functions += &format!("#define {lookup} {name}\n");
        }
        functions += &format!("CUresult {name}({args});\n");
    }
    let values = enumerations.iter().map(|(name, number)| format!("enum {{ {name} = {} }};\n", *number as i32));
    let values: String = values.filter(|line| !BEGIN.contains(line.split(' ').nth(2).unwrap_or_default())).collect();
    format!("typedef enum {{ {results} }} CUresult;\n{BEGIN}{values}{functions}")
}

/// Returns the names of values that only structures have.
fn structure_values() -> impl Iterator<Item = (u64, &'static str)> {
    [
        CUmemLocationType::names(),
        CUmemAllocationType::names(),
        CUmemAllocationHandleType::names(),
        CUmemAccess_flags::names(),
    ]
    .into_iter()
    .flatten()
}

/// Returns the functions of the driver that a text names. If the forms of a function differ in their arguments, each has its own name.
fn declared<'a>(words: &'a BTreeSet<&str>) -> impl Iterator<Item = &'static FnSpec> + use<'a> {
    let all = || FnId::all().map(FnId::spec).filter(|function| function.library == Library::Cuda);
    words.iter().filter(|word| !BEGIN.contains(&format!(" {word}"))).filter_map(move |word| {
        let forms = || all().filter(|function| function.lookup() == *word && !function.is_per_thread());
        let count = forms().map(|form| form.args().len()).max();
        let are_alike = forms().all(|form| Some(form.args().len()) == count);
        let newest = forms().max_by_key(|function| function.since).filter(|_| are_alike);
        newest.or_else(|| all().find(|function| function.name() == *word))
    })
}
