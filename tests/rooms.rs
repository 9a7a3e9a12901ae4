//! The modules of each crate are layers: the head of its lib.rs or main.rs lists them, and none imports one above it.
//!
//! A folder within a crate may have a list in the head of its mod.rs; then the same holds for its modules. In all others, no modules
//! import each other.

use cupeer_spec::env::{PREFIX, VARIABLES, Variable};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn preload() -> PathBuf {
    root().join("src/preload")
}

/// The folders of the command and of all members of the workspace.
fn crates() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    let command = manifest.lines().find_map(|line| line.strip_prefix("path = ")?.strip_suffix("/main.rs\""));
    let members = members.split('"').skip(1).step_by(2);
    members.map(str::to_owned).chain(command.map(|path| path.trim_matches('"').to_owned())).collect()
}

/// The Rust files below a folder, as paths in it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    fn add(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add(root, &path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    add(folder, folder, &mut found);
    // The tests and examples of a crate are crates of their own.
    found.retain(|path| !["build.rs", "tests", "tests.rs", "examples"].iter().any(|other| path.starts_with(other)));
    found
}

/// The words and signs of a source, without comments and texts.
fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    let skip = |rest: &str, end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
    while let Some(c) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let after = rest[word..].trim_start_matches('#');
        let hashes = rest.len() - word - after.len();
        let length = if rest.starts_with("//") {
            skip(rest, "\n")
        } else if rest.starts_with("/*") {
            skip(rest, "*/")
        } else if ["r", "br", "cr"].contains(&&rest[..word]) && after.starts_with('"') {
            word + hashes + 1 + skip(&after[1..], &format!("\"{}", "#".repeat(hashes)))
        } else if word > 0 {
            found.push(&rest[..word]);
            word
        } else if c == '"' {
            let mut is_escaped = false;
            let end = rest[1..].find(|c| {
                let is_end = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            });
            end.map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("'\\") {
            3 + skip(&rest[3..], "'")
        } else if c == '\'' && rest.chars().nth(2) == Some('\'') {
            rest.char_indices().nth(3).map_or(rest.len(), |(at, _)| at)
        } else {
            let length = if rest.starts_with("::") { 2 } else { c.len_utf8() };
            if !c.is_whitespace() {
                found.push(&rest[..length]);
            }
            length
        };
        rest = &rest[length..];
    }
    found
}

type Names = Vec<String>;

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Adds the ends of what is imported at a place, which is behind `prefix::`. Returns the tokens behind it.
fn tree<'a, 'b>(mut rest: &'b [&'a str], prefix: &[String], found: &mut Vec<Names>) -> &'b [&'a str] {
    let mut path = prefix.to_vec();
    loop {
        match rest {
            ["super", "::", more @ ..] => {
                path.pop();
                rest = more;
            }
            ["self", more @ ..] => {
                found.push(path);
                return more;
            }
            ["{", more @ ..] => {
                rest = more;
                while let [first, more @ ..] = rest {
                    match *first {
                        "}" => return more,
                        "," => rest = more,
                        _ => {
                            let behind = tree(rest, &path, found);
                            // `as other` is passed over, and what a macro may have here.
                            let end = behind.iter().position(|token| [",", "}"].contains(token));
                            rest = &behind[end.unwrap_or(behind.len())..];
                        }
                    }
                }
                return rest;
            }
            [word, "::", more @ ..] if is_word(word) => {
                path.push((*word).to_owned());
                rest = more;
            }
            [word, more @ ..] => {
                if is_word(word) || *word == "*" {
                    path.push((*word).to_owned());
                }
                found.push(path);
                return more;
            }
            [] => return rest,
        }
    }
}

/// Everything of its own crate that a source names, as paths from the crate, by the path of its module.
fn named(tokens: &[&str], module: &[String]) -> Vec<Names> {
    let mut found = Vec::new();
    let mut inner: Vec<(usize, String)> = Vec::new();
    let mut level = 0;
    for (i, token) in tokens.iter().enumerate() {
        let is_first = i == 0 || tokens[i - 1] != "::";
        let path = || module.iter().cloned().chain(inner.iter().map(|(_, name)| name.clone())).collect::<Names>();
        match (*token, &tokens[i + 1..]) {
            ("mod", [name, "{", ..]) => inner.push((level + 1, (*name).to_owned())),
            ("{", _) => level += 1,
            ("}", _) => {
                inner.retain(|(known, _)| *known < level);
                level = level.saturating_sub(1);
            }
            // `pub(in crate::module)` says who may see, and imports nothing.
            ("crate" | "super", ["::", ..]) if i > 1 && tokens[i - 1] == "in" && tokens[i - 2] == "(" => {}
            ("crate", ["::", rest @ ..]) if is_first => {
                tree(rest, &[], &mut found);
            }
            // In a group, the whole was read at its begin.
            ("super", ["::", ..]) if is_first && !["{", ","].contains(&tokens[i.saturating_sub(1)]) => {
                tree(&tokens[i..], &path(), &mut found);
            }
            _ => {}
        }
    }
    found
}

/// The modules that a head lists, from the ground up. Other lists are in heads, too: only one after a sentence that names
/// this test is an order. Modules of one line, or of one item, do not import each other upward either.
fn order(text: &str) -> Names {
    let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    let Some(begin) = head.iter().position(|line| line.contains("tests/rooms.rs")) else { return Vec::new() };
    let list = head[begin..].iter().skip_while(|line| !line.starts_with("- `")).take_while(|line| !line.is_empty());
    let text = list.map(|line| line.strip_prefix("- ").map_or((*line).to_owned(), |line| format!("\n{line}")));
    let text = text.collect::<Vec<_>>().join(" ");
    let items = text.lines().flat_map(|item| item.split(':').next().unwrap_or("").split('`').skip(1).step_by(2));
    items.map(str::to_owned).collect()
}

/// A file: the path of its module, and what is in it.
struct File {
    path: String,
    module: Names,
    text: String,
}

impl File {
    fn new(path: &Path, text: String) -> File {
        let mut module: Names = path.with_extension("").iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&&**last)) {
            module.pop();
        }
        File { path: path.display().to_string(), module, text }
    }
}

/// The place in the order of each name that a module offers: of its modules, and of what it takes from them. What is its own
/// is above all.
fn places(head: &File, order: &[String], files: &[File]) -> BTreeMap<String, usize> {
    let at = |name: &String| order.iter().position(|known| known == name);
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let tokens = tokens(&head.text);
    for (i, token) in tokens.iter().enumerate() {
        match (*token, &tokens[i + 1..]) {
            ("use", rest) => {
                let mut taken = Vec::new();
                tree(rest, &[], &mut taken);
                for path in taken {
                    let path: Vec<_> = path.iter().filter(|part| !["crate", "self"].contains(&&***part)).collect();
                    if let [first, .., last] = path[..] {
                        // Another crate's are below all.
                        places.insert(last.clone(), at(first).unwrap_or(0));
                    }
                }
            }
            ("struct" | "enum" | "trait" | "fn" | "const" | "static" | "type", [name, ..]) => {
                places.entry((*name).to_owned()).or_insert(order.len());
            }
            _ => {}
        }
    }
    // Exported macros stand at the root, wherever they are made.
    for file in files.iter().filter(|file| file.text.contains("#[macro_export]")) {
        for (_, rest) in
            file.text.match_indices("macro_rules! ").map(|(at, found)| file.text.split_at(at + found.len()))
        {
            let name = rest.split(' ').next().unwrap().to_owned();
            if let Some(place) = file.module.get(head.module.len()).and_then(at) {
                places.entry(name).or_insert(place);
            }
        }
    }
    places.extend(order.iter().enumerate().map(|(place, name)| (name.clone(), place)));
    places
}

/// Everything that is out of order below a module that lists its own.
fn upward(head: &File, files: &[File]) -> Vec<String> {
    let order = order(&head.text);
    let places = places(head, &order, files);
    let mut found = Vec::new();
    for file in files {
        let Some(own) = file.module.strip_prefix(&*head.module).and_then(|path| path.first()) else {
            continue;
        };
        let Some(place) = order.iter().position(|known| known == own) else {
            found.push(format!("{} is in no module that the head of {} lists", file.path, head.path));
            continue;
        };
        for path in named(&tokens(&file.text), &file.module) {
            let Some([name, ..]) = path.strip_prefix(&*head.module) else { continue };
            match places.get(name) {
                Some(other) if *other <= place => {}
                Some(_) => found.push(format!("{} imports {name}, which is above {own}", file.path)),
                None => found.push(format!("{} imports {name}, which {} does not show", file.path, head.path)),
            }
        }
    }
    found
}

/// Statics that one module may fill with a function for another to call, which no import would show.
fn settable(file: &File) -> Vec<String> {
    let tokens = tokens(&file.text);
    let begins =
        tokens.iter().enumerate().filter(|(i, token)| **token == "static" && tokens[i.saturating_sub(1)] != "'");
    let kept = begins.filter_map(|(i, _)| {
        let end = tokens[i..].iter().position(|token| ["=", ";"].contains(token))?;
        let of = &tokens[i..i + end];
        let is_cell =
            |word: &&str| ["OnceLock", "OnceCell", "Mutex", "RwLock", "RefCell", "Cell", "mut"].contains(word);
        (of.contains(&"fn") && of.iter().any(is_cell)).then(|| format!("{}: {}", file.path, of.join(" ")))
    });
    kept.collect()
}

fn files_of(folder: &str) -> Vec<File> {
    let folder = root().join(folder);
    let read = |path: PathBuf| File::new(&path, fs::read_to_string(folder.join(&path)).unwrap());
    sources(&folder).into_iter().map(read).collect()
}

#[test]
fn no_module_imports_one_above_it() {
    let crates = crates();
    assert!(crates.len() > 10, "{crates:?}");
    let mut found = Vec::new();
    for folder in &crates {
        let files = files_of(folder);
        for head in &files {
            let is_listed = head.module.is_empty() || !order(&head.text).is_empty();
            if is_listed {
                found.extend(upward(head, &files).into_iter().map(|said| format!("{folder}: {said}")));
            }
        }
        found.extend(files.iter().flat_map(settable).map(|said| format!("{folder} keeps a function: {said}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns the imports between modules of a folder: the names from their parent, and those that it takes from its modules.
fn imports(head: &File, files: &[File]) -> BTreeMap<String, BTreeSet<String>> {
    let child = |file: &File| file.module.strip_prefix(&*head.module).and_then(|path| path.first()).cloned();
    let mut all: BTreeMap<String, BTreeSet<String>> =
        files.iter().filter_map(child).map(|name| (name, BTreeSet::new())).collect();
    // The first place is that of other crates.
    let order: Vec<String> = std::iter::once(String::new()).chain(all.keys().cloned()).collect();
    let places = places(head, &order, files);
    for file in files {
        let Some(own) = child(file) else { continue };
        for path in named(&tokens(&file.text), &file.module) {
            let name = path.strip_prefix(&*head.module).and_then(|path| path.first());
            let other = name.and_then(|name| order.get(*places.get(name)?));
            let other = other.filter(|other| !other.is_empty() && **other != own);
            all.entry(own.clone()).or_default().extend(other.cloned());
        }
    }
    all
}

/// The modules that import each other, by way of others, too.
fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<BTreeSet<&str>> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for from in imports.keys() {
        let mut seen = BTreeSet::new();
        let mut open = vec![from.as_str()];
        while let Some(at) = open.pop() {
            let next = imports.get(at).into_iter().flatten().map(String::as_str);
            open.extend(next.filter(|next| seen.insert(*next)));
        }
        reached.insert(from, seen);
    }
    let of = |from: &str| -> BTreeSet<&str> {
        reached.keys().filter(|to| reached[from].contains(*to) && reached[*to].contains(from)).copied().collect()
    };
    let all: BTreeSet<BTreeSet<&str>> = imports.keys().map(|from| of(from)).collect();
    all.into_iter().filter(|circle| circle.len() > 1).collect()
}

#[test]
fn no_modules_of_a_folder_import_each_other() {
    let mut found = Vec::new();
    for folder in crates() {
        let files = files_of(&folder);
        for head in &files {
            let imports = imports(head, &files);
            let circles = circles(&imports).into_iter();
            found.extend(circles.map(|circle| format!("{folder}/{}: {circle:?}", head.path)));
        }
    }
    assert!(found.is_empty(), "these import each other: {found:#?}");
}

#[test]
fn modules_that_import_each_other_are_found() {
    let file = |path: &str, text: &str| File::new(Path::new(path), text.to_owned());
    let files = [
        file("a/mod.rs", "use crate::b::Other; pub use two::Two;"),
        file("a/one.rs", "use super::Two;"),
        file("a/two.rs", "use super::three; use super::Other;"),
        file("a/three/mod.rs", "use crate::a::{one, two::Two};"),
        file("a/first.rs", "use super::{one, two};"),
    ];
    let imports = imports(&files[0], &files);
    assert_eq!(circles(&imports), [BTreeSet::from(["one", "two", "three"])]);
    assert!(imports["first"].contains("one") && !imports["one"].contains("first"));
}

/// Products know nothing of each other: the command brings them together.
#[test]
fn no_product_depends_on_another() {
    let products = ["run", "why", "sweep", "top", "reproduce", "doctor"];
    for folder in products.iter().chain(&["launch", "recordings", "console", "nvidia", "p2p"]) {
        let manifest = fs::read_to_string(root().join("src").join(folder).join("Cargo.toml")).unwrap();
        let dependencies = manifest.split_once("[dependencies]").unwrap().1;
        let others = products.map(|other| format!("cupeer-{other}.")).into_iter();
        let found: Vec<_> = others.filter(|other| dependencies.contains(other)).collect();
        assert_eq!(found, [""; 0], "src/{folder}");
    }
}

/// A source without its comments.
fn code(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or("").trim()).collect::<Vec<_>>().join(" ")
}

#[test]
fn no_source_is_longer_than_600_lines() {
    let all = crates().into_iter().flat_map(|folder| {
        let files = files_of(&folder).into_iter();
        files.map(move |file| (format!("{folder}/{}", file.path), file.text.lines().count()))
    });
    let long: Vec<_> = all.filter(|(_, lines)| *lines > 600).collect();
    assert!(long.is_empty(), "{long:?}");
}

/// The functions of a formatted source with more lines than that, and their lines. Unit tests may have more.
fn long_functions(text: &str, most: usize) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.split("#[cfg(test)]").next().unwrap().lines().collect();
    let is_modifier = |word: &str| {
        word.starts_with("pub") || word.ends_with(')') || ["const", "unsafe", "extern", "\"C\""].contains(&word)
    };
    let function = |at: usize| {
        let (before, after) = lines[at].split_once("fn ")?;
        let name = after.split(['(', '<']).next().filter(|_| before.split_whitespace().all(is_modifier))?;
        let indent = before.len() - before.trim_start().len();
        let is_end = |line: &&str| {
            line.len() - line.trim_start().len() == indent && (line.ends_with('}') || line.ends_with(';'))
        };
        Some((name, 1 + lines[at..].iter().position(is_end)?))
    };
    (0..lines.len()).filter_map(function).filter(|(_, count)| *count > most).collect()
}

#[test]
fn no_function_of_these_crates_is_longer_than_60_lines() {
    let mut long = Vec::new();
    for folder in ["src/cli", "src/run", "src/launch", "src/why", "src/sweep", "src/facts", "src/model"] {
        let files = files_of(folder);
        assert!(files.iter().any(|file| !long_functions(&file.text, 20).is_empty()), "{folder}");
        for file in &files {
            let found = long_functions(&file.text, 60).into_iter();
            long.extend(found.map(|(name, lines)| format!("{folder}/{}: {name} has {lines}", file.path)));
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn a_long_function_is_found_however_it_is_declared() {
    let text = "trait T {\n    fn none(\n        &self,\n    );\n    fn one(&self) {}\n\n    pub(in crate::a) unsafe fn six<T>(\n        x: T,\n    ) {\n                        if x {\n        }\n    }\n}\n// fn not() {\nconst fn three() -> u8 {\n    1\n}\n";
    assert_eq!(long_functions(text, 2), [("none", 3), ("six", 6), ("three", 3)]);
    assert_eq!(long_functions(text, 3), [("six", 6)]);
}

/// A variable that is only in the list of `env.rs` would be documented, and have no effect.
#[test]
fn every_variable_is_read() {
    // `src/launch` sets variables.
    let crates = crates().into_iter().filter(|folder| folder != "src/spec" && folder != "src/launch");
    let code = |file: File| {
        file.text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
    };
    let mut texts: Vec<String> = crates.flat_map(|folder| files_of(&folder)).map(code).collect();
    let python = fs::read_dir(root().join("python/cupeer")).unwrap().map(|entry| entry.unwrap().path());
    texts.extend(python.filter_map(|path| fs::read_to_string(path).ok()));
    for Variable { name, .. } in VARIABLES {
        let constant = format!("env::{}", name.strip_prefix(PREFIX).expect("the prefix"));
        let is_read = |text: &String| {
            let mut places = text.match_indices(&constant).map(|(at, found)| &text[at + found.len()..]);
            text.contains(&format!("\"{name}\""))
                || places.any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        };
        assert!(texts.iter().any(is_read), "{name} is documented, and nothing reads it");
    }
}

/// Words that only the files of one processor contain.
const OF_PROCESSORS: [&str; 5] = ["x86", "aarch64", "rdtsc", "tpidr", "asm!"];

/// Returns true if a file is that of a processor, or selects it.
fn is_of_processor(path: &Path) -> bool {
    let name = path.file_stem().unwrap_or_default();
    ["x86_64", "aarch64"].iter().any(|processor| name == *processor)
        || ["sys/arch/mod.rs", "entry/arch/mod.rs"].iter().any(|chooses| path == Path::new(chooses))
}

#[test]
fn only_the_files_of_processors_depend_on_one() {
    let (of_processors, others): (Vec<_>, Vec<_>) =
        sources(&preload()).into_iter().partition(|path| is_of_processor(path));
    let text = |path: &PathBuf| fs::read_to_string(preload().join(path)).unwrap();
    for path in others {
        let (code, path) = (code(&text(&path)), path.display());
        assert!(!code.contains("target_arch"), "{path} asks which processor it is for");
        OF_PROCESSORS.iter().for_each(|word| assert!(!code.contains(word), "{path} has {word}"));
    }
    // Each has as many files as the other, in the same places.
    let of = |name: &str| {
        let mut places: Vec<_> =
            of_processors.iter().filter(|path| path.file_stem().is_some_and(|stem| stem == name)).collect();
        places.sort();
        places.into_iter().map(|path| path.parent().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of("x86_64"), of("aarch64"));
    assert_eq!(of("x86_64").len(), 2);
}

#[test]
fn an_import_from_above_is_found_however_it_is_written() {
    let head = "//! Checked by tests/rooms.rs:\n//!\n//! - `sys`: the ground.\n//! - `log`, `told`: two.\n//! - `call`: the top.\n\npub use call::{Call as Made, run};\npub struct Own;";
    for (path, text, is_upward) in [
        ("sys/files.rs", "use crate::log::Line;", true),
        ("sys/files.rs", "use crate::{\n    sys::{arena, pages},\n    log,\n};", true),
        ("sys/files.rs", "let text = crate::call::run();", true),
        ("sys/files.rs", "routes = sym $crate::call::ROUTES,", true),
        ("sys/files.rs", "const CALL: fn() = crate::run;", true),
        ("sys/files.rs", "use crate::Own;", true),
        ("sys/files.rs", "use super::super::log;", true),
        ("sys/files.rs", "use super::{pages, super::log};", true),
        ("sys/files.rs", "mod tests { use super::super::super::log; }", true),
        ("sys/files.rs", "mod tests { use super::super::log; }", false),
        ("sys/mod.rs", "use super::log;", true),
        ("sys.rs", "use super::log;", true),
        ("sys/files.rs", "use super::log;\n// crate::call is above.", false),
        (
            "sys/files.rs",
            "let text = \"crate::call\"; let c = '\"'; /* crate::call */ let r = r#\"crate::call\"#;",
            false,
        ),
        ("sys/files.rs", "pub(in crate::call) fn kept(x: &'static str) {}", false),
        ("log/mod.rs", "use crate::{log::sink, sys};", false),
        ("log/mod.rs", "use crate::told;", true),
        ("told.rs", "use crate::log;", false),
        ("call.rs", "use crate::Own;", true),
        ("call.rs", "use crate::run;", false),
        ("other.rs", "", true),
        ("call.rs", "use crate::unknown;", true),
    ] {
        let head = File::new(Path::new("lib.rs"), head.to_owned());
        let file = File::new(Path::new(path), text.to_owned());
        assert_eq!(!upward(&head, &[file]).is_empty(), is_upward, "{path}: {text}");
    }
}

#[test]
fn a_function_that_is_set_at_run_time_is_found() {
    let of = |text: &str| settable(&File::new(Path::new("sys/files.rs"), text.to_owned())).len();
    assert_eq!(of("static AT_END: OnceLock<fn(u32)> = OnceLock::new();"), 1);
    assert_eq!(of("pub(crate) static mut AT_END: Option<fn()> = None;"), 1);
    assert_eq!(of("static AT_UNLOAD: extern \"C\" fn() = at_unload; static N: Mutex<u32> = x;"), 0);
}

/// The maps of whoever follows processes whose keys are numbers, each with what these numbers are. A number of the driver (a handle,
/// an address, a context) is given out again, so that it is no key: `cupeer_model` has identities, and `NumberHolders` for their bearers.
const KEYED_BY_NUMBERS: [(&str, &str); 3] = [
    ("src/facts/follow/ledger/mod.rs", "fingerprints of handles"),
    ("src/facts/infer/staged.rs", "hashes of what was copied"),
    ("src/model/table.rs", "the names themselves, with the identities that bear them"),
];

/// True if tokens name a map or a set whose key is a number, or a kind of object and a number.
fn is_keyed_by_number(tokens: &[&str]) -> bool {
    let is_map = |token: &str| ["HashMap", "BTreeMap", "HashSet", "BTreeSet"].contains(&token);
    match tokens {
        [map, "<", "u64", ..] | [map, "<", "(", "u64", ..] | [map, "<", "(", "Object", ",", "u64", ..] => is_map(map),
        _ => false,
    }
}

#[test]
fn no_map_of_a_follower_is_keyed_by_a_number_of_the_driver() {
    let mut found = BTreeSet::new();
    for folder in ["src/facts", "src/model", "src/preload", "src/export", "src/sweep"] {
        for path in sources(&root().join(folder)) {
            let path = Path::new(folder).join(path);
            let text = fs::read_to_string(root().join(&path)).unwrap();
            // Unit tests may use what they like.
            let code = text.split("#[cfg(test)]").next().unwrap();
            let tokens = tokens(code);
            if (0..tokens.len()).any(|at| is_keyed_by_number(&tokens[at..])) {
                found.insert(path.to_str().unwrap().to_owned());
            }
        }
    }
    found.remove("src/model/names.rs");
    let known: BTreeSet<String> = KEYED_BY_NUMBERS.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(found, known, "maps keyed by numbers");
}

#[test]
fn a_map_that_is_keyed_by_a_number_is_found() {
    for (code, is_one) in [
        ("a: HashMap<u64, Site>", true),
        ("BTreeMap<(Object, u64), Holding>", true),
        ("HashSet<(u64, u64)>", true),
        ("HashMap<Id, Site>", false),
        ("HashMap<(Realm, u64), Site>", false),
        ("Names<u64>", false),
    ] {
        let tokens = tokens(code);
        assert_eq!((0..tokens.len()).any(|at| is_keyed_by_number(&tokens[at..])), is_one, "{code}");
    }
}
