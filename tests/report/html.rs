//! The page: that it asks for nothing, is small, says all that the text says, and is drawn without an error.
//!
//! `KEEP_PAGES=DIR cargo test --test integration -- report::html::` leaves the pages in a directory, to be looked at.

use super::scene::{self, Actor, Scene, checked};
use super::{of, support};
use cupeer_record::{Job, Outcome, writer};
use cupeer_report::filter::Filter;
use cupeer_spec::function::FnId;
use cupeer_spec::record::end::RecordedEnd;
use cupeer_spec::record::slot::shape;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The page of a record.
#[track_caller]
pub fn page(record: &Path, name: &str) -> String {
    let text = support::stdout(support::cupeer().arg("report").arg(record).args(["--format", "html"]));
    if let Some(directory) = std::env::var_os("KEEP_PAGES") {
        std::fs::write(Path::new(&directory).join(format!("{name}.html")), &text).expect("writable");
    }
    text
}

/// The page without its styles and scripts.
fn markup(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, element)) =
        ["<script", "<style"].iter().filter_map(|begin| rest.split_once(begin)).min_by_key(|(before, _)| before.len())
    {
        text += before;
        let end = ["</script>", "</style>"]
            .iter()
            .filter_map(|end| element.split_once(end))
            .min_by_key(|(inner, _)| inner.len());
        rest = end.expect("it ends").1;
    }
    text + rest
}

/// Returns the text that people read on it.
pub fn read(page: &str) -> String {
    let mut text = String::new();
    for part in markup(page).split('<').skip(1) {
        let shown = part.split_once('>').expect("a tag ends").1;
        text += &format!("{shown} ");
    }
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")];
    let plain = named.iter().fold(text, |text, (name, character)| text.replace(name, character));
    unwrapped(&plain)
}

fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Ranks that share with their neighbours, a round after another. The one in the middle is killed in a call; its
/// neighbour then fails to open what it exported, and the last one waits.
fn ring(ranks: u32, rounds: u64) -> Scene {
    let scene = Scene::new();
    let (killed, failing, hanging) = (ranks / 2 + 5, ranks / 2 + 6, ranks - 1);
    for rank in 0..ranks {
        let mut actor = scene.gone(rank);
        for ordinal in 2..8 {
            actor.device(ordinal);
        }
        let (device, next) = (rank as i32 % 8, (rank as i32 + 1) % 8);
        let on = |call: &mut cupeer_record::Call| call.details.devices = (Some(device), None);
        actor.ask_about(10 + u64::from(rank), (device, next), 1);
        actor.enable_between(20 + u64::from(rank), (device, next), if rank == failing { 217 } else { 0 });
        for round in 0..rounds {
            let at = 100 + round * 900 + u64::from(rank * 37 % 64) * 3;
            let handle = |rank: u32| 0x10_0000 * (u64::from(rank) + 1) + round;
            let (own, other) = (handle(rank), handle((rank + ranks - 1) % ranks));
            let mut export = actor.exporting(at, own, 0x7000_0000 + (round << 21));
            export.details.owner = Some((0xc0, device));
            on(&mut export);
            actor.add(&export);
            let is_last = round + 1 == rounds;
            let mut open = actor.opening(at + 200, (other, checked(other)), 0x9000_0000 + (round << 21));
            on(&mut open);
            open.end = open.start + 10_000 + (round * 7919 + u64::from(rank) * 131) % 90_000;
            match rank {
                _ if !is_last => {
                    actor.add(&open);
                    actor.close(at + 500, 0x9000_0000 + (round << 21));
                    actor.free(at + 700, 0x7000_0000 + (round << 21));
                }
                rank if rank == killed => {
                    let call = actor.makes(FnId::cuIpcOpenEventHandle, at + 100);
                    actor.hang(&call);
                }
                rank if rank == failing => {
                    writer::set_shape(&mut open, "pdptr", shape::UNREAD);
                    open.outcome = Outcome::Returned(400);
                    open.start += 9_000_000;
                    open.end = open.start + 30_000;
                    actor.add(&open);
                }
                rank if rank == hanging => drop(actor.hang(&open)),
                _ => drop(actor.add(&open).close(at + 700, 0x9000_0000 + (round << 21))),
            }
        }
        let end = match rank {
            rank if rank == killed => RecordedEnd::Signal(9),
            rank if rank == failing => RecordedEnd::Returned(1),
            rank if rank == hanging => RecordedEnd::Unseen,
            _ => RecordedEnd::Returned(0),
        };
        actor.writer().change_header(|header| header.end = end.to_word()).unwrap();
        actor.ends();
    }
    scene
}

/// Checks that a page with any contents declares what it may load, and names nothing that a browser would request.
#[track_caller]
fn assert_asks_for_nothing(page: &str) {
    let markup = markup(page);
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"";
    let (head, rest) = markup.split_once(policy).expect("a policy");
    assert!(head.len() < 200, "the policy stands first");
    let policy = rest.split('"').next().unwrap();
    let (scripts, others): (Vec<&str>, Vec<&str>) =
        policy.split("; ").partition(|part| part.starts_with("script-src "));
    let others_are =
        ["default-src 'none'", "style-src 'unsafe-inline'", "img-src data:", "base-uri 'none'", "form-action 'none'"];
    assert_eq!(others, others_are);
    let hashes = scripts.iter().flat_map(|part| part.split(' ').skip(1)).collect::<Vec<_>>();
    assert_eq!(hashes.len(), page.matches("<script>").count(), "a hash for each script: {policy}");
    assert!(hashes.iter().all(|hash| hash.starts_with("'sha256-")), "{policy}");
    for tag in markup.split('<').skip(1).filter_map(|part| part.split('>').next()) {
        let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap_or_default();
        let asks = ["img", "link", "iframe", "object", "embed", "base", "form", "video", "audio", "source", "svg"];
        assert!(!asks.contains(&name), "<{tag}>");
        // Text between quotes is not an attribute's name.
        let names: String = tag.split('"').step_by(2).collect();
        let is_bad = |name: &str| name.starts_with("on") || ["src=", "srcset=", "style=", "action="].contains(&name);
        assert!(!names.split_whitespace().skip(1).any(is_bad), "<{tag}>");
        if let Some((_, link)) = tag.split_once(" href=\"") {
            let id = link.strip_prefix('#').expect("a place in the page").split('"').next().unwrap();
            assert!(markup.contains(&format!(" id=\"{id}\"")), "#{id} is nowhere");
        }
    }
}

#[test]
fn a_page_says_what_the_text_says_and_asks_for_nothing() {
    let scene = ring(16, 3);
    let page = page(&scene.dir(), "small");
    assert_asks_for_nothing(&page);
    let shown = read(&page);
    let text = of(&scene, &[]);
    let (digest, rest) = text.split_once("\n\nrecording ").expect("a head");
    // A line that is wrapped goes on further in.
    let lines = digest.replace("\n    ", " ");
    assert!(lines.lines().count() > 3, "{text}");
    // Commands are for a terminal, and a finding has a card, which begins with its rule.
    let is_card = |line: &str| line.starts_with("error ") || line.starts_with("warning ");
    for line in lines.lines().filter(|line| !line.starts_with("more: ")) {
        let text = if is_card(line) { line.split_once(": ").expect("a message").1 } else { line };
        for clause in text.split("; ") {
            assert!(shown.contains(&unwrapped(clause)), "{clause}\n{shown}");
        }
    }
    let wrong = rest.split_once("\nProblems\n").expect("something is").1.split("\n\n").next().unwrap();
    for paragraph in wrong.split("\n- ") {
        let sentence = unwrapped(paragraph.split('\n').next().unwrap().trim_start_matches("- "));
        assert!(shown.contains(&sentence), "{sentence}\n{shown}");
    }
}

#[test]
fn every_finding_is_in_it_with_its_stack() {
    let scene = ring(16, 3);
    let page = page(&scene.dir(), "findings");
    let shown = read(&page);
    let report = super::json_of(&scene, &[]);
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.len() > 2, "{report}");
    for (number, finding) in findings.iter().enumerate() {
        let (_, card) = page.split_once(&format!("id=\"f{number}\"")).expect("a card");
        let card = read(&format!("<{}", card.split("</article>").next().unwrap()));
        for what in ["rule", "message", "function", "severity"] {
            assert!(card.contains(&unwrapped(finding[what].as_str().unwrap())), "{finding}\n{card}");
        }
        let inner = &finding["stack"][0];
        let place = format!("train+{}", inner["offset"].as_str().unwrap());
        assert!(card.contains(&place), "{place} is not in {card}");
    }
    for process in report["processes"].as_array().unwrap() {
        assert!(shown.contains(process["last_call"]["function"].as_str().unwrap()));
    }
    let numbers = support::page_data(&page);
    assert_eq!(numbers["processes"].as_array().unwrap().len(), 16);
    let deaths = numbers["moments"].as_array().unwrap().iter().filter(|moment| moment["kind"] == "death");
    assert_eq!(deaths.count(), 2);
    assert_eq!(numbers["processes"][13]["state"], "died");
}

#[test]
fn recorded_text_is_never_markup() {
    let scene = Scene::new();
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;<!--";
    let mut actor: Actor = scene.gone(0).on(hostile);
    actor.writer().text("program", &format!("/opt/{hostile}")).unwrap();
    actor.writer().argument(hostile).unwrap();
    actor.fail_to_open(200, (0xa, checked(0xa)), 400).export(300, 0xb, 0x7000);
    let mut call = actor.opening(400, (0xc, checked(0xc)), 0x9000);
    call.details.findings = vec![scene::found(hostile, cupeer_rules::Severity::Error, hostile)];
    call.details.message = Some(hostile.into());
    actor.add(&call);
    let stream = actor.stream;
    actor.writer().mark(stream, scene::us(500), hostile.as_bytes()).unwrap();
    actor.ends();
    let page = page(&scene.dir(), "hostile");
    assert_asks_for_nothing(&page);
    assert!(!page.contains("<img") && !page.contains("<script>alert"), "it is text");
    let marks = support::page_data(&page);
    let mark = marks["moments"].as_array().unwrap().iter().find(|moment| moment["kind"] == "mark");
    assert_eq!(mark.expect("the mark")["text"], hostile);
    assert!(read(&page).contains("<img src=x onerror=alert(2)>"), "it can be read");
    drawn(&page, "hostile");
}

#[test]
fn objects_of_a_process_end_with_it() {
    let scene = Scene::new();
    let mut exporter = scene.gone(0);
    exporter.export(100, 0xa, 0x7000).ask(900, 1);
    exporter.ends();
    let mut opener = scene.gone(1);
    opener.add(&opener.opening(300, (0xa, checked(0xa)), 0x9000)).ask(600, 1);
    opener.ends();
    let mut other = scene.gone(2);
    other.ask(90_000, 1).ends();
    let data = support::page_data(&page(&scene.dir(), "held"));
    let until = |process: usize| data["processes"][process]["until_ns"].as_u64().unwrap();
    let life = &data["handles"][0];
    assert!(until(1) < until(0) && until(0) < until(2), "{data}");
    assert_eq!((&life["freed_ns"], life["gone_ns"].as_u64()), (&Value::Null, Some(until(0))), "{life}");
    let open = &life["opens"][0];
    assert_eq!((open[2].as_u64(), &open[3]), (Some(until(1)), &false.into()), "{life}");
}

#[test]
fn a_finding_is_on_the_row_of_each_of_its_ranks() {
    let scene = Scene::new();
    for rank in 0..15 {
        let mut actor = scene.gone(rank);
        actor.writer().argument("--multiprocessing-fork").unwrap();
        actor.writer().text("started-by", "python3 train.py --steps=3").unwrap();
        let mut call = actor.opening(400 + u64::from(rank), (0xc, checked(0xc)), 0x9000);
        call.outcome = Outcome::Returned(1);
        call.details.findings = vec![scene::found("ipc-flags", cupeer_rules::Severity::Error, "Flags is 0")];
        actor.add(&call).ends();
    }
    let page = page(&scene.dir(), "rows");
    let data = support::page_data(&page);
    let moments = data["moments"].as_array().unwrap().iter().filter(|moment| moment["kind"] == "error");
    let mut rows: Vec<u64> = moments.map(|moment| moment["process"].as_u64().unwrap()).collect();
    rows.sort_unstable();
    assert_eq!(rows, Vec::from_iter(0..15));
    // The command line stands in the head.
    assert!(read(&page).contains(" python3 train.py --steps=3 "), "{}", read(&page));
    drawn(&page, "rows");
}

#[test]
fn a_failure_is_red_unless_what_its_thread_did_next_was_read_and_shows_that_it_was_expected() {
    let scene = Scene::new();
    let mut actor = scene.rank(0);
    let mut create = |at, types: i32, result| {
        let mut call = actor.makes(FnId::cuMemCreate, at);
        call.outcome = Outcome::Returned(result);
        writer::set(&mut call, "prop", &[1, types, 1, 0].map(i32::to_le_bytes).concat());
        actor.add(&call);
    };
    const NOT_PERMITTED: i32 = 800;
    const FABRIC: i32 = 8;
    create(10, FABRIC, NOT_PERMITTED);
    create(30, FABRIC, NOT_PERMITTED);
    create(1_000, 1, 0);
    create(2_000, FABRIC, NOT_PERMITTED);
    actor.ends();
    let red = |options: &[&str]| {
        let mut command = support::cupeer();
        command.arg("report").arg(scene.dir()).args(["--format", "html"]).args(options);
        support::shown_as_failed(&support::stdout(&mut command))
    };
    assert_eq!(red(&[]), 1, "the last one, which nothing follows");
    assert_eq!(red(&["--until", "0.001500"]), 0);
    assert_eq!(red(&["--until", "0.000500"]), 2);
}

#[test]
fn a_page_of_64_ranks_and_100_000_calls_is_below_5_mb() {
    let scene = ring(64, 391);
    let page = page(&scene.dir(), "large");
    let numbers = support::page_data(&page);
    let calls = numbers["timeline"]["calls"].as_u64().unwrap();
    assert!(calls > 100_000, "{calls}");
    let counted =
        numbers["timeline"]["rows"].as_array().unwrap().iter().flat_map(|row| row["calls"].as_array().unwrap());
    let counted: u64 = counted.flat_map(|run| run.as_array().unwrap()[1..].iter().map(|n| n.as_u64().unwrap())).sum();
    assert_eq!(counted, calls, "no call is in no bin");
    let single = numbers["timeline"]["single"].as_u64().unwrap();
    let folded = (calls - single).to_string();
    let folded = format!("{},{} more are folded", &folded[..folded.len() - 3], &folded[folded.len() - 3..]);
    let shown = read(&page);
    assert!(shown.contains(&folded), "{folded}");
    assert!(shown.contains(" handles are grouped into rows of similar handles"));
    let members: Vec<u64> = numbers["groups"][0][1].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert!(members.len() > 50 && [37, 38, 63].iter().all(|wrong| !members.contains(wrong)), "{members:?}");
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    let dom = drawn(&page, "large");
    if let Some(dom) = dom {
        assert!(dom.contains("was killed by SIGKILL</text>"), "the rank that was killed is named in the picture");
    }
}

/// The page of a record in this directory, if that can be read at all.
fn document(record: &Path) -> Option<String> {
    let job = Job::open(record).ok()?;
    let filter = Filter::all(&job);
    let keep = cupeer_report::Keep { failures: 10, durations: true, callers: false, few_names: false };
    let report = cupeer_facts::read(&job, &filter, keep, None).ok()?;
    Some(cupeer_views::html::render_page(&job, &filter, &report, "r").expect("a page"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_recorded_text_stays_text(parts in proptest::collection::vec(select(NASTY.to_vec()), 1..8)) {
        let scene = Scene::new();
        let said = parts.concat();
        let mut actor = scene.gone(0).on(&said);
        actor.writer().text("program", &said).unwrap();
        let mut call = actor.opening(400, (0xc, checked(0xc)), 0x9000);
        call.details.findings = vec![scene::found(&said, cupeer_rules::Severity::Warning, &said)];
        actor.add(&call);
        let stream = actor.stream;
        actor.writer().mark(stream, scene::us(500), said.as_bytes()).unwrap();
        actor.ends();
        let page = document(&scene.dir()).expect("a page");
        assert_asks_for_nothing(&page);
        let data = support::page_data(&page);
        let mut moments = data["moments"].as_array().unwrap().iter();
        prop_assert_eq!(&moments.find(|moment| moment["kind"] == "mark").expect("the mark")["text"], &said);
        let title = markup(&page);
        prop_assert_eq!(title.matches("<article").count(), title.matches("</article>").count());
    }

    #[test]
    fn a_damaged_record_has_a_page_all_the_same(damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let scene = ring(3, 2);
        let file = std::fs::read_dir(scene.dir()).unwrap().map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|extension| extension == "cupeer")).expect("a process");
        let mut bytes = std::fs::read(&file).unwrap();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        std::fs::write(&file, bytes).unwrap();
        let page = document(&scene.dir()).expect("the others can be read");
        assert_asks_for_nothing(&page);
        support::page_data(&page);
    }
}

/// Parts of texts that would be more than text.
const NASTY: [&str; 12] = [
    "</script>",
    "<script>",
    "<!--",
    "-->",
    "]]>",
    "\"",
    "'",
    "&",
    "<img src=x onerror=y>",
    "\u{2028}",
    "\u{202e}",
    "</article>",
];

/// Returns the path of a browser.
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    all.into_iter().find(|path| path.exists())
}

/// The document as a browser has it once the scripts have run without an error; `None` without a browser.
#[track_caller]
fn drawn(page: &str, name: &str) -> Option<String> {
    let dom = dom(page, name)?;
    let begin = dom.split("<head").next().unwrap_or_default();
    assert!(
        begin.contains("data-opened=") && begin.contains("data-drawn=") && !begin.contains("data-error"),
        "{begin}"
    );
    Some(dom)
}

/// The document as a browser has it once the scripts have run; `None` without a browser.
fn dom(page: &str, name: &str) -> Option<String> {
    let Some(browser) = browser() else {
        left_out!("no chromium to open the page in");
        return None;
    };
    let folder = support::temp_dir();
    let path = folder.path().join(format!("{name}.html"));
    std::fs::write(&path, page).expect("a file");
    let mut command = Command::new(browser);
    command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    let ended = support::done(command.arg(format!("file://{}", path.display())));
    Some(ended.stdout)
}

#[test]
fn a_script_of_another_in_the_page_does_not_run() {
    let scene = ring(3, 2);
    let page = page(&scene.dir(), "another");
    let others = [
        "<script>document.title = 'overtaken'</script>",
        "<script src=\"data:text/javascript,document.title='overtaken'\"></script>",
        "<img src=\"data:,\" onerror=\"document.title = 'overtaken'\">",
        "<iframe srcdoc=\"<script>parent.document.title = 'overtaken'</script>\"></iframe>",
    ];
    for other in others {
        let Some(dom) = dom(&page.replace("</main>", &format!("{other}</main>")), "another") else { return };
        assert!(!dom.contains("<title>overtaken"), "{other} ran");
        assert!(dom.contains("data-drawn="), "the page is drawn around {other}");
    }
}

#[test]
fn all_pictures_are_drawn_and_all_rows_are_there() {
    let scene = ring(16, 3);
    let page = page(&scene.dir(), "drawn");
    let Some(dom) = drawn(&page, "drawn") else { return };
    for id in ["ranks", "pairs", "openings", "links", "lives"] {
        let (_, picture) = dom.split_once(&format!("id=\"{id}\"")).expect("its place");
        let inner = picture.split("</div>").next().unwrap();
        assert!(inner.contains("<svg"), "{id} is not drawn");
    }
    let count = |text: &str, what: &str| text.matches(what).count();
    assert_eq!(count(&dom, "<tr id=\"p"), 16);
    assert_eq!(count(&dom, "<tr id=\"h"), super::json_of(&scene, &[])["handles"].as_array().unwrap().len());
    let (_, timeline) = dom.split_once("id=\"ranks\"").unwrap();
    let timeline = timeline.split("</div>").next().unwrap();
    for rank in [13, 14, 15] {
        assert!(
            timeline.contains(&format!(">rank {rank}</text>")) || timeline.contains(&format!(">rank {rank}<title>")),
            "rank {rank} has a row"
        );
    }
    assert!(timeline.contains("was killed by SIGKILL"), "who was killed stands out");
    // The last call comes long after all others.
    assert!(timeline.contains("nothing for 8.31 ms"), "{timeline}");
}

#[test]
fn keys_and_buttons_do_what_the_page_says() {
    let scene = ring(16, 3);
    let page = page(&scene.dir(), "keys");
    let script = format!("<script nonce=\"keys\">{}</script></body>", include_str!("html.js"));
    let allowed = page.replace("script-src ", "script-src 'nonce-keys' ").replace("</body>", &script);
    let Some(dom) = drawn(&allowed, "keys") else { return };
    let told = |name: &str| {
        let (_, rest) = dom.split_once(&format!("<output class=\"{name}\">")).unwrap_or_else(|| panic!("no {name}"));
        rest.split('<').next().unwrap().to_owned()
    };
    let handles = super::json_of(&scene, &[])["handles"].as_array().unwrap().len();
    let sorted: Vec<String> = (0..16).map(|rank| rank.to_string()).collect();
    assert_eq!(told("focus"), "search");
    // It exported three, and opened two of others.
    assert_eq!(told("found"), "5");
    assert_eq!(told("cleared"), handles.to_string());
    assert_eq!(told("sorted"), sorted.join(","));
    assert_eq!([told("reversed"), told("walked")], ["15", "14"]);
    for name in ["counted", "bars", "moments", "unfolded"] {
        assert_eq!(told(name), "true", "{name}");
    }
    assert_eq!(told("arrived"), "f0");
}

/// The page of what the program of the demonstration does on two devices.
fn demonstration(machine: &str, words: &[&str], name: &str) -> String {
    page_of("../scripts/demo.d/share.c", &[machine], words, name)
}

/// The page of what a program does under `cupeer run` with options, however it ends.
fn page_of(source: &str, options: &[&str], words: &[&str], name: &str) -> String {
    let folder = support::temp_dir();
    let program = support::compile_c(source, &["-ldl"]);
    let mut run = support::cupeer();
    run.arg("run").args(options).args(["--record", "full", "-o"]).arg(folder.path().join("r"));
    run.args(["--", "env", "OF=the shell"]).arg(program).args(words).output().expect("it runs");
    let page = page(&folder.path().join("r"), name);
    assert_asks_for_nothing(&page);
    page
}

/// The words of a page, which must be there in this order.
#[track_caller]
fn assert_in_order(text: &str, words: &[&str]) {
    let mut rest = text;
    for word in words {
        rest = rest.split_once(word).unwrap_or_else(|| panic!("{word} is not in {rest}\n\n{text}")).1;
    }
}

#[test]
fn the_problem_comes_first_with_its_place_its_fix_and_its_story() {
    let page = demonstration("--sim=nvlink:2", &["early"], "story");
    let first = [
        " env 'OF=the shell' ",
        " early ",
        "error ipc-freed-while-open: cuMemFree_v2, once in process ",
        " was freed while open in process ",
        "share.c:74 in exporter",
        "Fix Close the handle in the importers first",
        "Details",
        "rule ipc-freed-while-open : ",
        "Timeline",
    ];
    assert_in_order(&read(&page), &first);
    assert!(!read(&page).contains("cupeer explain"));
    let (_, story) = page.split_once("<div class=\"story of2\">").expect("a story");
    let story = story.split("<details").next().unwrap();
    let steps: Vec<&str> = story.split("<div class=\"step\">").skip(1).collect();
    let calls = [
        ("lane0", "exported share.c:64 in exporter"),
        ("lane1", "opened share.c:91 in importer"),
        ("lane0 error", "cuMem Free_v2 share.c:74 in exporter"),
        ("lane1", "closed"),
    ];
    assert_eq!(steps.len(), calls.len(), "{story}");
    for (step, (lane, words)) in steps.iter().zip(calls) {
        let call = step.split_once(&format!("<div class=\"call {lane}")).unwrap_or_else(|| panic!("{step}")).1;
        assert!(read(&format!("<{call}")).contains(words), "{words}: {step}");
    }
    let arrow =
        |step: usize| steps[step].split_once("<div class=\"arrow ").map(|(_, arrow)| arrow.split('"').next().unwrap());
    let arrows = [None, Some("right lane0 over1 "), Some("left lane1 over1 error"), None];
    assert_eq!([0, 1, 2, 3].map(arrow), arrows);
    // An object that was open when its memory was freed ended then.
    assert!(steps[2].contains("life lane1 from-open to-gone") && steps[3].contains("life lane1 from-gone to-"));
}

/// The class of the row of a rank.
#[track_caller]
fn class_of_rank<'a>(page: &'a str, rank: &str) -> &'a str {
    let table = page.split_once("id=\"all-processes\"").expect("the table").1;
    let mut rows = table.split("</table>").next().unwrap().split("<tr id=\"p").skip(1);
    let row = rows.find(|row| row.contains(&format!("<td class=\"number\" data-v=\"{rank}\">")));
    let head = row.unwrap_or_else(|| panic!("rank {rank} in {table}")).split('>').next().unwrap();
    head.split_once("class=\"").map_or("", |(_, class)| class.split('"').next().unwrap())
}

#[test]
fn the_card_of_a_crash_has_the_last_call_and_a_fix() {
    let page = page_of("../scripts/pages.d/ring.c", &["--sim=nvlink:4"], &["0", "4", "crash:1"], "crash");
    let first = [
        "crashed process ",
        "rank 1 was killed by SIGSEGV after ",
        "its last recorded call was cuMemFree_v2 at 0.",
        ", from ring.c:64 in exchange , rank 1 64 | if (!is_early) CALL(cuMemFree_v2",
        "The place of the crash is not known; a debugger or a core file shows it.",
        "Next Look at the code after that call.",
        "Timeline",
    ];
    assert_in_order(&read(&page), &first);
    assert_eq!(read(&page).matches("its last recorded call was").count(), 1);
    assert_eq!(class_of_rank(&page, "1"), "error");
}

#[test]
fn the_card_of_a_hang_has_the_line_of_the_process_that_others_wait_for() {
    let options = ["--sim=nvlink:4", "--on-hang", "1s:exit=3"];
    let page = page_of("../scripts/pages.d/ring.c", &options, &["0", "3", "stuck:1"], "hang");
    let first = [
        "hung no progress since ",
        "; cupeer ended the job at ",
        "rank 1 sleeps at ring.c:43 in load_batch",
        "ring.c:43 in load_batch , rank 1",
        "43 | if (is_wrong && !strcmp(mistake, \"stuck\")) sleep(1000);",
        "Next Look at what rank 1 waits for there: hang-",
        "Timeline",
    ];
    assert_in_order(&read(&page), &first);
    assert_eq!(["0", "1", "2"].map(|rank| class_of_rank(&page, rank)), ["warning", "error", "warning"]);
}

#[test]
fn a_fault_plan_names_the_call_and_its_process_and_marks_the_rows_that_failed() {
    let options = ["--sim=nvlink:2", "--inject", "cuIpcOpenMemHandle*:error=MAP_FAILED"];
    let page = page_of("../scripts/demo.d/share.c", &options, &[], "plan");
    let first = ["MAP_FAILED (INJECTED by inject/1) at share.c:91 in importer , process ", "Next Check", "Faults"];
    assert_in_order(&read(&page), &first);
    let rows = page.split_once("id=\"all-processes\"").expect("the table").1.split("</table>").next().unwrap();
    assert_eq!(rows.matches("class=\"warning\" tabindex").count(), 2, "{rows}");
}

#[test]
fn consequences_of_a_death_are_below_it_without_a_fix() {
    let page = page(&super::digest::killed().dir(), "follows");
    let first = ["rank 5 was killed or", "called from train+", " , rank 5 ", "Next Look at its last"];
    assert_in_order(&read(&page), &[&first[..], &["ipc-exporter-gone (inferred): "]].concat());
    let card = page.split("<article").find(|card| card.contains(" ipc-exporter-gone (inferred): ")).expect("its card");
    let card = card.split("</article>").next().unwrap();
    assert!(card.contains("(follows from the end of rank 5: was killed or called exit_group)"), "{card}");
    assert!(card.contains("Make the exporter wait") && !card.contains("Fix"), "{card}");
}

#[test]
fn a_picture_has_arrows_and_a_legend_of_what_occurs() {
    for (words, kinds) in [(&["early"][..], ["arrow", "late"]), (&[], ["arrow", "free"])] {
        let page = demonstration("--sim=nvlink:2", words, "legend");
        let Some(dom) = drawn(&page, "legend") else { return };
        let timeline = dom.split_once("id=\"timeline\"").unwrap().1.split("</section>").next().unwrap();
        let shown = timeline.split("<span class=\"key ").skip(1).map(|key| key.split('>').next().unwrap());
        let shown: Vec<&str> =
            shown.filter(|key| !key.contains("hidden")).map(|key| key.trim_end_matches('"')).collect();
        assert!(kinds.iter().all(|kind| shown.contains(kind)), "{shown:?}");
        for absent in ["mark", "death", "hang", "failed", "shape", "dead-row"] {
            assert!(!shown.contains(&absent), "{shown:?}");
        }
        let arrows = timeline.split_once("<g aria-label=\"arrow\"").unwrap().1.split("</g></g>").next().unwrap();
        assert_eq!(arrows.matches("<path ").count(), 4, "of memory and of an event: {arrows}");
        // Two devices are drawn once.
        for id in ["pairs", "openings"] {
            let figure = dom.split_once(&format!("id=\"{id}\"")).unwrap().0.rsplit_once("<figure").unwrap().1;
            assert!(figure.starts_with(" hidden"), "{figure}");
        }
    }
}

#[test]
fn uses_that_nothing_orders_are_joined_by_the_missing_arrow() {
    let program = support::compile_c("programs/rules/events.c", &["-lpthread", "-ldl"]);
    let folder = support::temp_dir();
    let record = folder.path().join("r");
    let mut run = support::cupeer();
    run.args(["run", "--sim=nvlink:2", "--check=notes", "-o"]).arg(&record);
    run.arg("--").arg(program).args(["ipc-event-unwaited/used", "bad"]);
    assert!(support::done(&mut run).status.success());
    let page = page(&record, "unordered");
    let data = page.split_once("\"unordered\":[{").expect("a finding about two uses").1;
    let data = data.split_once("}]").unwrap().0;
    assert!(data.contains("cuMemsetD32Async") && data.contains("cuMemcpyDtoH_v2"), "{data}");
    let Some(dom) = drawn(&page, "unordered") else { return };
    let link = dom.split_once("aria-label=\"nothing orders these\"").expect("a line between them").1;
    assert!(link.split("</g>").next().unwrap().contains("<path "), "{dom}");
}

#[test]
fn findings_of_a_real_program_have_their_lines_of_source() {
    let page = demonstration("--sim=none:2", &[], "real");
    let shown = read(&page);
    let (_, finding) =
        shown.split_once("error ipc-devices-apart: cuIpcOpenMemHandle_v2, once in process ").expect("the finding");
    let (_, place) = finding.split_once("PEER_ACCESS_UNSUPPORTED, at ").expect("its call");
    assert!(place.split(' ').nth(2).is_some_and(|place| place.starts_with("share.c:")), "{place}");
    drawn(&page, "real");
}

/// A device over time, with the call that found too little: as a chart's data, and as a table that needs no script.
#[test]
fn memory_is_charted_by_owner_with_the_call_that_failed() {
    let folder = support::temp_dir();
    let machine = folder.path().join("small.toml");
    std::fs::write(&machine, "[[device]]\nmemory = \"16GiB\"\n").unwrap();
    let search = format!("-L{}", support::sim_dir().display());
    let program = support::compile_c("../scripts/pages.d/exhaust.c", &[&search, "-lcuda"]);
    let mut command = support::with(&["run", "-q", "--record", "full", "--out", "r"]);
    command.arg(format!("--sim={}", machine.display())).arg("--").arg(program).current_dir(folder.path());
    assert_eq!(support::done(&mut command).status.code(), Some(1));
    let page = page(&folder.path().join("r"), "memory");
    let data = support::page_data(&page);
    let chart = &data["memory"][0];
    let (times, series) = (chart["times_ns"].as_array().unwrap(), chart["series"].as_array().unwrap());
    let gib = |process: u64, state: &str, at: usize| {
        let line = series.iter().find(|line| line[0] == process && line[1] == state).expect("a line");
        let changes = line[2].as_array().unwrap();
        changes.iter().rfind(|change| change[0].as_u64().unwrap() <= at as u64).unwrap()[1].as_u64().unwrap() >> 30
    };
    let failed = chart["failures"][0][0].as_u64().unwrap();
    let before = times.iter().rposition(|at| at.as_u64().unwrap() <= failed).unwrap();
    assert_eq!([gib(0, "", before), gib(1, "", before), gib(0, "freed, kept by importers", before)], [4, 4, 3]);
    assert_eq!(chart["failures"].as_array().unwrap().len(), 1);
    assert!(times.iter().all(|at| at.as_u64() <= data["lasted_ns"].as_u64()));
    let text = read(&page);
    let title = "cuMemAlloc_v2 failed in";
    assert!(text.contains(title) && text.contains("which asked for 13GiB: memory of GPU 0"), "{text}");
    assert!(page.contains(&format!("id=\"{}\"", chart["failures"][0][2].as_str().unwrap())));
    if let Some(dom) = drawn(&page, "memory") {
        assert!(dom.contains("url(#memory0-hatch0)") && dom.contains("the device has 16 GiB"), "no areas");
        let (_, line) = dom.split_once("id=\"memory0-at\"").expect("the line below");
        assert!(line.split("</p>").next().unwrap().contains("freed, kept by importers: 3 GiB"));
    }
}
