//! Errors and warnings of a configuration, with their positions (MGP §15.2).

use std::fmt;
use std::path::{Path, PathBuf};

use super::limits;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FindingSeverity {
    /// The configuration works, but likely not as intended.
    Warning,
    /// The configuration does not work.
    Error,
}

impl fmt::Display for FindingSeverity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// An error or warning, with its position and the remedy.
///
/// ```
/// use mgp_discovery::Config;
///
/// let text = "[[servers]]\nid = 'files'\ncommand = 'mcp-files'\nagrs = ['/srv']\n";
/// let parsed = Config::parse("mgp.toml", text).unwrap();
/// assert_eq!(
///     parsed.findings[0].to_string(),
///     "mgp.toml:4:1: warning: unknown key `agrs` in `servers`; did you mean `args`?"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigFinding {
    /// The severity of the finding.
    pub severity: FindingSeverity,
    /// The path of the file that the finding concerns.
    pub file: PathBuf,
    /// The line of the file where the finding begins, counted from 1.
    pub line: usize,
    /// The character of the line where the finding begins, counted from 1.
    pub column: usize,
    /// The server that the finding concerns, by its id or its position in the file; `None` if it concerns the whole
    /// file. An error disables this server.
    pub server: Option<String>,
    /// The message of the finding, without the position and the remedy.
    pub what: String,
    /// The remedy for the finding, if one is known.
    pub remedy: Option<String>,
}

impl fmt::Display for ConfigFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, file, line, column, what, remedy, .. } = self;
        write!(f, "{}:{line}:{column}: {severity}: {what}", file.display())?;
        match remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

/// The errors that make a file unusable, together with the file's other findings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(Vec<ConfigFinding>);

impl ConfigErrors {
    pub(crate) fn new(findings: Vec<ConfigFinding>) -> Self {
        Self(findings)
    }

    /// Returns all findings of the file, including warnings.
    #[must_use]
    pub fn findings(&self) -> &[ConfigFinding] {
        &self.0
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = self.0.iter().filter(|finding| finding.severity == FindingSeverity::Error);
        for (number, finding) in errors.enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

/// The findings of one file, collected while the file is read.
pub(super) struct Report<'a> {
    file: &'a Path,
    text: &'a str,
    pub(super) findings: Vec<ConfigFinding>,
    pub(super) server: Option<String>,
    /// `true` if an error concerns the whole file.
    pub(super) fatal: bool,
    /// `true` if an error concerns the server that is being read.
    pub(super) broken: bool,
}

impl<'a> Report<'a> {
    pub(super) fn new(file: &'a Path, text: &'a str) -> Self {
        Self { file, text, findings: Vec::new(), server: None, fatal: false, broken: false }
    }

    pub(super) fn file(&self) -> &Path {
        self.file
    }

    pub(super) fn error(&mut self, at: usize, what: impl Into<String>, remedy: Option<String>) {
        match self.server {
            Some(_) => self.broken = true,
            None => self.fatal = true,
        }
        self.add(FindingSeverity::Error, at, what.into(), remedy);
    }

    pub(super) fn warning(&mut self, at: usize, what: impl Into<String>, remedy: Option<String>) {
        self.add(FindingSeverity::Warning, at, what.into(), remedy);
    }

    /// Returns whether another finding of this severity is reported. The number is limited, so that a file with many
    /// mistakes does not cause a huge report.
    pub(super) fn has_room(&self, severity: FindingSeverity) -> bool {
        let same = self.findings.iter().filter(|finding| finding.severity == severity);
        same.count() < limits::MAX_FINDINGS
    }

    fn add(&mut self, severity: FindingSeverity, at: usize, what: String, remedy: Option<String>) {
        if !self.has_room(severity) {
            return;
        }
        let (line, column) = place(self.text, at);
        let (file, server) = (self.file.to_owned(), self.server.clone());
        self.findings.push(ConfigFinding { severity, file, line, column, server, what, remedy });
    }
}

/// Returns the line and the character of a byte position, both counted from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    let line = before.split(|byte| *byte == b'\n').count();
    let begin = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    (line, 1 + String::from_utf8_lossy(&before[begin..]).chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters() {
        for (at, expected) in [(0, (1, 1)), (3, (1, 3)), (4, (2, 1)), (99, (2, 2))] {
            assert_eq!(place("aé\nb", at), expected, "{at}");
        }
    }
}
