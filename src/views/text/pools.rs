//! Memory pools: a row for each process that has one.

use super::TextView;
use crate::table::Table;
use cupeer_report::model::Pool;
use cupeer_report::moments::number;

impl TextView<'_> {
    pub fn pools(&self) -> String {
        let head = ["PROCESS", "DEVICE", "FROM", "HANDLE TYPES", "IMPORTED BY", "POINTERS", "ACCESS", "STATE"];
        let table = Table::new(&head, 8, 10).with_numbers(&[5]).with_last_below();
        self.table_section("Memory pools", table, &self.report.pools, |pool| {
            let access = pool.access.iter().map(|access| self.names.device(Some(access.device)));
            [
                self.names.process(&pool.proc),
                self.format_location(pool.location, pool.device),
                self.format_source(pool),
                format_handle_types(pool),
                self.format_process_list(&pool.importers),
                if pool.origin == "imported" { number(pool.pointers_imported) } else { String::new() },
                join_or_dash(access.collect()),
                pool_state(pool).into(),
            ]
        })
    }

    fn format_source(&self, pool: &Pool) -> String {
        match (pool.origin, &pool.owner) {
            ("imported", Some(owner)) => self.names.process(owner),
            ("imported", None) => "unknown".into(),
            (origin, _) => origin.into(),
        }
    }
}

fn format_handle_types(pool: &Pool) -> String {
    let short = |name: &&str| name.strip_prefix("CU_MEM_HANDLE_TYPE_").unwrap_or(name).to_owned();
    join_or_dash(pool.handle_types.iter().map(short).collect())
}

fn join_or_dash(names: Vec<String>) -> String {
    if names.is_empty() { "-".into() } else { names.join(", ") }
}

fn pool_state(pool: &Pool) -> &'static str {
    match (pool.destroyed_ns, pool.left, pool.pointers) {
        (Some(_), ..) => "destroyed",
        (None, true, 0) => "left",
        (None, true, _) => "left, with pointers",
        (None, false, _) => "open",
    }
}
