//! Words that the program's own text contains. When a report is read from a file, they are looked up, or kept
//! permanently.

use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Mutex;

/// Word from a list that this version knows: a severity, a kind, or the name of a function.
pub type Word = &'static str;

/// The most bytes of words that are kept: those of functions and rules, of all versions.
const MOST: usize = 1 << 20;

/// The words that came from files, and how many bytes they have.
static KEPT: Mutex<(BTreeSet<Word>, usize)> = Mutex::new((BTreeSet::new(), 0));

/// The word of a text; `None` where there were too many others.
fn of(text: String) -> Option<Word> {
    let mut kept = KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(known) = kept.0.get(text.as_str()) {
        return Some(known);
    }
    kept.1 += text.len();
    (kept.1 <= MOST).then(|| {
        let word: Word = text.leak();
        kept.0.insert(word);
        word
    })
}

/// Value that consists of words.
pub trait OfWords: Sized {
    /// Type of the texts that this value is read from.
    type Texts: for<'de> Deserialize<'de>;
    fn of(texts: Self::Texts) -> Option<Self>;
}

impl OfWords for Word {
    type Texts = String;
    fn of(text: String) -> Option<Self> {
        of(text)
    }
}

impl OfWords for Option<Word> {
    type Texts = Option<String>;
    fn of(text: Option<String>) -> Option<Self> {
        text.map_or(Some(None), |text| of(text).map(Some))
    }
}

impl OfWords for Vec<Word> {
    type Texts = Vec<String>;
    fn of(texts: Vec<String>) -> Option<Self> {
        texts.into_iter().map(of).collect()
    }
}

impl<T: OfWords> OfWords for Rc<T> {
    type Texts = T::Texts;
    fn of(texts: T::Texts) -> Option<Self> {
        T::of(texts).map(Rc::new)
    }
}

impl OfWords for BTreeMap<Word, Word> {
    type Texts = BTreeMap<String, String>;
    fn of(texts: Self::Texts) -> Option<Self> {
        texts.into_iter().map(|(name, why)| Some((of(name)?, of(why)?))).collect()
    }
}

/// Reads a field of words.
pub fn read<'de, T: OfWords, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let texts = T::Texts::deserialize(deserializer)?;
    T::of(texts).ok_or_else(|| serde::de::Error::custom("it has too many words"))
}
