//! The hosts whose files can be imported (MGP §15.2).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::entry::{NO_TARGET, PART_OF_HOST, SWITCHED_OFF};
use super::variables::{Dialect, Findings, Meaning, proposed};
use super::{Entry, entry, json, package};
use crate::config::limits;
use crate::error::DiscoveryError;

/// An MCP host whose configuration file can be imported, or another importable format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Host {
    /// Claude Desktop: `claude_desktop_config.json`.
    ClaudeDesktop,
    /// Claude Code: `.mcp.json`, or `~/.claude.json` with its projects.
    ClaudeCode,
    /// Cursor: `.cursor/mcp.json`.
    Cursor,
    /// VS Code: `.vscode/mcp.json`.
    VsCode,
    /// Codex: `~/.codex/config.toml`, tables below `mcp_servers`.
    Codex,
    /// Gemini CLI: `~/.gemini/settings.json`.
    GeminiCli,
    /// Qwen Code: `~/.qwen/settings.json`, in the format of Gemini CLI.
    QwenCode,
    /// Windsurf: `~/.codeium/windsurf/mcp_config.json`.
    Windsurf,
    /// Zed: `settings.json`, with `context_servers`.
    Zed,
    /// `OpenCode`: `opencode.json`, whose entries have one list for program and arguments.
    OpenCode,
    /// Cline: `cline_mcp_settings.json`.
    Cline,
    /// Copilot CLI: `~/.copilot/mcp-config.json`.
    CopilotCli,
    /// LM Studio: `~/.lmstudio/mcp.json`.
    LmStudio,
    /// Kiro: `~/.kiro/settings/mcp.json`.
    Kiro,
    /// `JetBrains` Junie: `~/.junie/mcp/mcp.json`.
    Junie,
    /// Continue: the files in `.continue/mcpServers`, of which `mgp` writes `mcp.json`, and the list of servers in its
    /// settings, `~/.continue/config.yaml`.
    Continue,
    /// Goose: `~/.config/goose/config.yaml`, with `extensions`.
    Goose,
    /// Factory Droid: `~/.factory/mcp.json`.
    Droid,
    /// Google Antigravity: `~/.gemini/config/mcp_config.json`.
    Antigravity,
    /// Any other file with `mcpServers`.
    Generic,
    /// `server.json`, the format of the official registry.
    Registry,
}

/// The maximum length of a host's file, in bytes; `~/.claude.json` also contains the history of the projects.
const MAX_FILE_BYTES: usize = 16 << 20;

/// The hosts' configuration files below the folder of a project.
const PROJECT_FILES: &[(Host, &str)] = &[
    (Host::ClaudeCode, ".mcp.json"),
    (Host::Cursor, ".cursor/mcp.json"),
    (Host::VsCode, ".vscode/mcp.json"),
    (Host::Codex, ".codex/config.toml"),
    (Host::GeminiCli, ".gemini/settings.json"),
    (Host::QwenCode, ".qwen/settings.json"),
    (Host::Zed, ".zed/settings.json"),
    (Host::OpenCode, "opencode.json"),
    (Host::CopilotCli, ".github/mcp.json"),
    (Host::Kiro, ".kiro/settings/mcp.json"),
    (Host::Continue, ".continue/mcpServers/mcp.json"),
    (Host::Junie, ".junie/mcp/mcp.json"),
    (Host::Droid, ".factory/mcp.json"),
    (Host::Antigravity, ".agents/mcp_config.json"),
];

impl Host {
    /// Returns a short name of the host. The agent that makes the host's calls has the same name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini",
            Self::QwenCode => "qwen",
            Self::Windsurf => "windsurf",
            Self::Zed => "zed",
            Self::OpenCode => "opencode",
            Self::Cline => "cline",
            Self::CopilotCli => "copilot",
            Self::LmStudio => "lm-studio",
            Self::Kiro => "kiro",
            Self::Junie => "junie",
            Self::Continue => "continue",
            Self::Goose => "goose",
            Self::Droid => "droid",
            Self::Antigravity => "antigravity",
            Self::Generic => "file",
            Self::Registry => "registry",
        }
    }

    /// Returns the key of the servers in the host's file.
    #[must_use]
    pub fn servers_key(self) -> &'static str {
        match self {
            Self::VsCode => "servers",
            Self::Codex => "mcp_servers",
            Self::Zed => "context_servers",
            Self::OpenCode => "mcp",
            Self::Goose => "extensions",
            _ => "mcpServers",
        }
    }

    /// Returns the path of the host's configuration file below the folder of a project; `None` if it has no such file.
    #[must_use]
    pub fn project_file(self) -> Option<&'static str> {
        let own = PROJECT_FILES.iter().find(|(host, _)| *host == self);
        own.map(|(_, path)| *path)
    }

    fn dialect(self) -> Dialect {
        match self {
            // These hosts replace no variables: they start the command exactly as it is written.
            Self::Antigravity | Self::ClaudeDesktop | Self::Codex | Self::LmStudio | Self::Zed => {
                Dialect::Plain
            }
            Self::Continue => Dialect::Continue,
            Self::VsCode | Self::Cursor | Self::Windsurf | Self::Cline => Dialect::Editor,
            Self::GeminiCli | Self::QwenCode => Dialect::Gemini,
            Self::OpenCode => Dialect::OpenCode,
            _ => Dialect::Shell,
        }
    }

    /// Returns the members of an entry in which the host replaces no variables, although it replaces them in others.
    fn plain_members(self) -> &'static [&'static str] {
        match self {
            Self::Droid => &["command", "args", "cwd", "url"],
            Self::Goose => &["command", "args", "cwd", "env"],
            _ => &[],
        }
    }

    /// Converts the entry of a server; an error is the reason why it cannot be imported.
    fn entry(
        self,
        name: &str,
        value: &Value,
        meaning: &Meaning<'_>,
        findings: &mut Findings,
    ) -> Result<Entry, String> {
        let value = entry::common(self, name, value);
        let replaces_own = matches!(self, Self::CopilotCli | Self::Goose);
        // A variable that stays in a URL or a header would be sent as it is, because no program replaces it.
        let may_stay =
            !replaces_own && meaning.dialect != Dialect::Own && value.get("command").is_some();
        let own = value["env"].as_object().filter(|_| may_stay);
        let meaning = Meaning { own, ..meaning.clone() };
        let mut entry = entry::entry(&value, &meaning, findings)?;
        if replaces_own {
            entry.set_own_variables();
        }
        Ok(entry)
    }
}

/// The servers found in one file of a host.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Import {
    /// The host whose file was read, or the kind of the file.
    pub host: Host,
    /// The path of the file.
    pub source: PathBuf,
    /// The servers that can be imported.
    pub servers: Vec<ImportedServer>,
    /// The servers that cannot be imported, with the reason.
    pub refused: Vec<ImportError>,
}

/// A server that can be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportedServer {
    /// The name of the server in the file.
    pub name: String,
    /// The project that declares the server, if one file contains several projects.
    pub project: Option<String>,
    /// The settings of the server.
    pub entry: Entry,
    /// Notes about parts of the entry that are not imported, and about what the user must do.
    pub notes: Vec<String>,
}

/// A server that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportError {
    /// The name of the server in the file.
    pub name: String,
    /// The project that declares the server, if one file contains several projects.
    pub project: Option<String>,
    /// The reason why it cannot be imported.
    pub why: String,
}

impl ImportError {
    /// Returns whether the server was left out on purpose, because it is switched off or is a part of the host.
    #[must_use]
    pub fn is_intended(&self) -> bool {
        [SWITCHED_OFF, PART_OF_HOST].contains(&&*self.why)
    }

    /// Returns `false` if the host starts no server for this entry.
    #[must_use]
    pub fn is_started(&self) -> bool {
        !self.is_intended() && self.why != NO_TARGET
    }
}

/// Reads the text of a host's file. `file` is named in messages; its extension selects the format where the host has
/// several. If `file` is the absolute path of a project's file, the servers start in the folder of the project.
///
/// ```
/// use mgp_discovery::import::{Host, read};
///
/// let text = r#"{"mcpServers": {"files": {"command": "mcp-files", "env": {"ROOT": "${ROOT:-/srv}"}}}}"#;
/// let import = read(Host::ClaudeCode, ".mcp.json".as_ref(), text).unwrap();
/// let server = &import.servers[0];
/// assert_eq!((server.name.as_str(), server.entry.env["ROOT"].as_str()), ("files", "${ROOT:-/srv}"));
/// ```
///
/// # Errors
/// [`DiscoveryError::Foreign`] if it is not a valid file of this host, or too long;
/// [`DiscoveryError::NoServers`] if it has no member with servers.
pub fn read(host: Host, file: &Path, text: &str) -> Result<Import, DiscoveryError> {
    read_with(host, host.dialect(), file, text, None)
}

/// Reads the text of a host's file that belongs to the user, like [`read`]. Where the host asks the user for a value,
/// the import writes a reference to the stored secret of that name, if `secrets` contains the name.
///
/// # Errors
/// See [`read`].
pub fn read_of_user(
    host: Host,
    file: &Path,
    text: &str,
    secrets: &[String],
) -> Result<Import, DiscoveryError> {
    read_with(host, host.dialect(), file, text, Some(secrets))
}

/// Reads servers that the user wrote for this program, in the format of [`Host::Generic`]. Variables such as
/// `${keyring:NAME}`, `${file:PATH}` and `${cmd:COMMAND}` stay as they are.
///
/// # Errors
/// See [`read`].
pub fn read_own(file: &Path, text: &str) -> Result<Import, DiscoveryError> {
    read_with(Host::Generic, Dialect::Own, file, text, None)
}

fn read_with(
    host: Host,
    dialect: Dialect,
    file: &Path,
    text: &str,
    secrets: Option<&[String]>,
) -> Result<Import, DiscoveryError> {
    let foreign = |reason: String| DiscoveryError::Foreign { path: file.to_owned(), reason };
    if text.len() > MAX_FILE_BYTES {
        return Err(foreign(format!("the file is longer than {MAX_FILE_BYTES} bytes")));
    }
    let value = value_of(host, file, text).map_err(foreign)?;
    let mut import =
        Import { host, source: file.to_owned(), servers: Vec::new(), refused: Vec::new() };
    if host == Host::Registry {
        package::read(value, &mut import).map_err(foreign)?;
        return Ok(import);
    }
    let own = host.servers_key();
    let project = project_of(file);
    let mut found = false;
    let root = value.get("mcp").filter(|_| value.get(own).is_none()).unwrap_or(&value);
    // Also look one level deeper, where newer files of `OpenCode` have the servers, in a member `servers`.
    let nested = value[own].get("servers").filter(|_| host == Host::OpenCode);
    let (plain, proposed) = (host.plain_members(), proposed(&root["inputs"]));
    let meaning = Meaning { dialect, plain, own: None, project, proposed, secrets };
    if let Some(servers) = nested.or_else(|| root.get(own)).and_then(Value::as_object) {
        found = true;
        take(&mut import, None, servers, &meaning);
        if matches!(host, Host::GeminiCli | Host::QwenCode) {
            import.leave_out_unlisted(&value["mcp"]);
        }
    }
    let of_user = import.servers.len();
    for (folder, value) in value.get("projects").and_then(Value::as_object).into_iter().flatten() {
        let off = names(&value["disabledMcpServers"]);
        for server in import.servers[..of_user].iter_mut().filter(|one| off.contains(&one.name)) {
            server
                .notes
                .push(format!("it is switched off in the project `{folder}` there, but not here"));
        }
        if let Some(servers) = value.get(own).and_then(Value::as_object) {
            found = true;
            let (project, begin) = (Some(Path::new(folder.as_str())), import.servers.len());
            let proposed = BTreeMap::new();
            let meaning = Meaning { dialect, plain, own: None, project, proposed, secrets };
            take(&mut import, Some(folder), servers, &meaning);
            import.leave_out_from(begin, &off);
        }
    }
    import.withhold_by(None, &value);
    let no_servers = || DiscoveryError::NoServers { path: file.to_owned(), key: own };
    if found { Ok(import) } else { Err(no_servers()) }
}

/// Parses the text of a host's file.
fn value_of(host: Host, file: &Path, text: &str) -> Result<Value, String> {
    let end = file.extension().and_then(|end| end.to_str());
    match (host, end) {
        (Host::Codex, _) | (Host::Generic, Some("toml")) => json::from_toml(text),
        (Host::Goose, _) | (Host::Generic, Some("yaml" | "yml")) => json::from_yaml(text),
        (Host::Continue, Some("yaml" | "yml")) => json::from_yaml(text).map(entry::servers_by_name),
        (Host::Continue, _) => {
            json::parse_json(text).map(|value| entry::with_single_server(value, file))
        }
        _ => json::parse_json(text),
    }
}

/// Returns the folder of the project that a host's file belongs to; this can be the home folder, if the file is the
/// user's own.
fn project_of(file: &Path) -> Option<&Path> {
    // Exclude the user's own file of `OpenCode`, which has the same name as the file of a project.
    let of_user = ["opencode/opencode.json", "opencode/opencode.jsonc"];
    if of_user.iter().any(|end| file.ends_with(end)) {
        return None;
    }
    // Continue reads each file in this folder.
    let of_continue = file.parent().filter(|folder| folder.ends_with(".continue/mcpServers"));
    if let Some(folder) = of_continue {
        return folder.ancestors().nth(2).filter(|folder| folder.is_absolute());
    }
    let ends = PROJECT_FILES.iter().map(|(_, path)| *path);
    // Add two further files: the settings of VS Code, which can contain servers too, and the second name of the file of
    // `OpenCode`.
    let mut ends = ends.chain([".vscode/settings.json", "opencode.jsonc"]).map(Path::new);
    let end = ends.find(|end| file.ends_with(end))?;
    let project = file.ancestors().nth(end.components().count());
    project.filter(|folder| folder.is_absolute())
}

/// Returns the servers of a project's `.mcp.json` that are switched off in a settings file of Claude Code or in
/// `~/.claude.json`.
#[must_use]
pub fn switched_off(settings: &str, project: &Path) -> Vec<String> {
    let Ok(settings) = json::parse_json(settings) else { return Vec::new() };
    let project = settings["projects"].get(&*project.to_string_lossy());
    let lists = [Some(&settings), project].into_iter().flatten();
    lists.flat_map(|value| names(&value["disabledMcpjsonServers"])).collect()
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

impl Import {
    /// Moves the servers that are switched off in the host from `servers` to `refused`.
    pub fn leave_out(&mut self, switched_off: &[String]) {
        self.leave_out_from(0, switched_off);
    }

    /// Leaves out the servers that Gemini CLI or Qwen Code does not start because of its lists `mcp.allowed` and
    /// `mcp.excluded`.
    pub(super) fn leave_out_unlisted(&mut self, mcp: &Value) {
        self.leave_out(&names(&mcp["excluded"]));
        let allowed = names(&mcp["allowed"]);
        if !allowed.is_empty() {
            let all = self.servers.iter().map(|server| server.name.clone());
            let off: Vec<String> = all.filter(|name| !allowed.contains(name)).collect();
            self.leave_out(&off);
        }
    }

    /// Leaves out the servers that Copilot CLI does not start because of its list `disabledMcpServers`.
    pub(super) fn leave_out_disabled(&mut self, settings: &Value) {
        self.leave_out(&names(&settings["disabledMcpServers"]));
    }

    fn leave_out_from(&mut self, begin: usize, switched_off: &[String]) {
        let off = self.servers.extract_if(begin.., |server| switched_off.contains(&server.name));
        let refused = off.map(|off| ImportError {
            name: off.name,
            project: off.project,
            why: SWITCHED_OFF.to_owned(),
        });
        self.refused.extend(refused);
    }
}

/// Adds the servers of a table to the import. `project` is the project whose part of the file contains the table, if
/// any.
fn take(
    import: &mut Import,
    project: Option<&String>,
    servers: &Map<String, Value>,
    meaning: &Meaning<'_>,
) {
    let project = project.cloned();
    for (name, value) in servers {
        let mut findings = Findings::default();
        let taken = if import.servers.len() >= limits::MAX_SERVERS {
            Err(format!("{} servers are possible", limits::MAX_SERVERS))
        } else {
            import.host.entry(name, value, meaning, &mut findings)
        };
        match taken {
            Ok(entry) => {
                let (name, project) = (name.clone(), project.clone());
                let notes = findings.notes;
                import.servers.push(ImportedServer { name, project, entry, notes });
            }
            Err(why) => {
                let project = project.clone();
                import.refused.push(ImportError { name: name.clone(), project, why });
            }
        }
    }
}
