//! What commands say: text for people in aligned columns, or one JSON document.
//!
//! Results go to standard output, everything else to standard error.
//! Names and texts of servers are shown without anything a terminal would obey.
//!
//! Applies to: both.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::cli::Global;
use crate::exit::{Ended, Failure};

/// A result that people and programs can read.
pub(crate) trait Shown: Serialize {
    /// Writes it down for people.
    fn show(&self, page: &mut Page);
}

/// Shows a result as it was asked for.
pub(crate) fn show<T: Shown>(global: &Global, result: &T) -> Ended {
    if global.json {
        return json(result);
    }
    let color =
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let mut page = Page { text: String::new(), color };
    result.show(&mut page);
    say(&page.text)
}

fn json(document: &impl Serialize) -> Ended {
    say(&(serde_json::to_string_pretty(document)? + "\n"))
}

/// Writes to standard output; whoever closed it wants to hear nothing more.
pub(crate) fn say(text: &str) -> Ended {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever writes on and on is to end then, and well.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::unheard()),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(()),
    }
}

/// What a command did that people hear nothing of: that it ended well says it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Done {
    /// What was named: a server, a tool, a key.
    subject: String,
    /// How it is now, as `connected` or `revoked`.
    status: String,
    /// What may not be as it was meant; people hear of that.
    notes: Vec<String>,
}

impl Done {
    pub(crate) fn new(subject: impl Into<String>, status: impl Into<String>) -> Self {
        Self { subject: subject.into(), status: status.into(), notes: Vec::new() }
    }

    pub(crate) fn notes(mut self, notes: Vec<String>) -> Self {
        self.notes = notes;
        self
    }

    /// Tells programs, and people what may be wrong.
    pub(crate) fn tell(&self, global: &Global) -> Ended {
        for text in &self.notes {
            note(global, &format!("mgp: {text}"));
        }
        if global.json { json(self) } else { Ok(()) }
    }
}

/// Says something on the way, to people only.
pub(crate) fn note(global: &Global, text: &str) {
    if !global.json {
        let _ = writeln!(io::stderr().lock(), "{}", plain(text));
    }
}

/// A text for people.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
    color: bool,
}

/// How something is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Doubtful,
    Bad,
    Quiet,
}

/// A place in a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

// === impl Page ===

impl Page {
    /// A line.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        self.text.push_str(&plain(text.as_ref()));
        self.text.push('\n');
    }

    /// A text of several lines, such as what a tool answers.
    pub(crate) fn block(&mut self, text: &str) {
        for line in text.lines() {
            self.line(line);
        }
    }

    /// A table with aligned columns; the last one is as long as it is.
    pub(crate) fn table<const N: usize>(
        &mut self,
        heads: [&str; N],
        rows: impl IntoIterator<Item = [Cell; N]>,
    ) {
        let heads = heads.map(|head| Cell { text: head.to_owned(), tone: Tone::Quiet });
        let rows: Vec<[Cell; N]> = std::iter::once(heads).chain(rows).collect();
        let mut widths = [0; N];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        for row in rows {
            let mut line = String::new();
            for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
                let space = if at + 1 == N { 0 } else { width - cell.text.chars().count() + 2 };
                self.tint(&mut line, cell);
                let _ = write!(line, "{:space$}", "");
            }
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    /// A word in its tone, then a text.
    pub(crate) fn marked(&mut self, mark: &Cell, text: &str) {
        let mut line = String::new();
        self.tint(&mut line, mark);
        let _ = write!(line, " {}", plain(text));
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn tint(&self, line: &mut String, cell: &Cell) {
        let code = match cell.tone {
            Tone::Good => "32",
            Tone::Doubtful => "33",
            Tone::Bad => "31",
            Tone::Quiet => "2",
            Tone::Plain => "",
        };
        if self.color && !code.is_empty() && !cell.text.is_empty() {
            let _ = write!(line, "\u{1b}[{code}m{}\u{1b}[0m", cell.text);
        } else {
            line.push_str(&cell.text);
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self { text: plain(text), tone: Tone::Plain }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Self {
        cell.map_or_else(|| "-".into(), Into::into)
    }
}

impl Cell {
    /// A cell of a number.
    pub(crate) fn number(number: impl TryInto<u64>) -> Self {
        number.try_into().map_or_else(|_| "-".into(), |number| number.to_string().into())
    }

    /// Its text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The same in a tone.
    pub(crate) fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }
}

/// A text in which nothing can hide: what terminals obey, and what turns the direction of text, is written out.
pub(crate) fn plain(text: &str) -> String {
    let hides = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    if !text.contains(hides) {
        return text.to_owned();
    }
    text.chars().fold(String::new(), |mut out, c| {
        if hides(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        out
    })
}

/// The first line of a text, cut where it is long.
pub(crate) fn brief(text: &str, most: usize) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    if line.chars().count() <= most {
        return line.to_owned();
    }
    let cut: String = line.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
}

/// A number of things, `1 tool` or `2 tools`.
pub(crate) fn many(number: impl TryInto<u64>, thing: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// How far long work has come, on a terminal's standard error.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    all: usize,
    done: usize,
    is_seen: bool,
}

impl Progress {
    pub(crate) fn new(global: &Global, what: &'static str, all: usize) -> Self {
        let is_seen = all > 1 && !global.json && io::stderr().is_terminal();
        Self { what, all, done: 0, is_seen }
    }

    /// One more is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        if self.is_seen {
            let _ = write!(io::stderr(), "\r\u{1b}[K{} {}/{}", self.what, self.done, self.all);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_seen {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_nothing_hides() {
        let mut page = Page::default();
        let rows = [["a".into(), "1\u{1b}[31m".into()], ["long".into(), Cell::number(2_u64)]];
        page.table(["ID", "N"], rows);
        page.line("b\u{202e}c");
        assert_eq!(page.text, "ID    N\na     1\\u{1b}[31m\nlong  2\nb\\u{202e}c\n");
    }

    #[test]
    fn only_a_page_with_colour_has_colour() {
        let cell = || Cell::from("OK").tone(Tone::Good);
        let mut page = Page { color: true, ..Page::default() };
        page.marked(&cell(), "well");
        assert_eq!(page.text, "\u{1b}[32mOK\u{1b}[0m well\n");
        let mut page = Page::default();
        page.marked(&cell(), "well");
        assert_eq!(page.text, "OK well\n");
    }

    #[test]
    fn long_texts_are_cut_at_their_first_line() {
        assert_eq!(brief("\n  Reads a file \nand more", 40), "Reads a file");
        assert_eq!(brief("Reads a file", 6), "Reads…");
    }
}
