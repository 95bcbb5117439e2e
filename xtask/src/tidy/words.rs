//! The rules of `tidy` about the English of comments, documents, log messages and help texts: forbidden words, and the
//! first word of a doc comment.

use super::{Violation, source::Source, source::closing};

/// Forbidden words: words that leave the actor unnamed, and verbs that Rust documentation does not use.
const FORBIDDEN: &[&str] = &[
    "anew", "heard", "nobody", "said", "says", "somebody", "stands", "tells", "told", "whoever",
    "whomever",
];

/// Forbidden phrases of several words.
const FORBIDDEN_PHRASES: &[&[&str]] =
    &[&["none", "where"], &["sees", "to", "it"], &["those", "who"], &["what", "becomes"]];

/// Words with which the doc comment of an item must not begin; it must begin with a verb or a noun phrase.
const NOT_FIRST: &[&str] = &[
    "Has", "How", "It", "Its", "What", "When", "Where", "Whether", "Which", "Who", "Whom", "Whose",
    "Why",
];

/// The macros whose string literals are log messages.
#[rustfmt::skip]
const LOG_MACROS: &[&str] = &[
    "debug!", "debug_span!", "error!", "error_span!", "event!", "info!", "info_span!", "span!",
    "trace!", "trace_span!", "warn!", "warn_span!",
];

/// The attributes whose string literals are help texts.
const HELP_ATTRIBUTES: &[&str] = &["arg", "clap", "command", "value"];

/// Returns a violation for each forbidden word in the comments, log messages and help texts of a file.
pub(super) fn forbidden(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for block in comment_blocks(source) {
        let prose: String = without_code(&block.text());
        for (at, what) in hits(&prose) {
            found.push(refused(&source.path, block.line(at), &what));
        }
    }
    for at in log_and_help_strings(source) {
        let literal = &source.text[source.strings[at].clone()];
        for (_, what) in hits(&without_spans(literal)) {
            found.push(refused(&source.path, source.line(source.strings[at].start), &what));
        }
    }
    found
}

/// Returns a violation for each forbidden word in a Markdown file, except in code.
pub(super) fn forbidden_in_markdown(path: &str, text: &str) -> Vec<Violation> {
    let prose = without_code(text);
    let mut found = Vec::new();
    for (at, what) in hits(&prose) {
        let line = prose[..at].matches('\n').count() + 1;
        found.push(refused(path, line, &what));
    }
    found
}

/// Returns a violation for each doc comment of an item that begins with a question word or a pronoun.
pub(super) fn first_words(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for block in comment_blocks(source).into_iter().filter(|block| block.mark == "///") {
        let first = block.lines[0].1.trim_start();
        let word = first.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        if NOT_FIRST.contains(&word) {
            let place = format!("{}:{}", source.path, block.lines[0].0);
            found.push(Violation::new(place, format!("a doc comment begins with `{word}`")));
        }
    }
    found
}

fn refused(path: &str, line: usize, what: &str) -> Violation {
    Violation::new(format!("{path}:{line}"), format!("forbidden: `{what}`"))
}

/// Consecutive comment lines with the same mark, e.g. `///`.
struct Block<'a> {
    mark: &'static str,
    /// The line numbers, and the texts without their marks.
    lines: Vec<(usize, &'a str)>,
}

impl Block<'_> {
    fn text(&self) -> String {
        let lines: Vec<&str> = self.lines.iter().map(|(_, text)| *text).collect();
        lines.join("\n")
    }

    /// Returns the number of the file's line that contains a position in [`Self::text`].
    fn line(&self, mut at: usize) -> usize {
        for (number, text) in &self.lines {
            if at <= text.len() {
                return *number;
            }
            at -= text.len() + 1;
        }
        self.lines.last().map_or(0, |(number, _)| *number)
    }
}

fn comment_blocks(source: &Source) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for range in &source.comments {
        let comment = &source.text[range.clone()];
        let number = source.line(range.start);
        if let Some(inside) = comment.strip_prefix("/*") {
            let lines = inside.trim_end_matches("*/").lines();
            let lines = lines.enumerate().map(|(at, line)| (number + at, line));
            blocks.push(Block { mark: "/*", lines: lines.collect() });
            continue;
        }
        let mark = ["////", "///", "//!", "//"].into_iter().find(|mark| comment.starts_with(mark));
        let mark = mark.map_or("//", |mark| if mark == "////" { "//" } else { mark });
        let line = (number, comment[mark.len()..].trim_end());
        match blocks.last_mut() {
            Some(block)
                if block.mark == mark
                    && block.lines.last().is_some_and(|(last, _)| last + 1 == number) =>
            {
                block.lines.push(line);
            }
            _ => blocks.push(Block { mark, lines: vec![line] }),
        }
    }
    blocks
}

/// Replaces fenced code blocks and code spans by backticks, so that lines and positions stay the same.
fn without_code(text: &str) -> String {
    let mut fenced = false;
    let mut prose = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let fence = line.trim_start().starts_with("```");
        if fence || fenced {
            prose.extend(line.bytes().map(|byte| if byte == b'\n' { '\n' } else { '`' }));
        } else {
            prose.push_str(line);
        }
        fenced ^= fence;
    }
    without_spans(&prose)
}

/// Replaces `code spans` by backticks; a span must end on its line or on the next one.
fn without_spans(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('`') {
        let (before, after) = rest.split_at(open);
        prose.push_str(before);
        let length = after[1..].find('`').filter(|end| after[1..=*end].matches('\n').count() < 2);
        let end = length.map_or(1, |length| length + 2);
        prose.extend(after[..end].bytes().map(|byte| if byte == b'\n' { '\n' } else { '`' }));
        rest = &after[end..];
    }
    prose.push_str(rest);
    prose
}

/// Returns the forbidden words in a text, with their positions.
fn hits(text: &str) -> Vec<(usize, String)> {
    let words: Vec<(usize, &str)> = words(text).collect();
    let mut found = Vec::new();
    for (at, (start, word)) in words.iter().enumerate() {
        if FORBIDDEN.iter().any(|forbidden| word.eq_ignore_ascii_case(forbidden)) {
            found.push((*start, word.to_ascii_lowercase()));
            continue;
        }
        let next = |skip: usize| adjacent(text, &words, at, skip);
        for phrase in FORBIDDEN_PHRASES {
            let same = |(skip, part): (usize, &&str)| {
                next(skip).is_some_and(|word| word.eq_ignore_ascii_case(part))
            };
            if phrase.iter().enumerate().all(same) {
                found.push((*start, phrase.join(" ")));
            }
        }
        // Allow "there is no …", but refuse "x is no …", which lacks an article.
        let usual = at > 0
            && adjacent(text, &words, at - 1, 1).is_some()
            && words[at - 1].1.eq_ignore_ascii_case("there");
        if word.eq_ignore_ascii_case("is")
            && !usual
            && next(1) == Some("no")
            && let Some(noun) = next(2)
            && noun != "longer"
            && noun.starts_with(|c: char| c.is_ascii_lowercase())
        {
            found.push((*start, format!("is no {noun}")));
        }
    }
    found
}

/// Returns the word that is `skip` words after the word at `at`, if only white space separates all words in between.
fn adjacent<'a>(text: &str, words: &[(usize, &'a str)], at: usize, skip: usize) -> Option<&'a str> {
    let last = words.get(at + skip)?;
    let gaps = words[at..=at + skip].windows(2);
    let mut blank = gaps.map(|pair| text[pair[0].0 + pair[0].1.len()..pair[1].0].trim().is_empty());
    blank.all(|blank| blank).then_some(last.1)
}

/// Splits a text into words of ASCII letters, digits and `_`, with their positions.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut at = 0;
    std::iter::from_fn(move || {
        at += bytes[at..].iter().position(|byte| is_word(*byte))?;
        let length = bytes[at..].iter().position(|byte| !is_word(*byte));
        let end = length.map_or(bytes.len(), |length| at + length);
        let word = (at, &text[at..end]);
        at = end;
        Some(word)
    })
}

/// Returns the indices of the string literals that are log messages or help texts.
fn log_and_help_strings(source: &Source) -> Vec<usize> {
    let code = &source.code;
    let mut ranges = Vec::new();
    for (at, _) in code.match_indices('!') {
        let start = code[..at].rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = &code[start.map_or(0, |start| start + 1)..=at];
        if LOG_MACROS.contains(&name)
            && let Some(open) = code[at + 1..].find(|c: char| !c.is_whitespace())
            && let Some(end) = closing(code, at + 1 + open)
        {
            ranges.push(at..end);
        }
    }
    for (at, inside) in source.attributes() {
        let name = inside.trim_start().split(|c: char| !c.is_ascii_alphanumeric()).next();
        if name.is_some_and(|name| HELP_ATTRIBUTES.contains(&name)) {
            ranges.push(at..at + inside.len() + 4);
        }
    }
    let inside = |start: usize| ranges.iter().any(|range| range.contains(&start));
    if ranges.is_empty() {
        return Vec::new();
    }
    (0..source.strings.len()).filter(|at| inside(source.strings[*at].start)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found = forbidden(&Source::new("a/src/b.rs", text));
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        let expected: Vec<String> =
            expected.iter().map(|what| format!("a/src/b.rs:{what}")).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn forbidden_words_in_comments_are_refused() {
        check("// Whoever calls.\n", &["1: forbidden: `whoever`"]);
        check("fn a() {}\n/// Returns what the server\n/// said.\n", &["3: forbidden: `said`"]);
        check("/* a\n nobody */", &["2: forbidden: `nobody`"]);
        for word in FORBIDDEN {
            check(&format!("//! {word} a"), &[&format!("1: forbidden: `{word}`")]);
        }
        for phrase in FORBIDDEN_PHRASES {
            let phrase = phrase.join(" ");
            check(&format!("// a {phrase}"), &[&format!("1: forbidden: `{phrase}`")]);
        }
    }

    #[test]
    fn a_missing_noun_is_refused_also_across_lines() {
        check("// It is no address.", &["1: forbidden: `is no address`"]);
        check("// It is\n// no address.", &["1: forbidden: `is no address`"]);
        check("// It is no longer used; there is no_std. `is no code` This is No. 1.", &[]);
        check("// Returns `None` if there is no server. There\n// is no other.", &[]);
        check("// It stays there. Is no server left?", &["1: forbidden: `is no server`"]);
    }

    #[test]
    fn code_in_comments_and_ordinary_strings_are_fine() {
        check(
            "/// Calls `told()`.\n///\n/// ```\n/// told();\n/// ```\nconst A: &str = \"nobody\";",
            &[],
        );
        check("// The teller retold it; notifies the client.", &[]);
    }

    #[test]
    fn logs_and_help_texts_are_checked() {
        check(
            "fn a() { tracing::info!(id = %x, \"nobody calls\"); f(\"nobody\") }",
            &["1: forbidden: `nobody`"],
        );
        check("fn a() { warn!(\"timeout\") }", &[]);
        check("#[arg(long, help = \"Who stands\")] a: u8", &["1: forbidden: `stands`"]);
    }

    #[test]
    fn markdown_is_checked_outside_code() {
        let text = "# A\n\nThe client\nis no\nserver.\n\n```\nnobody\n```\n`told` and told\n";
        let found = forbidden_in_markdown("a.md", text);
        let places: Vec<_> = found.iter().map(|violation| violation.place.as_str()).collect();
        assert_eq!(places, ["a.md:4", "a.md:10"]);
        assert_eq!(forbidden_in_markdown("a.md", "The server is no longer idle.\n"), []);
    }

    #[test]
    fn a_doc_comment_that_begins_with_a_question_is_refused() {
        let first = |text: &str| first_words(&Source::new("a/src/b.rs", text)).len();
        for word in NOT_FIRST {
            assert_eq!(first(&format!("/// {word} it is.\nfn a() {{}}")), 1, "{word}");
        }
        assert_eq!(first("struct A {\n    /// Whether it is.\n    b: bool,\n}"), 1);
        assert_eq!(first("/// Returns whether it is.\n/// What else.\nfn a() {}"), 0);
        assert_eq!(first("//! What this is.\n// Why.\nfn a() {}"), 0);
        assert_eq!(first("/// Items.\nfn a() {}"), 0);
    }
}
