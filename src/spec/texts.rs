//! Tables of texts and of lists without pointers.
//!
//! Each process of a job must relocate pointers in the library's tables before it starts, and copy the pages
//! that contain them. These tables contain none. They are built from a `const`, which exists only in the
//! compiler.

/// Lists in one array.
pub struct Lists<T, const COUNT: usize, const ITEMS: usize> {
    /// Start and end of each list.
    bounds: [(u16, u16); COUNT],
    items: [T; ITEMS],
}

/// Texts in one array. At least one of them is not empty.
pub struct Texts<const COUNT: usize, const BYTES: usize>(Lists<u8, COUNT, BYTES>);

/// Declares a table of lists, of a constant: `lists!(static FAILURES: i32 = ALL);`, or of a field of the structures that a
/// constant has: `lists!(static FAILURES: i32 = ALL.failures);`.
#[macro_export]
macro_rules! lists {
    ($(#[$meta:meta])* $vis:vis static $name:ident: $item:ty = $all:ident.$field:tt) => {
        $crate::lists!($(#[$meta])* $vis static $name: $item = &$crate::fields!($all.$field: &[$item] = &[]));
    };
    ($(#[$meta:meta])* $vis:vis static $name:ident: $item:ty = $lists:expr) => {
        $(#[$meta])*
        $vis static $name: $crate::texts::Lists<
            $item,
            { let lists: &[&[$item]] = $lists; lists.len() },
            { $crate::texts::items_of::<$item>($lists) },
        > = $crate::texts::Lists::of($lists);
    };
}

/// Declares a table of texts, as [`lists`] does one of lists: `texts!(static NAMES = ALL.name);`.
#[macro_export]
macro_rules! texts {
    ($(#[$meta:meta])* $vis:vis static $name:ident = $all:ident.$field:tt) => {
        $crate::texts!($(#[$meta])* $vis static $name = &$crate::fields!($all.$field: &str = ""));
    };
    ($(#[$meta:meta])* $vis:vis static $name:ident = $texts:expr) => {
        $(#[$meta])*
        $vis static $name: $crate::texts::Texts<{ $texts.len() }, { $crate::texts::bytes_of($texts) }> =
            $crate::texts::Texts::of($texts);
    };
}

/// A field of all structures that a constant has.
#[macro_export]
macro_rules! fields {
    ($all:ident.$field:tt: $type:ty = $none:expr) => {{
        let mut column: [$type; $all.len()] = [$none; $all.len()];
        let mut index = 0;
        while index < $all.len() {
            column[index] = $all[index].$field;
            index += 1;
        }
        column
    }};
}

/// Returns the number of items in all lists.
pub const fn items_of<T>(lists: &[&[T]]) -> usize {
    let (mut count, mut index) = (0, 0);
    while index < lists.len() {
        count += lists[index].len();
        index += 1;
    }
    count
}

/// Returns the number of bytes in all texts.
pub const fn bytes_of(texts: &[&str]) -> usize {
    let (mut count, mut index) = (0, 0);
    while index < texts.len() {
        count += texts[index].len();
        index += 1;
    }
    count
}

impl<T: Copy, const COUNT: usize, const ITEMS: usize> Lists<T, COUNT, ITEMS> {
    /// Creates the table of some lists, at least one of which has an item.
    pub const fn of(lists: &[&[T]]) -> Self {
        let mut full = 0;
        while lists[full].is_empty() {
            full += 1;
        }
        let mut items = [lists[full][0]; ITEMS];
        let (mut at, mut index) = (0, 0);
        while index < COUNT {
            let mut item = 0;
            while item < lists[index].len() {
                items[at] = lists[index][item];
                (at, item) = (at + 1, item + 1);
            }
            index += 1;
        }
        Self::packed(items, lists)
    }

    /// Creates a table of items that stand for the items of some lists, in order.
    pub const fn packed<U>(items: [T; ITEMS], lists: &[&[U]]) -> Self {
        let (mut bounds, mut start, mut index) = ([(0, 0); COUNT], 0, 0);
        while index < COUNT {
            let end = start + lists[index].len();
            assert!(end <= ITEMS && end <= u16::MAX as usize, "a table has more than there is room for");
            bounds[index] = (start as u16, end as u16);
            (start, index) = (end, index + 1);
        }
        Self { bounds, items }
    }

    /// Returns the list at an index.
    ///
    /// # Panics
    ///
    /// The index is out of range.
    #[inline(always)]
    pub const fn get(&self, index: usize) -> &[T] {
        let (start, end) = self.bounds[index];
        // SAFETY: Only `packed` makes a table, and each list is where it says, behind the one before.
        unsafe {
            core::slice::from_raw_parts(self.items.as_ptr().add(start as usize), (end - start) as usize)
        }
    }
}

impl<const COUNT: usize, const BYTES: usize> Texts<COUNT, BYTES> {
    /// Creates the table of some texts.
    pub const fn of(texts: &[&str]) -> Self {
        let (mut lists, mut index): ([&[u8]; COUNT], usize) = ([&[]; COUNT], 0);
        while index < COUNT {
            lists[index] = texts[index].as_bytes();
            index += 1;
        }
        Self(Lists::of(&lists))
    }

    /// Returns the text at an index.
    ///
    /// # Panics
    ///
    /// The index is out of range.
    #[inline(always)]
    pub const fn get(&self, index: usize) -> &str {
        // SAFETY: Only `of` makes a table, and each of its lists has the bytes of one whole text.
        unsafe { core::str::from_utf8_unchecked(self.0.get(index)) }
    }

    /// The index of a text.
    pub fn position(&self, text: &[u8]) -> Option<usize> {
        self.all().position(|known| known.as_bytes() == text)
    }

    /// All texts in order.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator + Clone {
        (0..COUNT).map(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    const WORDS: &[&str] = &["", "a", "", "größer", "b"];
    texts!(static TEXTS = WORDS);

    const NUMBERS: &[&[i32]] = &[&[], &[1, 2], &[], &[3]];
    lists!(static LISTS: i32 = NUMBERS);

    const PAIRS: &[(&str, &[i32])] = &[("a", &[1, 2]), ("", &[])];
    texts!(static FIRST = PAIRS.0);
    lists!(static SECOND: i32 = PAIRS.1);

    #[test]
    fn a_field_is_a_table() {
        for (index, (text, list)) in PAIRS.iter().enumerate() {
            assert_eq!((FIRST.get(index), SECOND.get(index)), (*text, *list));
        }
    }

    #[test]
    fn a_table_gives_back_what_it_was_made_of() {
        assert!(TEXTS.all().eq(WORDS.iter().copied()) && TEXTS.all().len() == WORDS.len());
        assert_eq!(["b", "c"].map(|text| TEXTS.position(text.as_bytes())), [Some(4), None]);
        assert_eq!([0, 1, 2, 3].map(|index| LISTS.get(index)), NUMBERS);
    }

    #[test]
    fn the_compiler_reads_it_too() {
        const { assert!(TEXTS.get(3).len() == 8 && LISTS.get(3)[0] == 3) };
    }

    #[test]
    #[should_panic = "out of bounds"]
    fn an_index_behind_the_last_is_none() {
        TEXTS.get(WORDS.len());
    }
}
