//! The review of a project's configuration before it is approved (MGP §15.2).

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use mgp_types::mgp::{ApprovalPolicy, DefaultPolicy, RiskLevel, Validator};
use mgp_types::service::ServerId;
use mgp_types::to_hex;
use sha2::{Digest as _, Sha256};

use crate::config::{
    Config, ConfigFinding, KernelConfig, LocalFiles, ServerConfig, TargetConfig, ToolCreationConfig,
};
use crate::expand::{Expander, Template, clear_secrets};
use crate::registration::changes_code;

/// The maximum number of shown characters of a value, unless the value can change which code runs.
const MAX_SHOWN_CHARS: usize = 200;

/// A project's configuration at the time it was read; an approval covers exactly this content.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProjectReview {
    /// The real path of the file.
    pub file: PathBuf,
    /// The SHA-256 of the file's content.
    pub sha256: String,
    /// The servers that the file declares.
    pub servers: Vec<ReviewedServer>,
    /// The findings of parsing the file.
    pub findings: Vec<ConfigFinding>,
}

/// A server of a project, in the form a person reviews.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReviewedServer {
    /// The id of the server.
    pub id: ServerId,
    /// The program with its arguments, or the URL, as written.
    pub runs: String,
    /// The references to values outside the file, e.g. `${GITHUB_TOKEN}` and `${file:key}`, including the variables of
    /// `pass_env`.
    pub needs: Vec<String>,
    /// The variables and headers, as [`settings`] shows them.
    pub sets: Vec<String>,
    /// The project's files that the server runs, with their SHA-256; the approval covers their content too.
    pub files: LocalFiles,
    /// The settings of the server that make rules less strict than the defaults.
    pub loosens: Vec<String>,
    /// `true` if the user's own file has a server with this id, which the project's server would replace.
    pub overrides: bool,
}

impl fmt::Display for ReviewedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs {}", self.id, self.runs)?;
        if !self.needs.is_empty() {
            write!(f, ", is given {}", self.needs.join(" "))?;
        }
        if !self.sets.is_empty() {
            write!(f, ", sets {}", self.sets.join(", "))?;
        }
        if !self.files.is_empty() {
            let files = self.files.iter().map(|(path, sha256)| {
                format!(
                    "{} (SHA-256 {})",
                    quoted(&path.to_string_lossy()),
                    &sha256[..12.min(sha256.len())]
                )
            });
            write!(f, ", with the files {}", files.collect::<Vec<_>>().join(", "))?;
        }
        if !self.loosens.is_empty() {
            write!(f, ", loosens {}", self.loosens.join(", "))?;
        }
        if self.overrides {
            f.write_str(", replaces your own server")?;
        }
        Ok(())
    }
}

pub(super) fn sha256(text: &str) -> String {
    to_hex(&Sha256::digest(text))
}

impl ProjectReview {
    /// Parses the text of a project's file. `own(id)` returns whether the user's own file declares a server with that
    /// id.
    pub(super) fn of(file: &Path, text: &str, own: impl Fn(&str) -> bool) -> Self {
        let (config, findings) = match Config::parse(file, text) {
            Ok(parsed) => (parsed.config, parsed.findings),
            Err(faults) => (Config::default(), faults.findings().to_vec()),
        };
        let mut review =
            Self { file: file.to_owned(), sha256: sha256(text), servers: Vec::new(), findings };
        review.findings.extend(ineffective_tables(file, &config));
        let expander = Expander::from_env();
        for server in &config.servers {
            let files = expander.project_files(server).unwrap_or_else(|reason| {
                let what = format!("server `{}` cannot be started: {reason}", server.id);
                review.findings.push(ConfigFinding::of_file(file, what));
                LocalFiles::new()
            });
            review.servers.push(reviewed(server, files, &own));
        }
        review
    }
}

/// Returns a warning for each table of a project's file that only the user's own file may have.
pub(super) fn ineffective_tables(file: &Path, config: &Config) -> Vec<ConfigFinding> {
    let written = [
        ("kernel", config.kernel != KernelConfig::default()),
        ("limits", !config.limits.is_empty()),
        ("agents", !config.agents.is_empty()),
        ("tool_creation", config.tool_creation != ToolCreationConfig::default()),
    ];
    let warning = |name: &str| {
        let what = format!("`{name}` has no effect here; only your own file may set it");
        ConfigFinding::of_file(file, what)
    };
    written
        .into_iter()
        .filter(|(_, is_written)| *is_written)
        .map(|(name, _)| warning(name))
        .collect()
}

fn reviewed(
    server: &ServerConfig,
    files: LocalFiles,
    own: &impl Fn(&str) -> bool,
) -> ReviewedServer {
    let texts: Vec<&str> = match &server.target {
        TargetConfig::Program { command, args, cwd, env } => {
            let run = std::iter::once(command).chain(args).chain(cwd).map(String::as_str);
            run.chain(env.values().map(String::as_str)).collect()
        }
        TargetConfig::Url { url, headers, auth, .. } => {
            let auth = auth.texts().map(|(_, text)| text);
            std::iter::once(url).chain(headers.values()).chain(auth).map(String::as_str).collect()
        }
        TargetConfig::InProcess => Vec::new(),
    };
    let confined =
        server.confine.iter().flat_map(|confine| confine.read.iter().chain(&confine.write));
    let (mut needs, mut known) = (Vec::new(), HashSet::new());
    let is_program = matches!(server.target, TargetConfig::Program { .. });
    let inherited = server.pass_env.iter().filter(|_| is_program);
    let inherited = inherited.map(|name| format!("${{{}}}", name.escape_debug()));
    let texts = texts.into_iter().chain(confined.map(String::as_str));
    let named = texts.filter_map(|text| Template::parse(text).ok()).flat_map(|t| t.needs());
    for need in named.chain(inherited) {
        if known.insert(need.clone()) {
            needs.push(need);
        }
    }
    let runs = match &server.target {
        TargetConfig::Program { command, args, cwd, .. } => {
            let words: Vec<_> = std::iter::once(command).chain(args).map(|w| quoted(w)).collect();
            let folder = cwd.as_ref().map(|cwd| format!(" in {}", quoted(cwd))).unwrap_or_default();
            words.join(" ") + &folder
        }
        TargetConfig::Url { url, .. } => quoted(url),
        TargetConfig::InProcess => "in this process".to_owned(),
    };
    ReviewedServer {
        id: server.id.clone(),
        runs,
        needs,
        sets: settings(server),
        files,
        loosens: loosens(server),
        overrides: own(server.id.as_str()),
    }
}

/// Returns the variables and headers of a server, `NAME=value` each, for review.
///
/// Values that look like secrets in clear text are hidden. Variables that can change which code runs are marked, and
/// their values are always shown.
#[must_use]
pub fn settings(server: &ServerConfig) -> Vec<String> {
    let (kind, pairs) = match &server.target {
        TargetConfig::Program { env, .. } => ("env", env),
        TargetConfig::Url { headers, .. } => ("headers", headers),
        TargetConfig::InProcess => return Vec::new(),
    };
    let secrets = clear_secrets(server);
    let shown = pairs.iter().map(|(name, value)| {
        let loads = kind == "env" && changes_code(name);
        let is_secret = secrets.iter().any(|secret| secret.place == format!("{kind}.{name}"));
        let end = value.char_indices().nth(MAX_SHOWN_CHARS).map(|(at, _)| at);
        let name = quoted(name);
        match end {
            // The value of a variable that can change which code runs is always shown, even if it looks like a secret.
            _ if loads => format!("{name}={} (may change which code runs)", quoted(value)),
            _ if is_secret => format!("{name}=…"),
            Some(end) => format!("{name}={}… ({} bytes)", quoted(&value[..end]), value.len()),
            None => format!("{name}={}", quoted(value)),
        }
    });
    shown.collect()
}

/// Quotes a word so that no part of it is hidden: control characters are escaped, and a word with spaces or unusual
/// characters gets quotes.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@${}~,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("\"{}\"", word.escape_debug())
}

fn loosens(server: &ServerConfig) -> Vec<String> {
    let mut loosens = Vec::new();
    if !server.check_arguments {
        loosens.push("the check of arguments against the schemas of tools".to_owned());
    }
    let Some(mgp) = &server.mgp else { return loosens };
    if mgp.roots {
        loosens.push(
            "roots (it may ask for the folders of one agent, and use them for all)".to_owned(),
        );
    }
    if mgp.default_policy == DefaultPolicy::OptOut {
        loosens.push("access (every agent may call it)".to_owned());
    }
    if mgp.permission_policy == Some(ApprovalPolicy::AutoApprove) {
        loosens.push("permissions (approved without asking)".to_owned());
    }
    let granted = mgp.permissions.iter().map(|permission| format!("`{permission}` (granted)"));
    loosens.extend(granted);
    let safer = mgp.risk.iter().filter(|(_, risk)| **risk != RiskLevel::Dangerous);
    loosens.extend(
        safer.map(|(tool, risk)| format!("the risk of `{}` to {risk}", tool.escape_debug())),
    );
    let unchecked = mgp.validators.iter().filter(|(_, validator)| **validator == Validator::None);
    loosens.extend(unchecked.map(|(tool, _)| format!("the checks of `{}`", tool.escape_debug())));
    // List configured validators: each replaces the validator that the tool declares, even if the tool's own validator
    // is stricter.
    let replaced = mgp.validators.iter().filter(|(_, validator)| **validator != Validator::None);
    loosens.extend(replaced.map(|(tool, validator)| {
        format!("the checks of `{}` to `{validator}` alone", tool.escape_debug())
    }));
    let reached = mgp.local_hosts.iter().map(|host| format!("the checks of calls to `{host}`"));
    loosens.extend(reached);
    loosens
}
