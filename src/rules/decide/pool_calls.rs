//! Rules about memory pools in failed calls.

use super::{Judge, Verdict, World};
use crate::Confidence;
use crate::reason::{PointerFault, PoolFault, Reason};
use cupeer_model::{ObjectFamily, ObjectOrigin};
use cupeer_spec::abi::CUmemAllocationHandleType;
use cupeer_spec::effect::{End, Object, Shared};
use cupeer_spec::record::slot::finding::role;

impl<W: World> Judge<'_, W> {
    /// Returns the confidence of conclusions from what is known of the process's pools.
    fn pools_confidence(&self) -> Confidence {
        Confidence::certain_if(self.world.has_all_calls(ObjectFamily::Pools))
    }

    pub(super) fn pool_handle_type(&mut self) -> Option<Verdict> {
        let spec = self.call.function.spec();
        let (shared, kind) =
            (self.expect_in_table(spec.exports())?, self.expect_in_table(spec.handle_kind_argument())?);
        let (pool, wanted) = (self.call.number_at(shared.by), self.call.number_at(kind));
        let is_a_type = wanted != 0 && CUmemAllocationHandleType(wanted as i32).name().is_some();
        let known = self.world.pool(pool).filter(|_| is_a_type)?;
        let fault = match (known.is_destroyed, known.origin, known.types) {
            (true, ..) => PoolFault::Destroyed,
            (_, ObjectOrigin::Imported, _) => PoolFault::Imported,
            (_, ObjectOrigin::Found, _) => PoolFault::Default,
            (.., None) => return None,
            (.., Some(types)) if types as u64 & wanted != 0 => return Some(Verdict::Held),
            (.., Some(types)) => PoolFault::Types(types as u64),
        };
        // Another pool may have the handle of a destroyed pool by now.
        let confidence = if known.is_destroyed { self.pools_confidence() } else { Confidence::Certain };
        self.report_violation(Reason::PoolHandleType { wanted, fault }, confidence, shared.by, &[])
    }

    pub(super) fn pool_pointer(&mut self) -> Option<Verdict> {
        let Shared { by, .. } = self.expect_in_table(self.call.function.spec().exports())?;
        let address = self.call.number_at(by);
        let pointer = self.world.pointer_attributes(address).filter(|pointer| pointer.is_known)?;
        let pool = pointer.pool;
        let known = self.world.pool(pool);
        let (fault, confidence) = match known {
            _ if pool == 0 => (PointerFault::NoPool, Confidence::Certain),
            Some(known) if known.origin == ObjectOrigin::Imported => (PointerFault::Imported, Confidence::Certain),
            Some(known) if !known.is_exported => (PointerFault::NotExported { pool }, self.pools_confidence()),
            _ if self.world.driver_message().contains("base address") => (PointerFault::Inside, Confidence::Certain),
            Some(_) => return Some(Verdict::Held),
            None => return None,
        };
        self.report_violation(Reason::PoolPointer { address, fault }, confidence, by, &[])
    }

    pub(super) fn pool_wrong_pool(&mut self) -> Option<Verdict> {
        let of = self.call.function.spec().opens().and_then(|shared| shared.of);
        let of = self.expect_in_table(of)?;
        let pool = self.call.number_at(of);
        let known = self.world.pool(pool)?;
        if known.is_destroyed || known.origin != ObjectOrigin::Imported {
            let (is_destroyed, confidence) = (known.is_destroyed, self.pools_confidence());
            return self.report_violation(Reason::PoolNotImported { pool, is_destroyed }, confidence, of, &[]);
        }
        let (_, fingerprint, _) = self.call.opened_handle()?;
        let opening = self.world.opening_at(Object::Pool, pool);
        let of_pool = opening.and_then(|opening| self.world.find_export(Object::Pool, opening.fingerprint));
        let (of_pool, export) = (of_pool?, self.world.find_export(Object::Pointer, fingerprint)?);
        if of_pool.exporter_id == export.exporter_id {
            return None;
        }
        let reason = Reason::PoolWrongPool { pool, of_pool: of_pool.owner, of_pointer: export.owner };
        self.report_violation(reason, Confidence::Certain, of, &[(role::EXPORT, export.object)])
    }

    pub(super) fn pool_import_in_use(&mut self) -> Option<Verdict> {
        let End { by, .. } = self.expect_in_table(self.call.function.spec().ends())?;
        let pool = self.call.number_at(by);
        let known = self.world.pool(pool)?;
        if known.is_destroyed || known.origin != ObjectOrigin::Imported {
            return None;
        }
        match self.world.query_model(|model| Some(model.pointers_of(pool))).unwrap_or(0) {
            0 => Some(Verdict::Held),
            pointers => {
                self.report_violation(Reason::PoolImportInUse { pool, pointers }, self.pools_confidence(), by, &[])
            }
        }
    }
}
