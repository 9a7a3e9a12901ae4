//! Methods by which calls bypass cupeer and reach the driver, as logs, recordings, and reports name them.

named! {
    /// A method by which calls bypass cupeer.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Bypass {
        /// The library binds symbols to its own scope first.
        DeepBind = "RTLD_DEEPBIND",
        /// The library is in a namespace into which nothing is preloaded.
        Dlmopen = "dlmopen",
        /// The library looked up the next definition from outside the global scope.
        Next = "RTLD_NEXT",
        /// The library has a variable with the name of an intercepted function.
        DataSymbol = "data symbol",
        /// The library is a second driver.
        SecondDriver = "second driver",
        /// The library is bound to a driver that was loaded before cupeer.
        DriverFirst = "driver before cupeer",
        /// The library replaces driver functions by its own.
        Diverts = "dlsym replaced",
        /// The library is a driver, or replaces one, under another soname.
        OtherSoname = "another soname",
        /// The library is a driver in a process without cupeer.
        NotLoaded = "libcupeer.so not loaded",
        /// The driver received no call through cupeer, for whatever reason.
        Unseen = "no watched call",
    }
    /// Returns the word for the method in logs, recordings, and reports.
    pub fn name;
}

impl Bypass {
    /// Returns an explanation of the method's word, if the word needs one.
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

/// Returns a method's word from a recording, followed by an explanation of the word if there is one.
pub fn name_with_hint(name: &str) -> String {
    match Bypass::ALL.into_iter().find(|way| way.name() == name).and_then(Bypass::hint) {
        Some(hint) => format!("{name} ({hint})"),
        None => name.to_owned(),
    }
}
