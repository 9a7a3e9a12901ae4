//! Storage of a book: a fixed number of entries, or as many as a report follows.

/// Places for entries of a book.
pub trait Places<T>: AsRef<[T]> + AsMut<[T]> {
    /// Makes one more, where it can. Says whether it did.
    fn grow(&mut self) -> bool;

    /// Puts something where the same is, else where nothing is, else in one more place, else where something is only
    /// remembered. Says whether there was a place.
    fn put(
        &mut self,
        new: T,
        is_same: impl Fn(&T) -> bool,
        is_free: impl Fn(&T) -> bool,
        is_past: impl Fn(&T) -> bool,
    ) -> bool {
        let (all, count) = (self.as_ref(), self.as_ref().len());
        let place = all.iter().position(is_same).or_else(|| all.iter().position(is_free));
        let place = place.or_else(|| self.grow().then_some(count));
        let place = place.or_else(|| self.as_ref().iter().position(is_past));
        let place = place.and_then(|place| self.as_mut().get_mut(place));
        place.map(|place| *place = new).is_some()
    }
}

impl<T, const N: usize> Places<T> for [T; N] {
    fn grow(&mut self) -> bool {
        false
    }
}

/// As many as a report follows.
const MOST: usize = 1 << 16;

impl<T: Default> Places<T> for Vec<T> {
    fn grow(&mut self) -> bool {
        let has_room = self.len() < MOST;
        if has_room {
            self.push(T::default());
        }
        has_room
    }
}
