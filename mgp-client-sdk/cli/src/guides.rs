//! Tests that the guides are true to the program: each command and each configuration that they show is accepted.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use mgp_discovery::Config;

use crate::cli::Cli;

/// A fenced block of a document.
struct Block {
    language: String,
    /// The path of the document and the line of the fence, for failure messages.
    place: String,
    text: String,
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|page| page.extension().is_some_and(|kind| kind == "md"));
    pages.chain([root.join("README.md")]).collect()
}

fn blocks(page: &Path) -> Vec<Block> {
    let text = fs::read_to_string(page).unwrap();
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (at, line) in text.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            open = !open;
            if open {
                let place = format!("{}:{}", page.file_name().unwrap().display(), at + 1);
                blocks.push(Block { language: language.to_owned(), place, text: String::new() });
            }
        } else if open {
            let block = blocks.last_mut().unwrap();
            block.text += line;
            block.text.push('\n');
        }
    }
    blocks
}

/// Returns the words of the commands on a line, as a shell splits them; comments and redirections end a command.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![vec![String::new()]];
    let mut quote = None;
    let mut previous = ' ';
    for c in line.chars() {
        let words = commands.last_mut().unwrap();
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => words.last_mut().unwrap().push(c),
            None if c == '#' && previous == ' ' => break,
            None => match c {
                '\'' | '"' => quote = Some(c),
                ' ' => words.push(String::new()),
                '|' | '&' | '>' | ';' => commands.push(vec![String::new()]),
                c => words.last_mut().unwrap().push(c),
            },
        }
        previous = c;
    }
    for words in &mut commands {
        words.retain(|word| !word.is_empty());
    }
    commands
}

#[test]
fn each_command_of_the_guides_is_accepted() {
    let mut count = 0;
    for block in documents().iter().flat_map(|page| blocks(page)) {
        if !matches!(block.language.as_str(), "sh" | "console") {
            continue;
        }
        let joined = block.text.replace("\\\n", " ");
        for words in joined.lines().flat_map(|line| commands(line.trim_start_matches("$ "))) {
            if words.first().is_none_or(|program| program != "mgp") {
                continue;
            }
            count += 1;
            if let Err(error) = Cli::try_parse_from(&words)
                && error.use_stderr()
            {
                panic!("{}: `{}`: {error}", block.place, words.join(" "));
            }
        }
    }
    assert!(count > 150, "{count} commands");
}

#[test]
fn each_configuration_of_the_guides_is_accepted() {
    let mut count = 0;
    for block in documents().iter().flat_map(|page| blocks(page)) {
        if block.language != "toml" || block.text.contains("dependencies]") {
            continue;
        }
        count += 1;
        let server = "[[servers]]\nid = \"files\"\ncommand = \"files\"\n";
        let is_part = block.text.starts_with("[servers.");
        let text = if is_part { server.to_owned() + &block.text } else { block.text };
        let parsed = Config::parse("mgp.toml", &text);
        let parsed = parsed.unwrap_or_else(|errors| panic!("{}: {errors}", block.place));
        assert!(parsed.findings.is_empty(), "{}: {:?}", block.place, parsed.findings);
    }
    assert!(count > 10, "{count} configurations");
}
