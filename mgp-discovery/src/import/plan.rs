//! The plan of an import, and its execution (MGP §15.2).

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_types::{PrivateFile, backup_paths};
use toml_edit::DocumentMut;

use super::{Import, write};
use crate::config::{Config, limits};
use crate::error::DiscoveryError;
use crate::expand::clear_secrets;
use crate::source::{Origin, text_of};

/// The time another import is waited for.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The changes an import would make to a file; nothing is written yet.
#[derive(Clone, PartialEq)]
#[must_use = "nothing is written until it is applied"]
pub struct Plan {
    file: PathBuf,
    before: Option<String>,
    after: String,
    lines: Vec<ImportLine>,
}

/// The outcome for one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportLine {
    /// The file that contains it.
    pub source: PathBuf,
    /// The name in that file.
    pub name: String,
    /// The outcome.
    pub outcome: ImportOutcome,
    /// Notes on omitted parts, and on what the user must do.
    pub notes: Vec<String>,
}

/// The outcome for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportOutcome {
    /// Added, under this id.
    Added(String),
    /// Left out, for this reason.
    Skipped(String),
}

impl fmt::Display for ImportLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, name, outcome: fate, notes } = self;
        let name = name.escape_debug();
        match fate {
            ImportOutcome::Added(id) => {
                write!(f, "{name} from {}: added as `{id}`", source.display())?;
            }
            ImportOutcome::Skipped(why) => {
                write!(f, "{name} from {}: left out, {why}", source.display())?;
            }
        }
        notes.iter().try_for_each(|note| write!(f, "; {note}"))
    }
}

impl Plan {
    /// Plans to add the servers of other hosts to a configuration; its existing servers stay unchanged.
    ///
    /// # Errors
    /// [`DiscoveryError`] if the file cannot be read, or is faulty as a whole.
    pub fn new(file: impl Into<PathBuf>, imports: &[Import]) -> Result<Self, DiscoveryError> {
        let file = file.into();
        // Writes to the target of a link, so that the link stays.
        let file = file.canonicalize().unwrap_or(file);
        let before = text_of(&file, Origin::User)?;
        let text = before.clone().unwrap_or_default();
        let there = Config::parse(&file, &text)?;
        let mut taken: HashSet<String> = there.kept_ids;
        let mut document: DocumentMut = text.parse().map_err(|_| DiscoveryError::Foreign {
            path: file.clone(),
            reason: "it is not TOML".to_owned(),
        })?;
        let mut lines = Vec::new();
        for import in imports {
            for (name, entry, notes) in &import.servers {
                let from = import.source.display().to_string();
                let mut notes = notes.clone();
                let fate = match id(name) {
                    Some(id) if taken.contains(&id) => {
                        ImportOutcome::Skipped(format!("there is a server `{id}` already"))
                    }
                    None => ImportOutcome::Skipped(
                        "its name has no character that an id can have".to_owned(),
                    ),
                    Some(id) => {
                        let mut alone = DocumentMut::new();
                        write::add(&mut alone, &id, entry, &from);
                        match check_entry(&file, &alone.to_string(), &mut notes) {
                            Err(why) => ImportOutcome::Skipped(why),
                            Ok(()) if !write::add(&mut document, &id, entry, &from) => {
                                ImportOutcome::Skipped(
                                    "`servers` has a form that servers cannot be added to"
                                        .to_owned(),
                                )
                            }
                            Ok(()) => {
                                taken.insert(id.clone());
                                ImportOutcome::Added(id)
                            }
                        }
                    }
                };
                lines.push(ImportLine {
                    source: import.source.clone(),
                    name: name.clone(),
                    outcome: fate,
                    notes,
                });
            }
            lines.extend(import.refused.iter().map(|refused| ImportLine {
                source: import.source.clone(),
                name: refused.name.clone(),
                outcome: ImportOutcome::Skipped(refused.why.clone()),
                notes: Vec::new(),
            }));
        }
        let after = document.to_string();
        Config::parse(&file, &after)?;
        Ok(Self { file, before, after, lines })
    }

    /// Returns a line for each server.
    #[must_use]
    pub fn lines(&self) -> &[ImportLine] {
        &self.lines
    }

    /// Returns the new text of the file. Secrets in clear text stay in it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.after
    }

    /// Returns whether the file stays unchanged.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.lines.iter().all(|line| matches!(line.outcome, ImportOutcome::Skipped(_)))
    }

    /// Writes the file, for its owner alone, and its previous content into a backup beside it, whose path is
    /// returned; the last ten backups are kept. Blocks.
    ///
    /// # Errors
    /// [`DiscoveryError::Changed`] if the file changed since the plan was made; [`DiscoveryError`] if it cannot be written.
    pub fn apply(&self) -> Result<Option<PathBuf>, DiscoveryError> {
        if self.is_idle() {
            return Ok(None);
        }
        if let Some(folder) = self.file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let failed =
                |source| DiscoveryError::Io { path: folder.to_owned(), verb: "made", source };
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let target = PrivateFile::new(&self.file, limits::MAX_FILE_BYTES);
        let turn = target.lock(LOCK_TIMEOUT)?;
        if text_of(&self.file, Origin::User)? != self.before {
            return Err(DiscoveryError::Changed { path: self.file.clone() });
        }
        let backup = match &self.before {
            None => None,
            Some(before) => {
                let failed = |source| DiscoveryError::Io {
                    path: self.file.clone(),
                    verb: "backed up",
                    source,
                };
                let (path, old) = backup_paths(&self.file).map_err(failed)?;
                let backup = PrivateFile::new(&path, limits::MAX_FILE_BYTES);
                backup.replace(&turn, before.as_bytes())?;
                // A backup that cannot be removed does no harm.
                for old in old {
                    let _ = std::fs::remove_file(old);
                }
                Some(path)
            }
        };
        target.replace(&turn, self.after.as_bytes())?;
        Ok(backup)
    }
}

mgp_types::opaque_debug!(Plan { file, lines });

/// Checks that an entry is read as it was written; notes secrets in it.
fn check_entry(file: &Path, text: &str, notes: &mut Vec<String>) -> Result<(), String> {
    let parsed =
        Config::parse(file, text).map_err(|_| "it cannot be expressed in `mgp.toml`".to_owned())?;
    let Some(server) = parsed.config.servers.first() else {
        let why = parsed.findings.first().map(|finding| finding.what.clone());
        return Err(why.unwrap_or_else(|| "it cannot be expressed in `mgp.toml`".to_owned()));
    };
    notes.extend(clear_secrets(server).iter().map(ToString::to_string));
    Ok(())
}

/// Converts a name to an id: other characters become `-`.
fn id(name: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let id: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let id = id.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let id: String = id.chars().take(limits::MAX_ID_BYTES).collect();
    (!id.is_empty()).then_some(id)
}
