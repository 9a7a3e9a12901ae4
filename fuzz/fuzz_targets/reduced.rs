//! Any text of a reduced file is refused, or gives a report that can be shown, put together with another or not.
#![no_main]

use cupeer_facts::part::JobPart;
use cupeer_report::style::Style;
use cupeer_report::suppress::Suppressions;
use cupeer_views::text;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (Ok(mut one), Ok(other)) = (JobPart::from_text(input.0), JobPart::from_text(input.1)) else { return };
    let _ = one.add(other, 10);
    one.fold();
    let filter = one.filter(Suppressions::default());
    let report = one.report(&filter);
    let options = text::Options { shown: "x", width: 80, all: true, leaks: false, style: Style::Plain };
    text::show(&report, &options);
});
