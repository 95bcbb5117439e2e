//! The review of a registration before it is approved (MGP §15.4): the text that an operator reads.
//!
//! The operator's decision, i.e. `approve` and `reject`, is in `register.rs`.

use std::fmt;
use std::path::PathBuf;

use mgp_types::mgp::{KernelApproval, Permission, TrustLevel};
use mgp_types::service::{AgentId, Principal, ServerId};
use mgp_types::{Sha256Hash, Timestamp};

use crate::config::PortRights;
use crate::expand::looks_secret;

use super::confinement::further_rights;
use super::origin::RegistryOrigin;
use super::record::{Proposal, Record, Stage, denied_by_default, is_sandboxed};
use super::remote::Remote;
use super::source::has_own_folder;

/// A registration that waits for approval, with everything that the approval covers.
///
/// [`Display`](fmt::Display) shows it in lines that are safe for a terminal: control characters are escaped.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PendingRegistration {
    /// The id of the server.
    pub server: ServerId,
    /// The hash of the proposed program and its governance, including the values of the environment. An approval names
    /// this hash, and so covers nothing else.
    pub fingerprint: Sha256Hash,
    /// The absolute path of the program, then its arguments; empty for a server at a URL.
    pub argv: Vec<String>,
    /// The URL of the server, if it is not a program.
    pub url: Option<String>,
    /// The headers of each request to the URL, as `NAME: value`. A secret of the user is shown by its name, and `…`
    /// replaces any other value that looks like a secret.
    pub headers: Vec<String>,
    /// The variables as `NAME=value`; a value is replaced by `…` if it looks like a secret and contains no path
    /// separator.
    pub env: Vec<String>,
    /// The working directory of the program, unless it runs in a private folder.
    pub cwd: PathBuf,
    /// `true` if the program runs in a private folder of the kernel.
    pub is_in_private_folder: bool,
    /// The files whose content the approval covers, e.g. a script, each with its SHA-256. A program that only the
    /// system's administrator can change is not among them.
    pub files: Vec<(PathBuf, String)>,
    /// The text of the script, if the request contained one.
    pub source: Option<String>,
    /// The registry entry of the program, if the agent requested a published server; `None` if the agent named the
    /// program itself.
    pub published: Option<RegistryOrigin>,
    /// The trust level of the server.
    pub trust: TrustLevel,
    /// The permissions that the server requires.
    pub permissions: Vec<Permission>,
    /// The permissions that a server of this trust level does not get, unless the operator grants each with the
    /// approval.
    pub denied: Vec<Permission>,
    /// The principal who requested the registration.
    pub created_by: Principal,
    /// The name that the principal claims for itself.
    pub claimed_by: Option<String>,
    /// The justification, in the principal's words.
    pub justification: Option<String>,
    /// Further notes for the operator.
    pub notes: Vec<String>,
    /// `true` if an operator approved this registration before, and its files have changed since.
    pub changed: bool,
    /// The time when the registration was requested.
    pub since: Timestamp,
    /// The time when the request expires; `None` if it waits until an operator decides.
    pub until: Option<Timestamp>,
}

impl PendingRegistration {
    pub(super) fn of(record: &Record) -> Option<Self> {
        let Stage::Waiting { until } = &record.stage else { return None };
        let program = &record.program;
        let files = program.files.iter();
        let remote = program.remote.as_ref();
        let argv = remote.is_none().then(|| [&program.command].into_iter().chain(&program.args));
        Some(Self {
            server: program.server(),
            fingerprint: program.fingerprint(),
            argv: argv.into_iter().flatten().cloned().collect(),
            url: remote.map(|remote| remote.url.clone()),
            headers: remote.map(Remote::shown_headers).unwrap_or_default(),
            env: program.env.iter().map(|(name, value)| setting(name, value)).collect(),
            cwd: program.cwd.as_str().into(),
            is_in_private_folder: has_own_folder(program),
            files: files.map(|file| (file.path.clone(), file.sha256.clone())).collect(),
            source: program.source.clone(),
            published: program.published.clone(),
            trust: program.trust.clone(),
            permissions: program.mgp.permissions_required.to_vec(),
            denied: denied_by_default(&program.trust),
            created_by: record.by.to_principal(),
            claimed_by: record.claimed_by.clone(),
            justification: record.justification.clone(),
            notes: notes(record),
            changed: record.changed,
            since: record.asked_at.clone(),
            until: until.clone(),
        })
    }

    /// Converts the registration to the form in which programs of operators list open approvals, with the fingerprint
    /// as id. If `is_whole` is set, the arguments contain the script of the request.
    #[must_use]
    pub fn to_listed(&self, is_whole: bool) -> KernelApproval {
        let mut approval = KernelApproval::new(
            self.fingerprint.to_string(),
            "registration",
            "open",
            self.to_string(),
            self.created_by.subject().as_str(),
            self.since.clone(),
        );
        approval.agent_id = self.created_by.as_agent().map(AgentId::to_string);
        approval.server_id = Some(self.server.to_string());
        approval.permissions = self.permissions.clone().into();
        approval.expires_at.clone_from(&self.until);
        if let Some(script) = self.source.as_ref().filter(|_| is_whole) {
            approval.arguments = Some(serde_json::json!({ "script": script }).to_string());
        }
        approval
    }

    /// Writes the program with its working directory, or the URL with its headers.
    fn write_target(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(url) = &self.url {
            writeln!(f, "  is at      {}", escaped(url))?;
            for header in &self.headers {
                writeln!(f, "  is sent    {}", escaped(header))?;
            }
            return Ok(());
        }
        write!(f, "  runs       ")?;
        for (at, word) in self.argv.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { " " }, word_of(word))?;
        }
        let cwd = self.cwd.to_string_lossy();
        let folder = if self.is_in_private_folder { "a private folder" } else { &*cwd };
        writeln!(f, "\n  in         {}", escaped(folder))
    }
}

/// Returns the notes about a registration for its reviewer: the stored notes, and notes that follow from the record.
fn notes(record: &Record) -> Vec<String> {
    let mut notes = record.program.notes.clone();
    if let Some(created) = &record.created {
        notes.push(format!(
            "the agent creates it because no tool matched: {}; it is removed when the session of the agent ends",
            created.wanted.join(", ")
        ));
    }
    match &record.program.remote {
        Some(remote) => notes.extend(remote_notes(&record.program.id, remote)),
        None => notes.extend(confinement_note(&record.program)),
    }
    notes
}

/// Returns the notes about a server at a URL.
fn remote_notes(id: &str, remote: &Remote) -> Vec<String> {
    let login = format!("if it asks for a login, run `mgp servers login {id}` after the approval");
    let notes = remote.may_need_login().then_some(login).into_iter();
    let others = "others run it: it gets the arguments of each call, and what it does can change without another approval";
    notes.chain([others.to_owned()]).collect()
}

/// Returns the note about the confinement of a sandboxed server; `None` for other servers.
fn confinement_note(program: &Proposal) -> Option<String> {
    let Some(rights) = further_rights(program, &[]) else {
        let note = "the kernel does not confine it; its container does";
        let is_here = is_sandboxed(&program.trust) && program.remote.is_none();
        return is_here.then(|| note.to_owned());
    };
    let may = |may: bool| if may { "may" } else { "may not" };
    let reads = !rights.read.is_empty();
    Some(format!(
        "where the system can confine it, it {} read files of the user{}, and {} open TCP connections; if you grant `{}`, it may read and write below `{}`",
        may(reads),
        if reads { " except hidden ones" } else { "" },
        may(rights.connect != PortRights::None),
        Permission::FilesystemWrite.as_str(),
        program.cwd,
    ))
}

impl fmt::Display for PendingRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} ({}) asked for by {}",
            self.server,
            self.trust,
            escaped(&format!("{:?}", self.created_by))
        )?;
        if let Some(origin) = &self.published {
            write!(f, "{origin}")?;
        }
        self.write_target(f)?;
        for setting in &self.env {
            writeln!(f, "  is given   {}", escaped(setting))?;
        }
        for (path, sha256) in &self.files {
            writeln!(f, "  file       {} sha256 {sha256}", escaped(&path.to_string_lossy()))?;
        }
        if let Some(source) = &self.source {
            let sha256 = Sha256Hash::digest(source.as_bytes());
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
            writeln!(f, "  claims to be made by {}", escaped(claimed))?;
        }
        if let Some(why) = &self.justification {
            writeln!(f, "  because    {}", escaped(why))?;
        }
        if self.changed {
            writeln!(f, "  note       other files had been approved before these")?;
        }
        for note in &self.notes {
            writeln!(f, "  note       {}", escaped(note))?;
        }
        match &self.until {
            Some(until) => write!(f, "  until      {until}"),
            None => write!(f, "  until      an operator decides"),
        }
    }
}

/// Returns a variable as `NAME=value`, in which `…` replaces a value that looks like a secret. A value with a path
/// separator is always shown, because it might be the path of code that the server loads.
fn setting(name: &str, value: &str) -> String {
    let is_hidden = looks_secret(name, value).is_some() && !value.contains(['/', '\\']);
    format!("{name}={}", if is_hidden { "…" } else { value })
}

fn names(permissions: &[Permission]) -> String {
    permissions.iter().map(|name| escaped(name.as_str())).collect::<Vec<_>>().join(" ")
}

/// Escapes control and bidirectional characters, so that the text stays on one line.
fn escaped(text: &str) -> String {
    text.escape_debug().to_string()
}

/// Returns a word of a command line, in quotes if a reader could mistake it for several words.
fn word_of(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("{word:?}") }
}
