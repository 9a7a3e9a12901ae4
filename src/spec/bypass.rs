//! Methods by which calls bypass cupeer and reach the driver, as logs, recordings, and reports name them.

/// A method by which calls bypass cupeer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bypass {
    /// Bound to its own scope first.
    DeepBind,
    /// In a namespace into which nothing is preloaded.
    Dlmopen,
    /// The library looked up the next definition from outside the global scope.
    Next,
    /// The library has a variable with the name of an intercepted function.
    DataSymbol,
    /// The library is a second driver.
    SecondDriver,
    /// The library is bound to a driver that was loaded before cupeer.
    DriverFirst,
    /// The library replaces driver functions by its own.
    Diverts,
    /// The library is a driver, or replaces one, under another soname.
    OtherSoname,
    /// The library is a driver in a process without cupeer.
    NotLoaded,
    /// The driver received no call through cupeer, for whatever reason.
    Unseen,
}

impl Bypass {
    /// All of them.
    pub const ALL: [Bypass; 10] = [
        Bypass::DeepBind,
        Bypass::Dlmopen,
        Bypass::Next,
        Bypass::DataSymbol,
        Bypass::SecondDriver,
        Bypass::DriverFirst,
        Bypass::Diverts,
        Bypass::OtherSoname,
        Bypass::NotLoaded,
        Bypass::Unseen,
    ];

    /// The words of logs, records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Bypass::DeepBind => "RTLD_DEEPBIND",
            Bypass::Dlmopen => "dlmopen",
            Bypass::Next => "RTLD_NEXT",
            Bypass::DataSymbol => "data symbol",
            Bypass::SecondDriver => "second driver",
            Bypass::DriverFirst => "driver before cupeer",
            Bypass::Diverts => "dlsym replaced",
            Bypass::OtherSoname => "another soname",
            Bypass::NotLoaded => "libcupeer.so not loaded",
            Bypass::Unseen => "no watched call",
        }
    }

    /// Returns a hint if the words need one.
    fn hint(self) -> Option<&'static str> {
        match self {
            Bypass::DriverFirst => Some("name libcupeer.so before it in LD_PRELOAD"),
            Bypass::Diverts => Some("it gives functions of its own in place of the driver's"),
            Bypass::OtherSoname => Some("it is a driver, but its soname is not libcuda.so.1"),
            Bypass::NotLoaded => Some("a static program, or one whose environment has lost LD_PRELOAD"),
            _ => None,
        }
    }
}

/// Returns the words in a recording, with a hint if there is one.
pub fn explained(name: &str) -> String {
    match Bypass::ALL.into_iter().find(|way| way.name() == name).and_then(Bypass::hint) {
        Some(hint) => format!("{name} ({hint})"),
        None => name.to_owned(),
    }
}
