//! The page of the tables, `docs/reference/tables.md`, and the list of columns that only grows.

use crate::table::{Column, Table, VERSION, columns};
use crate::tables::{
    Calls, Devices, Faults, Findings, Frames, Marks, Objects, Openings, Pairs, Processes, Stacks,
};

/// A table as it is described.
struct Described {
    name: &'static str,
    about: &'static str,
    sorted_by: Option<&'static str>,
    columns: Vec<Column>,
}

fn described<T: Table>() -> Described {
    Described { name: T::NAME, about: T::ABOUT, sorted_by: T::SORTED_BY, columns: columns::<T>() }
}

fn all() -> Vec<Described> {
    vec![
        described::<Processes>(),
        described::<Calls>(),
        described::<Objects>(),
        described::<Openings>(),
        described::<Findings>(),
        described::<Stacks>(),
        described::<Frames>(),
        described::<Marks>(),
        described::<Faults>(),
        described::<Devices>(),
        described::<Pairs>(),
    ]
}

/// The names of the tables.
pub fn names() -> Vec<&'static str> {
    all().iter().map(|table| table.name).collect()
}

fn of_type(column: &Column) -> &'static str {
    use crate::cells::Type;
    match column.holds {
        Type::Text => "text",
        Type::Int => "int",
        Type::Long => "long",
        Type::Flag => "flag",
    }
}

/// A line for each column: table, name, type, and whether there may be none.
pub fn list() -> String {
    let mut text = format!("{VERSION}\n");
    for table in all() {
        for column in &table.columns {
            let null = if column.is_optional { " null" } else { "" };
            text += &format!("{} {} {}{null}\n", table.name, column.name, of_type(column));
        }
    }
    text
}

/// The page.
pub fn markdown() -> String {
    let mut text = format!(
        "<!-- Made by scripts/docs from src/export/tables.rs. Do not edit. -->\n# The tables of `cupeer export`\n\n\
         This is version `{VERSION}`, which is `cupeer.schema` in each file's metadata. Later versions may add columns at the \
         end of a table. They never rename or remove a column, or change its type or meaning. \
         [Large jobs](../guides/large-jobs.md#query-a-job-with-sql) has queries.\n\n\
         | type | in Parquet | DuckDB | Spark | ClickHouse | pandas and polars |\n| --- | --- | --- | --- | --- | --- |\n\
         | text | BYTE_ARRAY (STRING) | VARCHAR | STRING | String | string |\n\
         | int | INT32 | INTEGER | INT | Int32 | int32 |\n\
         | long | INT64 | BIGINT | BIGINT | Int64 | int64 |\n\
         | flag | BOOLEAN | BOOLEAN | BOOLEAN | Bool | bool |\n\n\
         Columns ending in `_ns` are nanoseconds: times of CLOCK_REALTIME since 1970, or durations. They are plain \
         numbers, because Spark cannot read timestamps in nanoseconds. Counts, sizes, and addresses are signed, because \
         Spark reads unsigned ones as decimals. `node` is not a column of the files: engines take it from the \
         directories.\n"
    );
    for table in all() {
        let sorted = table.sorted_by.unwrap_or_default();
        text += &format!(
            "\n## {}\n\n{} Each group of rows is sorted by `{sorted}`.\n\n| column | type | meaning |\n| --- | --- | --- |\n",
            table.name,
            table.about.trim()
        );
        for column in &table.columns {
            let null = if column.is_optional { ", or null" } else { "" };
            text += &format!(
                "| `{}` | {}{null} | {} |\n",
                column.name,
                of_type(column),
                column.about.trim().replace('|', "\\|")
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn columns_stay_as_they_are_and_new_ones_are_listed() {
        let there = include_str!("columns.txt");
        let made = list();
        let new: BTreeSet<&str> = made.lines().collect();
        let lost: Vec<&str> = there.lines().filter(|line| !new.contains(line)).collect();
        assert!(lost.is_empty(), "columns are gone, or are something else now: {lost:#?}");
        // In the order of the files, so that what is added stands at the end of its table.
        assert_eq!(there, made, "src/export/columns.txt lacks what is new");
    }

    #[test]
    fn names_are_plain_and_each_is_there_once() {
        for table in all() {
            let mut names = BTreeSet::new();
            for column in &table.columns {
                let is_plain = |c: char| c.is_ascii_lowercase() || c == '_';
                assert!(column.name.chars().all(is_plain), "{}.{}", table.name, column.name);
                assert!(names.insert(column.name), "{}.{} is there twice", table.name, column.name);
                assert!(column.about.trim().ends_with('.'), "{}.{}", table.name, column.name);
            }
            assert!(table.sorted_by.is_some_and(|by| names.contains(by)), "{}", table.name);
        }
    }
}
