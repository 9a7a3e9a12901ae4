//! The library's rooms are layers: the head of src/preload/lib.rs has their order, and none imports one above it.

use std::fs;
use std::path::{Path, PathBuf};

fn preload() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/preload")
}

/// The rooms from the ground up.
fn rooms() -> Vec<String> {
    let head = fs::read_to_string(preload().join("lib.rs")).unwrap();
    let lines = head.lines().filter_map(|line| line.strip_prefix("//! - `")?.split_once('`'));
    lines.map(|(room, _)| room.to_owned()).collect()
}

/// The files of the library, as paths in it.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path.strip_prefix(preload()).unwrap().to_owned());
        }
    }
}

/// A source without its comments.
fn code(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or("").trim()).collect::<Vec<_>>().join(" ")
}

fn first_name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// What stands behind `crate::`, or behind as many `super::` as lead to the same place from a module of this depth: the
/// names of the modules at the top.
fn named(code: &str, depth: usize) -> Vec<&str> {
    let mut names = Vec::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&root) {
            let rest = &code[at + root.len()..];
            let Some(group) = rest.strip_prefix('{') else {
                names.push(first_name(rest));
                continue;
            };
            let (mut level, mut begin) = (0, 0);
            for (i, c) in group.char_indices() {
                match c {
                    '{' => level += 1,
                    ',' | '}' if level == 0 => {
                        names.push(first_name(group[begin..i].trim_start()));
                        begin = i + 1;
                        if c == '}' {
                            break;
                        }
                    }
                    '}' => level -= 1,
                    _ => {}
                }
            }
        }
    }
    names
}

/// What each file imports from rooms above its own.
fn upward<'a>(files: impl Iterator<Item = (PathBuf, String)> + 'a, rooms: &'a [String]) -> Vec<String> {
    let rank = |room: &str| rooms.iter().position(|known| known == room);
    let mut found = Vec::new();
    for (path, text) in files {
        let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
        let own = rank(parts[0]).unwrap_or_else(|| panic!("{path:?} lies in no room"));
        let depth = parts.len() - usize::from(path.file_name().is_some_and(|name| name == "mod.rs"));
        for name in named(&code(&text), depth) {
            if rank(name).is_some_and(|other| other > own) {
                found.push(format!("{} imports {name}, which is above {}", path.display(), parts[0]));
            }
        }
    }
    found
}

#[test]
fn no_room_imports_one_above_it() {
    let rooms = rooms();
    assert!(rooms.len() > 5, "{rooms:?}");
    for room in &rooms {
        assert!(preload().join(room).is_dir(), "there is no room {room}");
    }
    let mut files = Vec::new();
    sources(&preload(), &mut files);
    files.retain(|path| path != Path::new("lib.rs") && path != Path::new("build.rs"));
    assert!(files.len() > 50);
    let texts = files.into_iter().map(|path| {
        let text = fs::read_to_string(preload().join(&path)).unwrap();
        (path, text)
    });
    let found = upward(texts, &rooms);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What only the files of one processor say.
const OF_PROCESSORS: [&str; 5] = ["x86", "aarch64", "rdtsc", "tpidr", "asm!"];

/// Whether a file is that of a processor, or chooses it.
fn is_of_processor(path: &Path) -> bool {
    let name = path.file_stem().unwrap_or_default();
    ["x86_64", "aarch64"].iter().any(|processor| name == *processor)
        || ["sys/arch/mod.rs", "entry/arch/mod.rs"].iter().any(|chooses| path == Path::new(chooses))
}

#[test]
fn only_the_files_of_processors_depend_on_one() {
    let mut files = Vec::new();
    sources(&preload(), &mut files);
    let (of_processors, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| is_of_processor(path));
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
    let rooms = ["sys", "log", "call"].map(String::from);
    for (path, text, is_upward) in [
        ("sys/files.rs", "use crate::log::Line;", true),
        ("sys/files.rs", "use crate::{\n    sys::{arena, pages},\n    log,\n};", true),
        ("sys/files.rs", "let text = crate::call::run();", true),
        ("sys/files.rs", "routes = sym $crate::call::ROUTES,", true),
        ("sys/files.rs", "use super::super::log;", true),
        ("sys/mod.rs", "use super::log;", true),
        ("sys/files.rs", "use super::log;\n// crate::call is above.", false),
        ("log/mod.rs", "use crate::{log::sink, sys};", false),
    ] {
        let file = (PathBuf::from(path), text.to_owned());
        assert_eq!(!upward([file].into_iter(), &rooms).is_empty(), is_upward, "{path}: {text}");
    }
}
