//! Words that the program's own text contains. When a report is read from a file, they are looked up, or kept
//! permanently.

use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Mutex;

/// Word from a list that this version knows: a severity, a kind, or the name of a function.
pub type Word = &'static str;

/// Number of bytes of kept words above which new words are refused. The words of functions and rules of all
/// versions take less.
const MOST_BYTES: usize = 1 << 20;

/// Words that came from files, and their size in bytes.
static KEPT_WORDS: Mutex<(BTreeSet<Word>, usize)> = Mutex::new((BTreeSet::new(), 0));

/// Returns the permanent word for a text; `None` for a new word if too many others are kept.
fn of(text: String) -> Option<Word> {
    let mut kept = KEPT_WORDS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(known) = kept.0.get(text.as_str()) {
        return Some(known);
    }
    kept.1 += text.len();
    (kept.1 <= MOST_BYTES).then(|| {
        let word: Word = text.leak();
        kept.0.insert(word);
        word
    })
}

/// Value that consists of words.
pub trait WordsFromText: Sized {
    /// Type of the texts that this value is read from.
    type Texts: for<'de> Deserialize<'de>;
    fn of(texts: Self::Texts) -> Option<Self>;
}

impl WordsFromText for Word {
    type Texts = String;
    fn of(text: String) -> Option<Self> {
        of(text)
    }
}

impl WordsFromText for Option<Word> {
    type Texts = Option<String>;
    fn of(text: Option<String>) -> Option<Self> {
        text.map_or(Some(None), |text| of(text).map(Some))
    }
}

impl WordsFromText for Vec<Word> {
    type Texts = Vec<String>;
    fn of(texts: Vec<String>) -> Option<Self> {
        texts.into_iter().map(of).collect()
    }
}

impl<T: WordsFromText> WordsFromText for Rc<T> {
    type Texts = T::Texts;
    fn of(texts: T::Texts) -> Option<Self> {
        T::of(texts).map(Rc::new)
    }
}

impl WordsFromText for BTreeMap<Word, Word> {
    type Texts = BTreeMap<String, String>;
    fn of(texts: Self::Texts) -> Option<Self> {
        texts.into_iter().map(|(name, why)| Some((of(name)?, of(why)?))).collect()
    }
}

/// Reads a field of words.
pub fn read<'de, T: WordsFromText, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let texts = T::Texts::deserialize(deserializer)?;
    T::of(texts).ok_or_else(|| serde::de::Error::custom("it has too many words"))
}
