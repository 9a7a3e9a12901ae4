//! The environment variables of this process, and of the programs that it starts.

use std::ffi::OsString;

pub const LD_PRELOAD: &str = "LD_PRELOAD";
pub const LD_LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// Environment variables in their inherited order, because some programs show them in that order.
pub struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    pub fn from_process() -> Self {
        Environment(std::env::vars_os().collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &(OsString, OsString)> {
        self.0.iter()
    }

    pub fn get(&self, name: &str) -> Option<&OsString> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some(variable) => variable.1 = value.into(),
            None => self.0.push((name.into(), value.into())),
        }
    }

    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }
}

/// Returns the value of an environment variable of this process, unless the value is empty.
pub fn nonempty_variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
