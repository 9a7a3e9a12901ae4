//! A call that has returned, with access to its arguments.

use crate::alloc_props::{AllocationProps, MulticastProps, access_descriptors};
use cupeer_spec::effect::{Copied, Effect, End, Object, OtherArgs, Shared, Used};
use cupeer_spec::function::{Direction, FnId};
use cupeer_spec::record::slot::{MOST_ARGS, shape};
use cupeer_spec::results::Result;

/// A call that has returned, with the arguments in the form of the record.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The function.
    pub function: FnId,
    /// The CUresult that it returned.
    pub result: i32,
    /// The bytes of all arguments, as a slot of the record stores them.
    pub args: &'a [u8; MOST_ARGS],
    /// Two bits for each argument that say if it is known, or NULL: [`shape`].
    pub shape: u64,
    /// The bytes of the first elements of its array argument, as the record stores them.
    pub elements: &'a [u8],
}

impl Call<'_> {
    /// Returns the two bits that say if an argument is known, or NULL: [`shape`].
    pub fn shape_bits(&self, index: usize) -> u64 {
        self.shape >> shape::shift(index) & 3
    }

    /// Returns the stored bytes of an argument, by its index.
    pub fn argument_bytes(&self, index: usize) -> &[u8] {
        self.args.get(self.function.spec().argument_byte_range(index)).unwrap_or(&[])
    }

    /// Returns the value of an argument as a number, by its index; 0 if unknown.
    pub fn number_at(&self, index: usize) -> u64 {
        self.argument_bytes(index).iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Returns the name of an argument, by its index.
    pub fn argument_name(&self, index: usize) -> &'static str {
        self.function.spec().args().get(index).map_or("", |arg| arg.name())
    }

    /// Returns true if the call returned this result.
    pub fn has_returned(&self, result: Result) -> bool {
        self.result == result as i32
    }

    /// Returns the index of the first pointer argument that is NULL.
    pub fn null_argument(&self) -> Option<usize> {
        let args = self.function.spec().args().iter().enumerate();
        args.filter(|(_, arg)| arg.direction != Direction::In || arg.count_argument().is_some())
            .find(|(index, _)| self.shape_bits(*index) == shape::NULL)
            .map(|(index, _)| index)
    }

    /// Returns the object that the call opens, and the two fingerprints of its handle: one over all bytes,
    /// one over those that the driver checks.
    pub fn opened_handle(&self) -> Option<(Shared, u64, u64)> {
        let shared = self.function.spec().opens()?;
        let bytes = self.argument_bytes(shared.handle);
        let half = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        Some((shared, half(0)?, half(8)?))
    }

    /// Returns the fingerprint of a handle argument, by its index.
    pub fn fingerprint(&self, handle: usize) -> u64 {
        self.argument_bytes(handle).first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Returns the kind of object that the call exports, opens, closes, or ends.
    pub fn object_kind(&self) -> Object {
        let spec = self.function.spec();
        let shared = spec.opens().or(spec.exports()).map(|shared| shared.object);
        let ended = spec.ends().map(|end| end.object);
        shared.or(ended).or(spec.closes().map(|named| named.object)).unwrap_or(Object::Memory)
    }

    /// Returns true if the call exports, opens, closes, or ends an event.
    pub fn is_event(&self) -> bool {
        self.object_kind() == Object::Event
    }

    /// Returns the properties of the allocation or the pool that the call asks for.
    pub fn allocation_props(&self) -> Option<AllocationProps> {
        AllocationProps::from_bytes(self.argument_bytes(self.function.spec().properties_argument()?))
    }

    /// Returns the properties of the multicast object that the call asks for.
    pub fn multicast_props(&self) -> Option<MulticastProps> {
        MulticastProps::from_bytes(self.argument_bytes(self.function.spec().gathers()?.of))
    }

    /// Returns the devices in the call's array of access descriptors.
    pub fn access_devices(&self) -> impl Iterator<Item = i32> {
        access_descriptors(self.elements).filter_map(|(device, _)| device)
    }

    /// Returns the address range that the call is about: first address, and number of bytes. Zeros if there is none.
    pub fn address_range(&self) -> (u64, u64) {
        self.function.spec().address_range().map_or((0, 0), |(by, size)| (self.number_at(by), self.number_at(size)))
    }

    /// Returns true if the array argument has exactly `count` elements, so that the recording has all of them.
    pub fn has_all_elements(&self, count: usize) -> bool {
        self.function.spec().input_array().is_some_and(|(_, all)| self.number_at(all) == count as u64)
    }

    /// Returns the ranges of device memory that the call uses or frees: for each range, the index of its argument,
    /// its start, and its size in bytes.
    pub fn used_ranges(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        self.function
            .spec()
            .effects()
            .iter()
            .flat_map(|effect| match *effect {
                Effect::Copies(Copied { to, from, size, .. }) => {
                    let range = |by| (by, self.number_at(by), self.number_at(size));
                    [range(to), range(from)]
                }
                Effect::Uses(used) => self.ranges_of_use(used),
                Effect::Ends(End { object: Object::Pointer, by, .. }) => [(by, self.number_at(by), 1), (0, 0, 0)],
                _ => [(0, 0, 0); 2],
            })
            .filter(|(_, start, bytes)| *start != 0 && *bytes != 0)
    }

    fn ranges_of_use(&self, Used { by, size, element, others, .. }: Used) -> [(usize, u64, u64); 2] {
        let Some(size) = size else {
            // A copy of rows is stored as four words: start and size of what it writes, and of what it reads.
            let word = |at: usize| {
                let bytes = self.argument_bytes(by).get(at..).and_then(|bytes| bytes.first_chunk());
                bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
            };
            return [(by, word(0), word(8)), (by, word(16), word(24))];
        };
        let row = self.number_at(size).wrapping_mul(self.function.spec().element_size(element));
        let bytes = match others {
            OtherArgs::Rows(height, pitch) => match self.number_at(height) {
                0 => 0,
                height => (height - 1).wrapping_mul(self.number_at(pitch)).wrapping_add(row),
            },
            _ => row,
        };
        [(by, self.number_at(by), bytes), (0, 0, 0)]
    }
}

/// Calls `note` with a call that succeeded and has these arguments.
#[cfg(test)]
pub fn returned(function: FnId, values: &[(&str, u64)], note: impl FnOnce(&Call)) {
    let mut args = [0; MOST_ARGS];
    for (name, value) in values {
        let (index, _) = function.spec().find_argument(name).expect("an argument");
        let place = &mut args[function.spec().argument_byte_range(index)];
        place.iter_mut().zip(value.to_le_bytes()).for_each(|(place, byte)| *place = byte);
    }
    note(&Call { function, result: 0, args: &args, shape: !0, elements: &[] });
}
