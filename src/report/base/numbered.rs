//! Names of rules, each kept once and referred to by number.

use std::collections::HashMap;
use std::rc::Rc;

/// Names, numbered in the order in which they were added.
#[derive(Default)]
pub struct NumberedNames {
    numbers: HashMap<Rc<str>, u16>,
    names: Vec<Rc<str>>,
}

impl NumberedNames {
    /// Returns the number of a name, and adds a new name. Returns `None` for a new name if there are already
    /// `most` names.
    pub fn find_or_add(&mut self, name: &str, most: usize) -> Option<u16> {
        if let Some(number) = self.find_number(name) {
            return Some(number);
        }
        let number = u16::try_from(self.names.len()).ok().filter(|number| usize::from(*number) < most)?;
        let name: Rc<str> = name.into();
        self.numbers.insert(name.clone(), number);
        self.names.push(name);
        Some(number)
    }

    /// Returns the number of a name; `None` if the name was not added.
    pub fn find_number(&self, name: &str) -> Option<u16> {
        self.numbers.get(name).copied()
    }

    /// Returns the number of names.
    pub fn count(&self) -> u16 {
        self.names.len() as u16
    }

    /// Returns the name that has a number.
    pub fn name(&self, number: u16) -> Rc<str> {
        self.names[usize::from(number)].clone()
    }
}
