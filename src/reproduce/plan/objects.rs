//! Objects and handles as variables of the C file, named after what they are: `memory1`, `opened_event2`, `handle3`.

use std::collections::{BTreeMap, HashMap};

/// Index of a variable in [`Variables`].
pub type VariableId = usize;

/// A variable of the C file. Processes that share a handle have a variable of the same name each.
#[derive(Clone)]
pub struct Variable {
    pub name: String,
    /// Type in C.
    pub c_type: String,
    /// Number of elements of an array.
    pub elements: Option<u64>,
    /// Process that creates it.
    pub maker: usize,
    /// The variable itself, or one that shares memory or a handle with it.
    parent: VariableId,
}

/// All variables.
#[derive(Clone, Default)]
pub struct Variables {
    all: Vec<Variable>,
    counts: HashMap<String, usize>,
}

impl Variables {
    /// Adds a variable. The name is `stem` with a number.
    pub fn add(&mut self, stem: &str, c_type: &str, maker: usize) -> VariableId {
        let stem = stem.replace(' ', "_");
        let count = self.counts.entry(stem.clone()).or_default();
        *count += 1;
        let (name, parent) = (format!("{stem}{count}"), self.all.len());
        self.all.push(Variable { name, c_type: c_type.to_owned(), elements: None, maker, parent });
        parent
    }

    pub fn get(&self, id: VariableId) -> &Variable {
        &self.all[id]
    }

    /// Returns true for a handle, which other processes can receive.
    pub fn is_handle(&self, id: VariableId) -> bool {
        let Variable { name, c_type, .. } = &self.all[id];
        let is_bytes = c_type.ends_with("Handle") && c_type != "CUmemGenericAllocationHandle";
        is_bytes || c_type.ends_with("Data") || name.starts_with("descriptor")
    }

    /// Makes a variable an array, if there is a count.
    pub fn set_elements(&mut self, id: VariableId, count: Option<u64>) {
        self.all[id].elements = count;
    }

    /// Gives each process that creates variables another number.
    pub fn renumber_makers(&mut self, number: impl Fn(usize) -> usize) {
        self.all.iter_mut().for_each(|variable| variable.maker = number(variable.maker));
    }

    /// Notes that two variables belong to the same shared object.
    pub fn join_objects(&mut self, one: VariableId, other: VariableId) {
        let (one, other) = (self.object_root(one), self.object_root(other));
        self.all[one.max(other)].parent = one.min(other);
    }

    /// Returns the first variable of the shared object that a variable belongs to.
    pub fn object_root(&self, id: VariableId) -> VariableId {
        match self.all[id].parent {
            parent if parent == id => id,
            parent => self.object_root(parent),
        }
    }
}

/// The objects of one process, by the numbers that the driver gave it.
#[derive(Default)]
pub struct ObjectTable {
    /// Objects that are no addresses, by their type in C.
    handles: HashMap<(&'static str, u64), VariableId>,
    /// Addresses: the start, the size, and the variable.
    addresses: BTreeMap<u64, (u64, VariableId)>,
}

impl ObjectTable {
    /// Notes that a variable has a number from now on.
    pub fn bind_number(&mut self, c_type: &'static str, number: u64, id: VariableId) {
        self.handles.insert((c_type, number), id);
    }

    /// Notes that a variable has an address from now on. Forgets what was there before.
    pub fn bind_address(&mut self, start: u64, size: u64, id: VariableId) {
        let end = start.saturating_add(size.max(1));
        self.addresses.retain(|old, (size, _)| *old >= end || old.saturating_add(*size) <= start);
        self.addresses.insert(start, (size.max(1), id));
    }

    /// Returns the variable with a number.
    pub fn find_number(&self, c_type: &'static str, number: u64) -> Option<VariableId> {
        self.handles.get(&(c_type, number)).copied()
    }

    /// Returns the variable whose range contains an address, and the offset in it.
    pub fn find_address(&self, address: u64) -> Option<(VariableId, u64)> {
        let (start, (size, id)) = self.addresses.range(..=address).next_back()?;
        (address - start < *size).then_some((*id, address - start))
    }

    /// Returns the last variable before an address, at most `most` bytes away, and the distance.
    pub fn find_address_before(&self, address: u64, most: u64) -> Option<(VariableId, u64)> {
        let (start, (_, id)) = self.addresses.range(..=address).next_back()?;
        (address - start < most).then_some((*id, address - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_by_kind() {
        let mut variables = Variables::default();
        let ids = ["memory", "opened memory", "memory"].map(|stem| variables.add(stem, "CUdeviceptr", 0));
        assert_eq!(ids.map(|id| variables.get(id).name.clone()), ["memory1", "opened_memory1", "memory2"]);
        variables.join_objects(ids[2], ids[1]);
        assert_eq!(ids.map(|id| variables.object_root(id)), [0, 1, 1]);
    }

    #[test]
    fn an_address_belongs_to_the_last_object_there() {
        let mut objects = ObjectTable::default();
        objects.bind_address(0x1000, 0x1000, 0);
        assert_eq!(objects.find_address(0x1800), Some((0, 0x800)));
        assert_eq!(objects.find_address(0x2000), None);
        objects.bind_address(0x1000, 0x400, 1);
        assert_eq!((objects.find_address(0x1000), objects.find_address(0x1800)), (Some((1, 0)), None));
    }
}
