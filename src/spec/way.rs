//! The ways past cupeer: how calls can reach the driver unseen, as logs, records and reports name them.

/// A way past us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Bound to its own scope first.
    DeepBind,
    /// In a namespace into which nothing is preloaded.
    Dlmopen,
    /// Asked for the next definition from outside the global scope.
    Next,
    /// Has a variable of one of our names.
    DataSymbol,
    /// Is a driver beside the one that we follow.
    SecondDriver,
    /// Is bound to a driver that lies before us.
    DriverFirst,
    /// Gives functions of its own in place of the driver's.
    Diverts,
    /// Is a driver, or stands for one, under another soname.
    OtherSoname,
    /// Is a driver in a process without us.
    NotLoaded,
    /// Is a driver of which no call came to us, whatever the reason.
    Unseen,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 10] = [
        Way::DeepBind,
        Way::Dlmopen,
        Way::Next,
        Way::DataSymbol,
        Way::SecondDriver,
        Way::DriverFirst,
        Way::Diverts,
        Way::OtherSoname,
        Way::NotLoaded,
        Way::Unseen,
    ];

    /// The words of logs, records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Way::DeepBind => "RTLD_DEEPBIND",
            Way::Dlmopen => "dlmopen",
            Way::Next => "RTLD_NEXT",
            Way::DataSymbol => "data symbol",
            Way::SecondDriver => "second driver",
            Way::DriverFirst => "driver before cupeer",
            Way::Diverts => "dlsym replaced",
            Way::OtherSoname => "another soname",
            Way::NotLoaded => "libcupeer.so not loaded",
            Way::Unseen => "no watched call",
        }
    }

    /// What these words do not say by themselves.
    fn hint(self) -> Option<&'static str> {
        match self {
            Way::DriverFirst => Some("name libcupeer.so before it in LD_PRELOAD"),
            Way::Diverts => Some("it gives functions of its own in place of the driver's"),
            Way::OtherSoname => Some("it is a driver, but its soname is not libcuda.so.1"),
            Way::NotLoaded => Some("a static program, or one whose environment has lost LD_PRELOAD"),
            _ => None,
        }
    }
}

/// The words of a record with their hint, where they have one.
pub fn explained(name: &str) -> String {
    match Way::ALL.into_iter().find(|way| way.name() == name).and_then(Way::hint) {
        Some(hint) => format!("{name} ({hint})"),
        None => name.to_owned(),
    }
}
