//! Files that packages install below `share`, made from the definition of the command line: man pages, and completions for three
//! shells. `scripts/wheel` writes them to the directory CUPEER_SHARE, with the date CUPEER_DATE.

use crate::Cli;
use crate::start::complete::shell_script;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::collections::BTreeMap;

/// The command as users see it.
fn command() -> Command {
    Cli::command().disable_help_subcommand(true)
}

/// The files, by their paths in `share`.
fn files() -> BTreeMap<String, Vec<u8>> {
    let completions = [
        ("bash", "bash-completion/completions/cupeer"),
        ("zsh", "zsh/site-functions/_cupeer"),
        ("fish", "fish/vendor_completions.d/cupeer.fish"),
    ];
    let mut files = BTreeMap::new();
    for (shell, path) in completions {
        files.insert(path.to_owned(), shell_script(shell).expect("a shell that is known").into_bytes());
    }
    let mut whole = command();
    whole.build();
    let seen = whole.get_subcommands().filter(|command| !command.is_hide_set());
    for command in seen.chain([&whole]) {
        // `cupeer-run`, as man has it.
        let name = command.get_display_name().unwrap_or("cupeer").to_owned();
        files.insert(format!("man/man1/{name}.1"), page(command, &name));
    }
    files
}

fn page(command: &Command, name: &str) -> Vec<u8> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let page = Man::new(command.clone().display_name(name.to_owned()));
    let page = page
        .title(name.to_uppercase())
        .source(concat!("cupeer ", env!("CARGO_PKG_VERSION")))
        .manual("cupeer")
        .date(std::env::var("CUPEER_DATE").unwrap_or("undated".to_owned()));
    let mut file = Vec::new();
    let mut sections =
        vec![Man::render_title, Man::render_name_section, Man::render_synopsis_section, Man::render_options_section];
    if command.has_subcommands() {
        sections.push(Man::render_subcommands_section);
    }
    sections.into_iter().for_each(|render| render(&page, &mut file).expect("memory can be written"));
    file.extend(examples(&after).into_bytes());
    file
}

/// Returns the text after the options: lines that begin with spaces are commands, and others are paragraphs.
fn examples(help: &str) -> String {
    let mut text = String::new();
    let mut section = "";
    for line in help.lines().filter(|line| !line.is_empty()) {
        let status = line.strip_prefix("Exit status: ");
        let is_code = line.starts_with("  ");
        let wanted = match (is_code, status) {
            (true, _) => "EXAMPLES",
            (_, Some(_)) => "EXIT STATUS",
            _ if section.is_empty() || section == "EXAMPLES" => "NOTES",
            _ => section,
        };
        if wanted != section {
            text += &format!(".SH \"{wanted}\"\n");
            section = wanted;
        } else if !is_code {
            text += ".PP\n";
        }
        // A line that begins with a full stop or an apostrophe would be a request of roff.
        let shown = status.unwrap_or(line).trim_start().replace('\\', "\\e").replace('-', "\\-");
        text += &if is_code { format!(".nf\n\\&{shown}\n.fi\n") } else { format!("\\&{shown}\n") };
    }
    text
}

#[test]
fn share_has_pages_and_completions_of_all_commands() {
    let files = files();
    let text = |path: &str| str::from_utf8(&files[path]).unwrap();
    for command in command().get_subcommands() {
        let name = command.get_name();
        let page = format!("man/man1/cupeer-{name}.1");
        assert_eq!(files.contains_key(&page), !command.is_hide_set(), "{page}");
        if !command.is_hide_set() {
            assert!(text("man/man1/cupeer.1").contains(&format!("cupeer\\-{name}(1)")), "{name}");
            assert!(text(&page).contains("SYNOPSIS"), "{name}");
        }
    }
    assert!(text("man/man1/cupeer-run.1").contains("\\-\\-deny\\-peer"));
    let release = text("man/man1/cupeer-release.1");
    let example = ".SH \"EXAMPLES\"\n.nf\n\\&cupeer run \\-o r ";
    assert!(release.contains(example) && release.contains(".SH \"EXIT STATUS\"\n\\&0 if"), "{release}");
    let Some(share) = std::env::var_os("CUPEER_SHARE") else { return };
    for (path, bytes) in &files {
        let path = std::path::Path::new(&share).join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}
