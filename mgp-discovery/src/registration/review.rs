//! What an operator must see of a registration before approving it (MGP §15.4; checklist C33).
//!
//! Applies to: inbound.

use std::fmt;
use std::path::PathBuf;

use mgp_types::mgp::{Permission, TrustLevel};
use mgp_types::service::{Principal, ServerId};
use mgp_types::{Hash, Timestamp};

use super::record::{Record, Stage, kept_from};

/// A registration that waits; approving it approves exactly this.
///
/// [`Display`](fmt::Display) tells it in lines that are safe to show: what could move a cursor is written as an escape.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Waiting {
    /// The server.
    pub server: ServerId,
    /// What the approval is bound to: all that is shown here, and the values of the environment.
    pub fingerprint: Hash,
    /// The program by its whole path, then its arguments, each as it is.
    pub argv: Vec<String>,
    /// The names of its variables; their values are shown to nobody.
    pub env: Vec<String>,
    /// Its folder.
    pub cwd: PathBuf,
    /// The files that decide what runs, with the SHA-256 of each.
    pub files: Vec<(PathBuf, String)>,
    /// The script that came with the request, if one did.
    pub source: Option<String>,
    /// How far it will be trusted.
    pub trust: TrustLevel,
    /// The permissions it says it needs.
    pub permissions: Vec<Permission>,
    /// What of all permissions it does not get unless each is granted with the approval.
    pub denied: Vec<Permission>,
    /// Who asks.
    pub created_by: Principal,
    /// Who that claims to be.
    pub claimed_by: Option<String>,
    /// Why, in their words.
    pub justification: Option<String>,
    /// What else to know.
    pub notes: Vec<String>,
    /// Whether other files had been approved before these.
    pub changed: bool,
    /// Since when it waits.
    pub since: Timestamp,
    /// Until when; none where it waits as long as it takes.
    pub until: Option<Timestamp>,
}

impl Waiting {
    pub(super) fn of(record: &Record) -> Option<Self> {
        let Stage::Waiting { until } = &record.stage else { return None };
        let program = &record.program;
        let files = program.files.iter();
        Some(Self {
            server: program.server(),
            fingerprint: program.fingerprint(),
            argv: [&program.command].into_iter().chain(&program.args).cloned().collect(),
            env: program.env.keys().cloned().collect(),
            cwd: program.cwd.as_str().into(),
            files: files.map(|file| (file.path.clone(), file.sha256.clone())).collect(),
            source: program.source.clone(),
            trust: program.trust.clone(),
            permissions: program.mgp.permissions_required.to_vec(),
            denied: kept_from(&program.trust),
            created_by: record.by.to_principal(),
            claimed_by: record.claimed_by.clone(),
            justification: record.justification.clone(),
            notes: program.notes.clone(),
            changed: record.changed,
            since: record.asked_at.clone(),
            until: until.clone(),
        })
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} ({}) asked for by {}",
            self.server,
            self.trust,
            told(&format!("{:?}", self.created_by))
        )?;
        write!(f, "  runs       ")?;
        for (at, word) in self.argv.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { " " }, word_of(word))?;
        }
        writeln!(f, "\n  in         {}", told(&self.cwd.to_string_lossy()))?;
        if !self.env.is_empty() {
            writeln!(f, "  is given   {}", self.env.join(" "))?;
        }
        for (path, sha256) in &self.files {
            writeln!(f, "  file       {} sha256 {sha256}", told(&path.to_string_lossy()))?;
        }
        if let Some(source) = &self.source {
            let sha256 = Hash::of(source.as_bytes());
            writeln!(
                f,
                "  script     came with the request, {} bytes, sha256 {sha256}",
                source.len()
            )?;
        }
        if !self.permissions.is_empty() {
            writeln!(f, "  needs      {}", names(&self.permissions))?;
        }
        if !self.denied.is_empty() {
            writeln!(f, "  is denied  {}", names(&self.denied))?;
        }
        if let Some(claimed) = &self.claimed_by {
            writeln!(f, "  claims to be made by {}", told(claimed))?;
        }
        if let Some(why) = &self.justification {
            writeln!(f, "  because    {}", told(why))?;
        }
        if self.changed {
            writeln!(f, "  note       other files had been approved before these")?;
        }
        for note in &self.notes {
            writeln!(f, "  note       {}", told(note))?;
        }
        match &self.until {
            Some(until) => write!(f, "  until      {until}"),
            None => write!(f, "  until      somebody decides"),
        }
    }
}

fn names(permissions: &[Permission]) -> String {
    permissions.iter().map(|name| told(name.as_str())).collect::<Vec<_>>().join(" ")
}

/// A text on one line, without what moves a cursor or turns a line around.
fn told(text: &str) -> String {
    text.escape_debug().to_string()
}

/// A word of a command line, in quotes where it would not be seen as one.
fn word_of(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("{word:?}") }
}
