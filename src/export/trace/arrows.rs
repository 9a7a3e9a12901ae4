//! The arrows from the export of a handle to its open, and from there to its close.
//!
//! Each open has an arrow of its own, whose number comes from the fingerprint of the handle: the first open of a
//! handle has the fingerprint itself.

use cupeer_facts::first_pass::{ExportCall, FirstPass, HandleDomain};
use cupeer_model::NumberHolders;
use cupeer_record::Call;
use cupeer_report::values;
use cupeer_spec::effect::{Object, Shared};
use cupeer_spec::function::FnId;
use cupeer_spec::record::live::mix_bits;
use std::collections::HashMap;

pub struct Arrow {
    /// The call that exported the handle, with its function; `None` in that call itself.
    pub export: Option<(ExportCall, Option<FnId>)>,
    /// Phase of the arrow in Chrome's trace event format: `s` begins the arrow, `t` continues it, `f` ends
    /// it.
    pub phase: char,
    pub id: u64,
}

#[derive(Default)]
pub struct Arrows {
    /// Number of opens so far of each handle.
    opened: HashMap<(HandleDomain, Object, u64), u64, foldhash::fast::RandomState>,
    /// Arrows of the current process's open handles, by address or event.
    open: NumberHolders<Vec<u64>, foldhash::fast::RandomState>,
}

impl Arrows {
    pub fn begin_process(&mut self) {
        self.open.clear();
    }

    pub fn arrows_of_call(&mut self, call: &Call, domain: HandleDomain, at: u64, first: &FirstPass) -> Vec<Arrow> {
        let Some(function) = call.function.filter(|_| call.succeeded()).map(FnId::spec) else {
            return Vec::new();
        };
        match (function.opens(), function.closes()) {
            (Some(shared), _) => self.arrows_of_open(call, domain, at, first, shared),
            (None, Some(closed)) => {
                // Destroying an object closes it, even if it was opened several times.
                let is_whole = function.ends().is_some_and(|end| !end.is_counted);
                self.arrows_of_close(closed.object, call.argument_number(closed.by), is_whole)
            }
            (None, None) => Vec::new(),
        }
    }

    fn arrows_of_open(
        &mut self,
        call: &Call,
        domain: HandleDomain,
        at: u64,
        first: &FirstPass,
        Shared { object: kind, by, handle, .. }: Shared,
    ) -> Vec<Arrow> {
        let (Some((fingerprint, _)), Some(address)) =
            (values::handle_fingerprints(call, handle), call.argument_number(by))
        else {
            return Vec::new();
        };
        let exports = FnId::find_newest(|function| function.exports().is_some_and(|shared| shared.object == kind));
        let Some(export) = first.last_export_before(domain, kind, fingerprint, at) else { return Vec::new() };
        let times = self.opened.entry((domain, kind, fingerprint)).or_default();
        let id = if *times == 0 { fingerprint } else { mix_bits(fingerprint ^ mix_bits(*times)) };
        *times += 1;
        self.open.holder_or_insert(kind, address, Vec::new).push(id);
        vec![Arrow { export: Some((export, exports)), phase: 's', id }, Arrow { export: None, phase: 't', id }]
    }

    fn arrows_of_close(&mut self, kind: Object, address: Option<u64>, is_whole: bool) -> Vec<Arrow> {
        let Some(address) = address else { return Vec::new() };
        let Some(mut ids) = self.open.take(kind, address) else { return Vec::new() };
        let closed = if is_whole { std::mem::take(&mut ids) } else { ids.pop().into_iter().collect() };
        if !ids.is_empty() {
            self.open.holder_or_insert(kind, address, || ids);
        }
        closed.into_iter().map(|id| Arrow { export: None, phase: 'f', id }).collect()
    }
}
