//! Output of commands: text in aligned columns for people, or one JSON document.
//!
//! Results are printed to standard output, everything else to standard error. Control characters in names and texts of
//! servers are escaped.

mod progress;

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::{Timestamp, escape_hidden};
use serde::Serialize;
use tracing::Level;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr};

use crate::args::Global;
use crate::escape::{escape_lines, safe_json};
use crate::exit::{CliResult, Failure};
use crate::{log, state_option};

pub(crate) use progress::Progress;

/// A result that a command prints as text or as JSON.
pub(crate) trait Render: Serialize {
    /// Writes the result as text for people.
    fn render(&self, out: &mut Output);
}

/// Prints a result as text, or as JSON with `--json`.
pub(crate) fn print<T: Render>(global: &Global, result: &T) -> CliResult {
    if global.json {
        return print_json(result);
    }
    let width = if io::stdout().is_terminal() { terminal_width() } else { None };
    let mut out = Output { text: String::new(), has_color: has_color(), width };
    result.render(&mut out);
    write_stdout(&out.text)
}

/// Returns whether text on standard output may have colours.
pub(crate) fn has_color() -> bool {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|no| !no.is_empty());
    io::stdout().is_terminal() && !is_plain && !is_dumb()
}

/// Returns whether the terminal knows no control sequences.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// `true` once this process has printed a JSON document. A failure is then not printed as a second document.
static HAS_JSON: AtomicBool = AtomicBool::new(false);

/// A failed command with `--json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ErrorReport<'a> {
    /// The exit code: 1 refused or failed, 2 invalid usage, 3 no kernel is running.
    code: u8,
    /// The reason, and the remedy.
    error: &'a str,
}

/// Prints the failure of a command as JSON, unless the command has already printed its result as JSON.
pub(crate) fn print_json_error(code: u8, error: &str) {
    if !HAS_JSON.load(Ordering::Relaxed) {
        // Ignore an error: printing fails only if the reader of the output has closed it, and the exit code reports the
        // failure anyway.
        let _ = print_json(&ErrorReport { code, error });
    }
}

pub(crate) fn print_json(document: &impl Serialize) -> CliResult {
    let text = safe_json(&serde_json::to_string_pretty(document)?) + "\n";
    HAS_JSON.store(true, Ordering::Relaxed);
    write_stdout(&text)
}

pub(crate) fn print_json_line(document: &impl Serialize) -> CliResult {
    let line = safe_json(&serde_json::to_string(document)?) + "\n";
    HAS_JSON.store(true, Ordering::Relaxed);
    write_stdout(&line)
}

/// Writes to standard output; if the reader has closed it, the command ends without an error.
pub(crate) fn write_stdout(text: &str) -> CliResult {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::unwritten_output(&error))
}

/// The result of a command that changes something.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ActionReport {
    /// The subject of the command: a server, a tool, a key.
    subject: String,
    /// The new state, e.g. `connected` or `revoked`.
    status: String,
    /// Side effects and possible mistakes; without `--json`, they are printed to standard error.
    notes: Vec<String>,
    /// An explanation of the state for people.
    #[serde(skip)]
    explanation: Option<String>,
}

impl ActionReport {
    pub(crate) fn new(subject: impl Into<String>, status: impl Into<String>) -> Self {
        let (subject, status) = (subject.into(), status.into());
        Self { subject, status, notes: Vec::new(), explanation: None }
    }

    pub(crate) fn with_explanation(mut self, explanation: Option<String>) -> Self {
        self.explanation = explanation;
        self
    }

    pub(crate) fn with_notes(mut self, notes: Vec<String>) -> Self {
        self.notes = notes;
        self
    }

    /// Prints the report. Its notes go to standard error or, with `--json`, into the document.
    pub(crate) fn print(&self, global: &Global) -> CliResult {
        for text in &self.notes {
            print_note(global, &format!("mgp: {text}"));
        }
        print(global, self)
    }
}

impl Render for ActionReport {
    fn render(&self, out: &mut Output) {
        let explanation = self.explanation.iter().map(|text| format!(" {text}"));
        out.hint(format!("{}: {}{}", self.subject, self.status, explanation.collect::<String>()));
    }
}

/// Prints a line to standard error unless `--json` is given. Adds the option `--state` of this process, if it has one,
/// to each `mgp` command in the line.
pub(crate) fn print_note(global: &Global, text: &str) {
    if !global.json {
        print_stderr(&state_option::add_to(text));
    }
}

/// Prints lines to standard error, where all output for people except results belongs. If the log is JSON, prints one
/// line of JSON.
///
/// The text may come from a server, so characters that a terminal interprets are escaped.
pub(crate) fn print_stderr(text: &str) {
    if log::is_json() {
        return log::print_json(Level::INFO, text);
    }
    let mut lines = escape_lines(text);
    lines.push('\n');
    let _ = io::stderr().lock().write_all(lines.as_bytes());
}

/// Text output for people, collected before it is printed.
#[derive(Debug, Default)]
pub(crate) struct Output {
    text: String,
    has_color: bool,
    /// Width of the terminal in columns; `None` for a file or a pipe, where tables are not truncated.
    width: Option<usize>,
}

/// Returns the number of columns of the terminal on standard output.
#[cfg(unix)]
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns >= MIN_WIDTH)
}

#[cfg(not(unix))]
fn terminal_width() -> Option<usize> {
    None
}

/// The minimum width of a terminal, in columns. Tables are not fitted to a narrower terminal.
#[cfg(unix)]
const MIN_WIDTH: usize = 40;

/// The minimum width of a narrowed column of a table, in columns of the terminal.
const MIN_CELL: usize = 12;

/// The heads of columns that are never truncated: people copy the cells of these columns into commands, or need the end
/// of a cell, e.g. the remedy, the reason or the time of day.
const WHOLE_COLUMNS: [&str; 27] = [
    "ID",
    "NAME",
    "TOOL",
    "SERVER",
    "AGENT",
    "ANSWERS",
    "APPROVED",
    "BEGAN",
    "CHANNEL",
    "CHECK",
    "CONNECTED",
    "PERMISSION",
    "EVENT",
    "FOR",
    "LAST ERROR",
    "LAST SEEN",
    "TARGET",
    "WHO",
    "WHY",
    "FILE",
    "RESULT",
    "RULE",
    "SINCE",
    "TIME",
    "TO",
    "USED",
    "EXPIRES",
];

/// Removes the columns in which all cells are empty, except the first.
fn drop_empty(heads: &mut Vec<&str>, rows: &mut [Vec<Cell>]) {
    let is_empty = |at: usize| rows.iter().all(|row| matches!(row[at].text(), "" | "-"));
    let kept: Vec<bool> = (0..heads.len()).map(|at| at == 0 || !is_empty(at)).collect();
    let mut keep = kept.iter();
    heads.retain(|_| keep.next() == Some(&true));
    for row in rows {
        let mut keep = kept.iter();
        row.retain(|_| keep.next() == Some(&true));
    }
}

/// Returns the width of each column: that of its widest cell.
fn natural_widths(heads: &[&str], rows: &[Vec<Cell>]) -> Vec<usize> {
    let mut widths: Vec<usize> = heads.iter().map(|head| head.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.text.width());
        }
    }
    widths
}

/// Returns the width of a table with columns of these widths and two spaces between them.
fn width_of(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

/// Narrows the widest columns of a table until the table fits the terminal, as far as cells may be truncated.
fn fit(heads: &[&str], widths: &mut [usize], width: usize) {
    let min = |head: &str| MIN_CELL.max(head.chars().count());
    while width_of(widths) > width {
        let cut = heads
            .iter()
            .zip(widths.iter_mut())
            .filter(|(head, width)| !WHOLE_COLUMNS.contains(*head) && **width > min(head));
        let Some((_, widest)) = cut.max_by_key(|(_, width)| **width) else { return };
        *widest -= 1;
    }
}

/// The colour of a table cell or of a status word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    Plain,
    Green,
    Yellow,
    Red,
    Dim,
}

#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    color: Color,
}

impl Output {
    /// Returns the text that was added so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        self.text.push_str(&escape_hidden(text.as_ref()));
        self.text.push('\n');
    }

    /// Adds a line; commands of `mgp` in it get the option `--state` of this process. Use [`line`](Self::line) for
    /// arguments and definitions, which must stay unchanged.
    pub(crate) fn hint(&mut self, text: impl AsRef<str>) {
        self.line(state_option::add_to(text.as_ref()));
    }

    /// Adds a text of several lines.
    pub(crate) fn block(&mut self, text: &str) {
        for line in text.lines() {
            self.line(line);
        }
    }

    /// Adds a table with aligned columns, without padding after the last column. If the terminal is too narrow, columns
    /// without a value are left out.
    pub(crate) fn table<const N: usize>(
        &mut self,
        heads: [&str; N],
        rows: impl IntoIterator<Item = [Cell; N]>,
    ) {
        let mut heads = heads.to_vec();
        let mut rows: Vec<Vec<Cell>> = rows.into_iter().map(Vec::from).collect();
        if self.width.is_some_and(|width| width_of(&natural_widths(&heads, &rows)) > width) {
            drop_empty(&mut heads, &mut rows);
        }
        self.grid(&heads, rows);
    }

    /// Adds a table whose number of columns is known only at run time.
    pub(crate) fn grid(&mut self, heads: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) {
        let columns = heads.len();
        let first = heads.iter().map(|head| Cell::from(*head).color(Color::Dim)).collect();
        let rows: Vec<Vec<Cell>> = std::iter::once(first).chain(rows).collect();
        let mut widths = natural_widths(heads, &rows);
        if let Some(width) = self.width {
            fit(heads, &mut widths, width);
        }
        for mut row in rows {
            let mut line = String::new();
            for (cell, width) in row.iter_mut().zip(widths.iter().copied()) {
                cell.cut(width);
            }
            for (at, (cell, width)) in row.iter().zip(widths.iter().copied()).enumerate() {
                let space = (width + 2).saturating_sub(cell.text.width());
                let space = if at + 1 == columns { 0 } else { space };
                self.tint(&mut line, cell);
                let _ = write!(line, "{:space$}", "");
            }
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    /// Adds a line: a coloured status word, then a text.
    pub(crate) fn status_line(&mut self, mark: &Cell, text: &str) {
        let mut line = String::new();
        self.tint(&mut line, mark);
        let _ = write!(line, " {}", escape_hidden(text));
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn tint(&self, line: &mut String, cell: &Cell) {
        let code = match cell.color {
            Color::Green => "32",
            Color::Yellow => "33",
            Color::Red => "31",
            Color::Dim => "2",
            Color::Plain => "",
        };
        if self.has_color && !code.is_empty() && !cell.text.is_empty() {
            let _ = write!(line, "\u{1b}[{code}m{}\u{1b}[0m", cell.text);
        } else {
            line.push_str(&cell.text);
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self { text: escape_hidden(text), color: Color::Plain }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&Timestamp> for Cell {
    /// Shows a time in whole seconds, because a row must fit a terminal; JSON has the whole time.
    fn from(time: &Timestamp) -> Self {
        let (whole, rest) = time.as_str().split_once('.').unwrap_or((time.as_str(), ""));
        format!("{whole}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit())).into()
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Self {
        cell.map_or_else(|| "-".into(), Into::into)
    }
}

impl Cell {
    pub(crate) fn number(number: impl TryInto<u64>) -> Self {
        number.try_into().map_or_else(|_| "-".into(), |number| number.to_string().into())
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Truncates the text to a number of columns, and marks the cut with `…`.
    pub(crate) fn cut(&mut self, columns: usize) {
        if self.text.width() <= columns {
            return;
        }
        let mut used = 1;
        let kept = self.text.chars().take_while(|c| {
            used += c.width().unwrap_or_default();
            used <= columns
        });
        self.text = kept.chain(['…']).collect();
    }

    pub(crate) fn color(mut self, color: Color) -> Self {
        self.color = color;
        self
    }
}

/// Prints a row of a table whose rows are printed as they arrive: the cells as one line, or with `--json` the value as
/// one line of JSON.
pub(crate) fn print_row<const N: usize>(
    global: &Global,
    value: &impl Serialize,
    cells: [Cell; N],
) -> CliResult {
    if global.json {
        return print_json_line(value);
    }
    let line = cells.map(|cell| cell.text().to_owned()).join("  ");
    write_stdout(&(line.trim_end().to_owned() + "\n"))
}

/// Returns the first line that is not blank, truncated to `max` bytes.
pub(crate) fn first_line(text: &str, max: usize) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    mgp_types::clip(line.trim(), max)
}

/// Returns a number with its noun in the singular or plural, e.g. `1 tool` or `2 tools`.
pub(crate) fn plural(number: impl TryInto<u64>, thing: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_hidden_characters_are_escaped() {
        let mut out = Output::default();
        let rows = [["a".into(), "1\u{1b}[31m".into()], ["long".into(), Cell::number(2_u64)]];
        out.table(["ID", "N"], rows);
        out.line("b\u{202e}c");
        assert_eq!(out.text, "ID    N\na     1\\u{1b}[31m\nlong  2\nb\\u{202e}c\n");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut out = Output { width: Some(40), ..Output::default() };
        let rows = [
            ["a".into(), "文件".into(), "1".into()],
            ["b".into(), "文件".repeat(20).into(), "2".into()],
        ];
        out.table(["ID", "WHAT", "N"], rows);
        let ends: Vec<usize> = out.text.lines().map(UnicodeWidthStr::width).collect();
        assert_eq!(ends, [40, 40, 40], "{}", out.text);
    }

    #[test]
    fn a_time_is_shown_in_whole_seconds_with_its_zone() {
        for (time, shown) in [
            ("2026-11-27T18:35:59.123Z", "2026-11-27T18:35:59Z"),
            ("2026-11-27T18:35:59.1+01:00", "2026-11-27T18:35:59+01:00"),
            ("2026-11-27T18:35:59Z", "2026-11-27T18:35:59Z"),
        ] {
            assert_eq!(Cell::from(&Timestamp::from(time)).text(), shown);
        }
    }

    #[test]
    fn a_table_fits_the_terminal_and_is_whole_elsewhere() {
        let row = || {
            [[
                "files".into(),
                "a long description of a server with many words".into(),
                "npx".into(),
            ]]
        };
        let mut out = Output { width: Some(40), ..Output::default() };
        out.table(["ID", "WHAT", "RUNS"], row());
        assert!(out.text.lines().all(|line| line.chars().count() <= 40), "{}", out.text);
        assert!(out.text.contains("files  a long description of a se…  npx"), "{}", out.text);
        let mut out = Output { width: Some(40), ..Output::default() };
        let id = "an-id-that-is-as-long-as-the-terminal-is-wide";
        out.table(["ID", "WHAT"], [[id.into(), "many words that can be cut".into()]]);
        assert!(out.text.contains(&format!("{id}  many words …")), "{}", out.text);
        let mut out = Output { width: Some(40), ..Output::default() };
        let (time, result) = ("2026-11-27T18:35:59.123Z", "it does not start; fix: install it");
        out.table(["TIME", "RESULT"], [[time.into(), result.into()]]);
        assert!(out.text.contains(&format!("{time}  {result}")), "{}", out.text);
        let mut out = Output { width: Some(40), ..Output::default() };
        let why = "confirmation of dangerous calls: deferred";
        out.table(["TIME", "WHAT", "WHY"], [[time.into(), "a".into(), why.into()]]);
        assert!(out.text.contains(why), "{}", out.text);
        let mut out = Output::default();
        out.table(["ID", "WHAT", "RUNS"], row());
        assert!(out.text.contains("with many words  npx"), "{}", out.text);
    }

    #[test]
    fn a_column_without_a_value_is_left_out_only_where_room_is_needed() {
        let table = |width| {
            let mut out = Output { width, ..Output::default() };
            let words = "filesystem.write for all tools";
            out.table(["SERVER", "TOOLS", "WHAT"], [["files".into(), "-".into(), words.into()]]);
            out.text
        };
        assert!(table(Some(43)).contains("files   filesystem.write for all tools"));
        for width in [None, Some(80)] {
            assert!(table(width).contains("files   -      filesystem.write"), "{width:?}");
        }
    }

    #[test]
    fn colours_are_used_only_where_they_are_enabled() {
        let cell = || Cell::from("OK").color(Color::Green);
        let mut out = Output { has_color: true, ..Output::default() };
        out.status_line(&cell(), "well");
        assert_eq!(out.text, "\u{1b}[32mOK\u{1b}[0m well\n");
        let mut out = Output::default();
        out.status_line(&cell(), "well");
        assert_eq!(out.text, "OK well\n");
    }

    #[test]
    fn long_texts_are_clipped_to_their_first_line() {
        assert_eq!(first_line("\n  Reads a file \nand more", 40), "Reads a file");
        assert_eq!(first_line("Reads a file", 5), "Reads…");
    }
}
