//! The plan of an import, and its execution (MGP §15.2).

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_types::{PrivateFile, backup_paths, create_own_folder, escape_hidden};
use toml_edit::{DocumentMut, Item};

use super::{Host, Import, ImportedServer, ToolLimit, write};
use crate::config::{Config, ConfigFinding, ParsedConfig, ServerConfig, TargetConfig, limits};
use crate::error::DiscoveryError;
use crate::expand::clear_secrets;
use crate::line_ends::keep_line_ends;
use crate::source::{Origin, text_of};

/// The maximum time to wait for another import to finish.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The changes that an import would make to a configuration file; nothing is written before [`apply`](Self::apply).
#[derive(Clone)]
#[must_use = "nothing is written until it is applied"]
pub struct Plan {
    file: PathBuf,
    before: Option<String>,
    after: String,
    lines: Vec<ImportLine>,
    imports: Vec<Import>,
    fits: IdRule,
}

/// The rule that decides whether a server may have an id, given the ids of the other servers.
type IdRule = fn(&str, &[&str]) -> bool;

/// The outcome of an import for one server of the imported file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportLine {
    /// The file from which the server was read.
    pub source: PathBuf,
    /// The name of the server in that file.
    pub name: String,
    /// The project that declares the server, if one file contains several projects.
    pub project: Option<String>,
    /// The outcome for this server.
    pub outcome: ImportOutcome,
    /// The tools of the server that its host lets a model use.
    pub tools: ToolLimit,
    /// Notes about parts that are not imported, and about what the user must do.
    pub notes: Vec<String>,
}

/// The outcome of an import for one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportOutcome {
    /// The server is added under this id.
    Added(String),
    /// The server is not added, because an equal server already exists under this id.
    Present(String),
    /// The server is not imported, for this reason.
    Skipped(String),
}

impl fmt::Display for ImportLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, name, outcome, notes, .. } = self;
        let name = name.escape_debug();
        match outcome {
            ImportOutcome::Added(id) => {
                write!(f, "{name} from {}: added as `{id}`", source.display())?;
            }
            ImportOutcome::Present(id) => {
                write!(f, "{name} from {}: the same as the existing `{id}`", source.display())?;
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
    /// [`DiscoveryError`] if the file cannot be read, or an error disables the whole file.
    pub fn new(file: impl Into<PathBuf>, imports: &[Import]) -> Result<Self, DiscoveryError> {
        Self::with_id_rule(file, imports, |_, _| true)
    }

    /// Plans like [`new`](Self::new), but uses only ids that `fits` accepts. The arguments of `fits` are an id and the
    /// ids of the other servers.
    ///
    /// # Errors
    /// See [`new`](Self::new).
    pub fn with_id_rule(
        file: impl Into<PathBuf>,
        imports: &[Import],
        fits: fn(id: &str, others: &[&str]) -> bool,
    ) -> Result<Self, DiscoveryError> {
        let file = file.into();
        // Resolve a link, so that writing replaces its target and not the link.
        let file = dunce::canonicalize(&file).unwrap_or(file);
        let before = text_of(&file, Origin::User)?;
        let text = before.clone().unwrap_or_default();
        let (after, lines) = add_all(&file, &text, imports, fits)?;
        Ok(Self { file, before, after, lines, imports: imports.to_vec(), fits })
    }

    /// Plans how servers would be added to a configuration file if the file had this text.
    ///
    /// Such a plan is only for display: it assumes that the file has this text.
    ///
    /// # Errors
    /// [`DiscoveryError`] if an error disables the whole text.
    pub fn from_text(
        file: impl Into<PathBuf>,
        text: &str,
        imports: &[Import],
    ) -> Result<Self, DiscoveryError> {
        let file = file.into();
        let fits: IdRule = |_, _| true;
        let (after, lines) = add_all(&file, text, imports, fits)?;
        let (before, imports) = (Some(text.to_owned()), imports.to_vec());
        Ok(Self { file, before, after, lines, imports, fits })
    }

    /// Returns the outcome for each server.
    #[must_use]
    pub fn lines(&self) -> &[ImportLine] {
        &self.lines
    }

    /// Returns the new text of the file, including its secrets in clear text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.after
    }

    /// Returns whether the plan changes nothing in the file.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.lines.iter().all(|line| !matches!(line.outcome, ImportOutcome::Added(_)))
    }

    /// Writes the file; does nothing if the plan changes nothing. An existing file keeps its owner, group and
    /// permissions. The exception is a plan that adds secrets in clear text: then only the owner can read the file,
    /// like a new file. If another program changed the file since the plan was made, its changes are kept. Returns the
    /// path of a backup of the previous content, if there was any; the last ten backups are kept. Blocks.
    ///
    /// # Errors
    /// [`DiscoveryError::Changed`] if the file changed since the plan was made, so that the plan would have another
    /// outcome; [`DiscoveryError`] if it cannot be written.
    pub fn apply(&self) -> Result<Option<PathBuf>, DiscoveryError> {
        if self.is_idle() {
            return Ok(None);
        }
        if let Some(folder) = self.file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let failed =
                |source| DiscoveryError::Io { path: folder.to_owned(), verb: "made", source };
            create_own_folder(folder).map_err(failed)?;
        }
        let target = PrivateFile::new(&self.file, limits::MAX_FILE_BYTES);
        let turn = target.lock(LOCK_TIMEOUT)?;
        let before = text_of(&self.file, Origin::User)?;
        let after = self.after_change(before.as_ref())?;
        let backup = match &before {
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
                // Ignore errors, because an old backup that cannot be removed does no harm.
                for old in old {
                    let _ = std::fs::remove_file(old);
                }
                Some(path)
            }
        };
        let secrets = |text: &str| count_secrets(&self.file, text);
        if secrets(&after) > secrets(before.as_deref().unwrap_or_default()) {
            target.replace(&turn, after.as_bytes())?;
        } else {
            target.replace_keeping_mode(&turn, after.as_bytes())?;
        }
        Ok(backup)
    }

    /// Returns the new text of a file that now has the text `now`; an error if the outcome for a server would differ
    /// from the plan, or if the file was removed.
    fn after_change(&self, now: Option<&String>) -> Result<String, DiscoveryError> {
        if now == self.before.as_ref() {
            return Ok(self.after.clone());
        }
        let changed = || DiscoveryError::Changed { path: self.file.clone() };
        let now = now.ok_or_else(changed)?;
        let (after, lines) = add_all(&self.file, now, &self.imports, self.fits)?;
        (lines == self.lines).then_some(after).ok_or_else(changed)
    }
}

/// Returns the number of values in a configuration that look like secrets in clear text.
fn count_secrets(file: &Path, text: &str) -> usize {
    let parsed = Config::parse(file, text);
    parsed.map_or(0, |parsed| {
        parsed.config.servers.iter().map(|server| clear_secrets(server).len()).sum()
    })
}

mgp_types::opaque_debug!(Plan { file, lines });

/// Adds imported servers to the text of a configuration; returns the new text, and the outcome for each server.
fn add_all(
    file: &Path,
    text: &str,
    imports: &[Import],
    fits: IdRule,
) -> Result<(String, Vec<ImportLine>), DiscoveryError> {
    let parsed = Config::parse(file, text)?;
    let mut taken = TakenIds::new(parsed, fits);
    let mut document: DocumentMut = text.parse().map_err(|_| DiscoveryError::Foreign {
        path: file.to_owned(),
        reason: "it is not TOML".to_owned(),
    })?;
    let mut lines = Vec::new();
    for import in imports {
        for server in &import.servers {
            let mut notes = server.notes.clone();
            let planned = taken.plan(file, &mut document, import, server, &mut notes);
            lines.push(ImportLine {
                source: import.source.clone(),
                name: server.name.clone(),
                project: server.project.clone(),
                outcome: planned.unwrap_or_else(ImportOutcome::Skipped),
                tools: server.entry.tools.clone(),
                notes,
            });
        }
        lines.extend(import.refused.iter().map(|refused| ImportLine {
            source: import.source.clone(),
            name: refused.name.clone(),
            project: refused.project.clone(),
            outcome: ImportOutcome::Skipped(refused.why.clone()),
            tools: ToolLimit::default(),
            notes: Vec::new(),
        }));
    }
    let after = keep_line_ends(text, &document.to_string());
    Config::parse(file, &after)?;
    Ok((after, lines))
}

/// The ids that a configuration uses, with their servers.
struct TakenIds {
    ids: HashSet<String>,
    servers: Vec<ServerConfig>,
    fits: IdRule,
}

impl TakenIds {
    fn new(parsed: ParsedConfig, fits: IdRule) -> Self {
        Self { ids: parsed.kept_ids, servers: parsed.config.servers, fits }
    }

    /// Adds a server to the document, unless the document already has an equal server; an error is the reason why it is
    /// not added.
    fn plan(
        &mut self,
        file: &Path,
        document: &mut DocumentMut,
        import: &Import,
        server: &ImportedServer,
        notes: &mut Vec<String>,
    ) -> Result<ImportOutcome, String> {
        if server.entry.bytes() > limits::MAX_FILE_BYTES {
            return Err("it is too long for a configuration file".to_owned());
        }
        let wanted = id(&server.name).ok_or(NO_ID)?;
        let from = escape_hidden(&import.source.display().to_string());
        let parse = |id: &str| {
            let mut alone = DocumentMut::new();
            write::add(&mut alone, id, &server.entry, &from);
            check_entry(file, &alone.to_string())
        };
        let ids: Vec<String> = candidates(&wanted, import.host).collect();
        let new = parse(&wanted)?;
        if let Some(there) = self.same(document, &ids, &new, &from) {
            let id = there.id.to_string();
            if !there.enabled {
                return Err(format!(
                    "mgp has it as `{id}`, which is switched off; run `mgp servers enable {id}`, then try again"
                ));
            }
            notes.extend(lost_settings(there, &new));
            return Ok(ImportOutcome::Present(id));
        }
        let is_reserved = !self.is_fit(&wanted);
        // Check the wanted id only once, because a check compares it with all other ids.
        let free = ids.into_iter().find(|id| {
            !self.ids.contains(id) && if *id == wanted { !is_reserved } else { self.is_fit(id) }
        });
        let Some(id) = free else {
            return Err(if is_reserved {
                format!("`{wanted}` cannot be the id of a server; rename it there")
            } else {
                format!("there are too many servers of the id `{wanted}`")
            });
        };
        // Treat the configuration file as the user's own even if the command line names it, because its entries may
        // then refer to stored secrets.
        let parsed = ServerConfig { origin: Origin::Named, ..parse(&id)? };
        if !write::add(document, &id, &server.entry, &from) {
            return Err("`servers` has a form that servers cannot be added to".to_owned());
        }
        if is_reserved {
            notes.push(format!(
                "the id `{wanted}` is reserved, or looks like that of another server"
            ));
        } else if id != wanted {
            notes.push(format!("another server has the id `{wanted}`"));
        }
        notes.extend(clear_secrets(&parsed).iter().map(ToString::to_string));
        self.ids.insert(id.clone());
        self.servers.push(parsed);
        Ok(ImportOutcome::Added(id))
    }

    /// Returns whether the rule for ids accepts an id in addition to the ids of the configuration.
    fn is_fit(&self, id: &str) -> bool {
        let others = self.ids.iter().map(String::as_str).filter(|other| *other != id);
        (self.fits)(id, &others.collect::<Vec<_>>())
    }

    /// Returns the configured server that matches the new server, among the servers with these ids. If several match,
    /// an exact match has precedence. The next choice is an entry that an earlier import of the same file added,
    /// because other entries may use other accounts.
    fn same(
        &self,
        document: &DocumentMut,
        ids: &[String],
        new: &ServerConfig,
        from: &str,
    ) -> Option<&ServerConfig> {
        let there: Vec<(&ServerConfig, EntrySource)> = ids
            .iter()
            .filter(|id| self.ids.contains(*id))
            .filter_map(|id| self.servers.iter().find(|server| server.id.as_str() == id))
            .map(|server| (server, EntrySource::of(document, server.id.as_str(), from)))
            .collect();
        let exact = there.iter().find(|(there, _)| is_same(there, new, None));
        let of_source = |source: EntrySource| {
            there.iter().find(|(there, own)| *own == source && is_same(there, new, Some(source)))
        };
        let found = exact
            .or_else(|| of_source(EntrySource::ThisFile))
            .or_else(|| of_source(EntrySource::Unknown))
            .or_else(|| of_source(EntrySource::OtherFile))?;
        Some(found.0)
    }
}

/// The source of an entry in the configuration, in relation to the file that is imported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EntrySource {
    /// An earlier import of the same file added the entry.
    ThisFile,
    /// An import of another file added the entry.
    OtherFile,
    /// The entry has no comment that names its source, e.g. because the user wrote it.
    Unknown,
}

impl EntrySource {
    /// Returns the source of the entry of a server, according to the comment that an import writes. `from` is the file
    /// that is imported.
    fn of(document: &DocumentMut, id: &str, from: &str) -> Self {
        let tables =
            document.get("servers").and_then(Item::as_array_of_tables).into_iter().flatten();
        let mut own = tables
            .filter(|table| table.get("id").and_then(Item::as_str).is_some_and(|own| own == id));
        let comment = own.next().and_then(|table| table.decor().prefix()?.as_str());
        let mut sources = comment
            .into_iter()
            .flat_map(str::lines)
            .filter_map(|line| line.strip_prefix("# From "));
        match (sources.clone().any(|source| source == from), sources.next()) {
            (true, _) => Self::ThisFile,
            (false, Some(_)) => Self::OtherFile,
            (false, None) => Self::Unknown,
        }
    }
}

/// The reason reported for a server whose name cannot be converted to an id.
const NO_ID: &str = "its name has no letter of a to z and no digit, which an id needs; rename it there, then try again";

/// The maximum number of ids that are tried for a server. If all are taken, the server is not imported.
const MAX_NAMESAKES: usize = 50;

/// Returns the ids for a server, in the order they are tried.
fn candidates(id: &str, host: Host) -> impl Iterator<Item = String> {
    let host = host.name();
    let named = move |end: String| {
        let most = limits::MAX_ID_BYTES.saturating_sub(end.len());
        format!("{}{end}", id.chars().take(most).collect::<String>())
    };
    let numbered = (2..MAX_NAMESAKES).map(move |number| format!("-{host}-{number}"));
    [String::new(), format!("-{host}")].into_iter().chain(numbered).map(named)
}

/// Returns whether two servers run the same program with the same arguments, folder and variables, or have the same URL
/// and headers. `there` is the entry in the configuration, which may inherit more variables. `source` is the source of
/// this entry; with `None`, all values must be equal.
///
/// With a source, two kinds of differences are ignored: differences that an earlier import made, and differences that
/// result if the user follows the advice of the import:
///
/// - The import advises the user to store secrets, so a value with `${…}` in `there` is equal to a secret in `new`.
///   This does not apply if `there` was imported from another file, because its secret may be that of another account.
/// - If `there` was imported from the same file, two values of a variable or header are also equal if one of them
///   contains `${…}`.
/// - In this case `there` may also inherit fewer variables, because earlier versions did not import their names.
fn is_same(there: &ServerConfig, new: &ServerConfig, source: Option<EntrySource>) -> bool {
    let is_reimported = source == Some(EntrySource::ThisFile);
    let is_reference_of_secret = is_reimported || source == Some(EntrySource::Unknown);
    let secrets: Vec<String> = clear_secrets(new).into_iter().map(|one| one.place).collect();
    let same = |place: String, there: &str, new: &str| {
        there == new || (is_reference_of_secret && there.contains("${") && secrets.contains(&place))
    };
    let same_map = |kind: &str, there: &BTreeMap<String, String>, new: &BTreeMap<_, String>| {
        let same_value = |name: &String, text: &str, new: &str| {
            // Treat a stored secret with the variable's name as equal, because the user might have stored the value
            // under this name.
            same(format!("{kind}.{name}"), text, new)
                || (source.is_some() && text.replace("${keyring:", "${") == new)
                || (is_reimported && [text, new].iter().any(|text| text.contains("${")))
        };
        there.keys().eq(new.keys())
            && there.iter().all(|(name, text)| same_value(name, text, &new[name]))
    };
    match (&there.target, &new.target) {
        (
            TargetConfig::Program { command, args, cwd, env },
            TargetConfig::Program { command: program, args: own, cwd: folder, env: variables },
        ) => {
            let pairs = || args.iter().zip(own).enumerate();
            (command, cwd, args.len()) == (program, folder, own.len())
                && (is_reimported || new.pass_env.iter().all(|name| there.pass_env.contains(name)))
                && pairs().all(|(at, (arg, own))| same(format!("args[{at}]"), arg, own))
                && same_map("env", env, variables)
        }
        (
            TargetConfig::Url { url, headers, .. },
            TargetConfig::Url { url: address, headers: own, .. },
        ) => same("url".to_owned(), url, address) && same_map("headers", headers, own),
        _ => false,
    }
}

/// Describes the settings of a new server that the equal server in the configuration does not have.
fn lost_settings(there: &ServerConfig, new: &ServerConfig) -> Vec<String> {
    let names = new.pass_env.iter().filter(|name| !there.pass_env.contains(name));
    let names: Vec<&str> = names.map(String::as_str).collect();
    let mut notes = Vec::new();
    if !names.is_empty() {
        let names = names.join(", ");
        notes.push(format!("the server there does not inherit {names}; add `pass_env`"));
    }
    let (own, others) = (&there.timeouts, &new.timeouts);
    for (key, own, new) in
        [("start_timeout", own.start, others.start), ("timeout", own.timeout, others.timeout)]
    {
        if let Some(new) = new.filter(|_| own != new) {
            let (own, new) = (own.map_or("none".to_owned(), write::duration), write::duration(new));
            notes.push(format!("its `{key}` of {new} was not copied; the server there has {own}"));
        }
    }
    notes
}

/// Parses the text of a new entry in the same way as it will be parsed when the file is read.
fn check_entry(file: &Path, text: &str) -> Result<ServerConfig, String> {
    let wrong = || "it cannot be expressed in `mgp.toml`".to_owned();
    let mut parsed = Config::parse(file, text).map_err(|_| wrong())?;
    let reason = |finding: &ConfigFinding| match &finding.remedy {
        Some(remedy) => format!("{}; {remedy}", finding.what),
        None => finding.what.clone(),
    };
    let server = parsed.config.servers.pop();
    server.ok_or_else(|| parsed.findings.first().map_or_else(wrong, reason))
}

/// Converts a name to an id: each character that is not allowed becomes `-`. Returns `None` if the name has no letter
/// of a to z and no digit.
fn id(name: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let id: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let id = id.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let id: String = id.chars().take(limits::MAX_ID_BYTES).collect();
    (!id.is_empty()).then_some(id)
}
