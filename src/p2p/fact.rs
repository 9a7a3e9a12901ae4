//! A fact about the machine or this process, with its verdict.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fact that was examined. Names of fields are stable; fields may be added.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, schemars::JsonSchema)]
pub struct Fact {
    /// Name of the fact, such as `iommu`.
    pub name: String,
    /// PCI address of the device that the fact is about, or addresses of two devices; empty for the machine or the
    /// process.
    pub about: Vec<String>,
    /// Meaning of the fact.
    pub verdict: Verdict,
    /// Value of the fact; for `unknown`, the reason.
    pub value: String,
    /// Effect on programs: only for `bad`, and possibly for `unknown`.
    pub breaks: Option<String>,
    /// Setting that helps.
    pub hint: Option<String>,
}

/// Meaning of a fact.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing would break.
    Good,
    /// The consequence in `breaks` would occur.
    Bad,
    /// The fact is withheld, or does not decide; `value` has the reason.
    Unknown,
    /// The fact is neither good nor bad by itself.
    Plain,
}

impl Verdict {
    /// Returns the word for the verdict in a table.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Good => "good",
            Verdict::Bad => "bad",
            Verdict::Unknown => "unknown",
            Verdict::Plain => "-",
        }
    }
}

impl Fact {
    fn new(name: &str, verdict: Verdict, value: impl ToString) -> Fact {
        let value = value.to_string();
        Fact { name: name.to_owned(), about: Vec::new(), verdict, value, breaks: None, hint: None }
    }

    /// Returns a fact that breaks nothing.
    pub fn good(name: &str, value: impl ToString) -> Fact {
        Fact::new(name, Verdict::Good, value)
    }

    /// Returns a fact that is neither good nor bad by itself.
    pub fn plain(name: &str, value: impl ToString) -> Fact {
        Fact::new(name, Verdict::Plain, value)
    }

    /// Returns a fact that could not be examined, with the reason.
    pub fn unknown(name: &str, why: impl ToString) -> Fact {
        Fact::new(name, Verdict::Unknown, why)
    }

    /// Returns a fact that breaks something.
    pub fn bad(name: &str, value: impl ToString, breaks: &str, hint: &str) -> Fact {
        Fact::new(name, Verdict::Bad, value).with_effect(breaks, hint)
    }

    /// Adds the effect on programs, and a setting that helps.
    pub fn with_effect(self, breaks: &str, hint: &str) -> Fact {
        Fact { breaks: Some(breaks.to_owned()), hint: Some(hint.to_owned()), ..self }
    }

    /// Adds the devices that the fact is about.
    pub fn with_devices(self, devices: &[&str]) -> Fact {
        Fact { about: devices.iter().map(ToString::to_string).collect(), ..self }
    }
}

/// Groups facts that have the same value for several devices, in the order of the first fact of each group.
/// Returns the first fact of each group, and a text with the devices of the group.
pub fn group_alike(facts: &[Fact]) -> Vec<(&Fact, String)> {
    let mut groups: BTreeMap<(usize, Verdict, &str), Vec<&Fact>> = BTreeMap::new();
    for fact in facts {
        let first = facts.iter().position(|other| other.name == fact.name).unwrap_or(0);
        groups.entry((first, fact.verdict, &fact.value)).or_default().push(fact);
    }
    let about = |group: &[&Fact]| match group {
        [one] => one.about.join(" -> "),
        [first, ..] if first.about.len() == 2 => {
            format!("{} pairs from {}", group.len(), first.about.join(" -> "))
        }
        [first, ..] if first.about.len() == 1 => {
            group.iter().map(|fact| fact.about.join(" ")).collect::<Vec<_>>().join(", ")
        }
        _ => String::new(),
    };
    groups.into_values().map(|group| (group[0], about(&group))).collect()
}

/// Returns the facts that can affect peer access from one device to another. The PCI addresses are in the
/// form of the kernel.
pub fn facts_about_pair<'a>(facts: &'a [Fact], from: &str, to: &str) -> Vec<&'a Fact> {
    let bears = |fact: &&Fact| match &fact.about[..] {
        [] => matches!(&*fact.name, "iommu" | "virtualisation" | "driver parameters" | "fabric manager"),
        [device] => device == from || device == to,
        [one, other, ..] => one == from && other == to,
    };
    facts.iter().filter(bears).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_say_the_same_share_a_row_in_the_order_of_their_names() {
        let link = |device: &str| Fact::good("link", "x16").with_devices(&[device]);
        let pair = |from: &str, to: &str| Fact::good("pair", "reach").with_devices(&[from, to]);
        let facts = [
            link("a"),
            Fact::good("b", "1"),
            Fact::bad("link", "x8", "all", "set").with_devices(&["c"]),
            link("d"),
            pair("a", "d"),
            pair("d", "a"),
        ];
        let rows: Vec<(String, String)> =
            group_alike(&facts).into_iter().map(|(fact, about)| (fact.value.clone(), about)).collect();
        let expected = [("x16", "a, d"), ("x8", "c"), ("1", ""), ("reach", "2 pairs from a -> d")];
        assert_eq!(rows, expected.map(|(value, about)| (value.to_owned(), about.to_owned())));
    }
}
