//! The MCP hosts that `mgp setup`, `mgp connect` and `mgp import` know by name, and the paths of their configuration
//! files.

use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use mgp_discovery::import::{Host, read};

use crate::exit::{CliResult, Failure};
use crate::this_program::is_mgp;
use crate::unread_files::may_list_servers;

/// A host that is known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownHost(&'static HostFiles);

#[derive(Debug, PartialEq, Eq)]
struct HostFiles {
    host: Host,
    title: &'static str,
    /// The configuration file that applies to all projects of a user.
    user: UserFile,
}

/// A path below one of the user's folders.
#[derive(Debug, PartialEq, Eq)]
enum UserFile {
    /// A path below the user's home folder.
    Home(&'static str),
    /// A path below `~/.config`, or on Windows below the folder of `Programs` (`opencode` excepted).
    Config(&'static str),
    /// A path below the folder where the system keeps settings of programs.
    Programs(&'static str),
}

const fn files(host: Host, title: &'static str, user: UserFile) -> HostFiles {
    HostFiles { host, title, user }
}

use UserFile::{Config, Home, Programs};

/// The table of hosts; the paths are taken from the documentation of each host.
static TABLE: [HostFiles; 19] = [
    files(Host::ClaudeDesktop, "Claude Desktop", Programs("Claude/claude_desktop_config.json")),
    files(Host::ClaudeCode, "Claude Code", Home(".claude.json")),
    files(Host::Cursor, "Cursor", Home(".cursor/mcp.json")),
    files(Host::VsCode, "Visual Studio Code", Programs("Code/User/mcp.json")),
    // https://developers.openai.com/codex/mcp
    files(Host::Codex, "Codex", Home(".codex/config.toml")),
    // https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md
    files(Host::GeminiCli, "Gemini CLI", Home(".gemini/settings.json")),
    // https://docs.windsurf.com/windsurf/cascade/mcp
    files(Host::Windsurf, "Windsurf", Home(".codeium/windsurf/mcp_config.json")),
    // https://zed.dev/docs/ai/mcp
    files(Host::Zed, "Zed", Config("zed/settings.json")),
    // https://opencode.ai/docs/mcp-servers
    files(Host::OpenCode, "OpenCode", Config("opencode/opencode.json")),
    // https://docs.cline.bot/mcp/configuring-mcp-servers
    files(
        Host::Cline,
        "Cline",
        Programs("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
    ),
    // https://docs.github.com/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers
    files(Host::CopilotCli, "GitHub Copilot CLI", Home(".copilot/mcp-config.json")),
    // https://lmstudio.ai/docs/app/mcp
    files(Host::LmStudio, "LM Studio", Home(".lmstudio/mcp.json")),
    // https://kiro.dev/docs/mcp/configuration
    files(Host::Kiro, "Kiro", Home(".kiro/settings/mcp.json")),
    // https://docs.continue.dev/customize/deep-dives/mcp
    files(Host::Continue, "Continue", Home(".continue/mcpServers/mcp.json")),
    // https://block.github.io/goose/docs/guides/config-files
    files(Host::Goose, "Goose", Config("goose/config.yaml")),
    // https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html
    files(Host::Junie, "JetBrains Junie", Home(".junie/mcp/mcp.json")),
    // https://qwenlm.github.io/qwen-code-docs/en/users/features/mcp
    files(Host::QwenCode, "Qwen Code", Home(".qwen/settings.json")),
    // https://docs.factory.ai/cli/configuration/mcp
    files(Host::Droid, "Factory Droid", Home(".factory/mcp.json")),
    // https://antigravity.google/docs/mcp
    files(Host::Antigravity, "Google Antigravity", Home(".gemini/config/mcp_config.json")),
];

impl KnownHost {
    /// All hosts, in the order they are shown.
    pub(crate) const ALL: [Self; TABLE_LEN] = {
        let mut all = [Self(&TABLE[0]); TABLE_LEN];
        let mut at = 0;
        while at < TABLE_LEN {
            all[at] = Self(&TABLE[at]);
            at += 1;
        }
        all
    };

    /// Returns the name on the command line, which is also the default agent name.
    pub(crate) fn name(self) -> &'static str {
        self.0.host.name()
    }

    pub(crate) fn title(self) -> &'static str {
        self.0.title
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }

    /// Returns whether the host is known to rewrite names of tools that the APIs of model providers refuse. Other
    /// hosts, e.g. Claude Desktop, Cursor and Copilot CLI, report such names as errors or lose all tools.
    pub(crate) fn rewrites_names(self) -> bool {
        use Host::{ClaudeCode, Codex, GeminiCli, OpenCode, QwenCode, VsCode};
        matches!(self.format(), ClaudeCode | Codex | GeminiCli | OpenCode | QwenCode | VsCode)
    }

    /// Returns what a person has to know about this host once its file has this text, which starts mgp.
    pub(crate) fn note(self, text: &str) -> Option<&'static str> {
        match self.format() {
            // Return no note if the file has settings for this tool: the user has then decided whether Codex or mgp
            // asks.
            Host::Codex if text.contains("mgp_tools_call") => None,
            // https://developers.openai.com/codex/config-reference
            Host::Codex => Some(
                "Codex asks you before each call of `mgp_tools_call`, and `codex exec` refuses these calls; to leave the question to mgp, add `[mcp_servers.mgp.tools.mgp_tools_call]` with `approval_mode = \"approve\"` to the file",
            ),
            Host::Continue => Some(
                "the editors read this file; for `cn`, the command line, add mgp to `mcpServers` of `~/.continue/config.yaml` by hand",
            ),
            _ => None,
        }
    }

    /// Returns the format of the host's configuration files.
    pub(crate) fn format(self) -> Host {
        self.0.host
    }

    /// Returns the path of the host's configuration file for all projects of a user.
    pub(crate) fn user_file(self, home: &Path) -> PathBuf {
        let config = || folder_in("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let programs = || {
            if cfg!(target_os = "macos") {
                home.join("Library/Application Support")
            } else if cfg!(windows) {
                home.join("AppData/Roaming")
            } else {
                config()
            }
        };
        if let Some(file) = self.moved_file() {
            return file;
        }
        match self.0.user {
            Home(path) if self.format() == Host::Antigravity => {
                or_other(home.join(path), home.join(EARLIER_FILE_OF_ANTIGRAVITY))
            }
            Home(path) => home.join(path),
            // On all systems, OpenCode has its file in the same folder below the user's home folder.
            Config(path @ "opencode/opencode.json") => or_jsonc(config().join(path)),
            // On Windows, the folder of Goose is two levels deeper.
            Config("goose/config.yaml") if cfg!(windows) => {
                programs().join("Block/goose/config/config.yaml")
            }
            Config(path) if cfg!(windows) => programs().join(path),
            Config(path) => config().join(path),
            Programs(path) if self.format() == Host::Cline => {
                or_other(programs().join(path), home.join(COMMAND_LINE_OF_CLINE))
            }
            Programs(path) => programs().join(path),
        }
    }

    /// Returns the path of the host's configuration file, if an environment variable of the host names another folder
    /// for the file.
    fn moved_file(self) -> Option<PathBuf> {
        match self.format() {
            // https://developers.openai.com/codex/environment-variables
            Host::Codex => folder_in("CODEX_HOME").map(|folder| folder.join("config.toml")),
            Host::ClaudeCode => folder_in(CLAUDE_FOLDER).map(|folder| folder.join(".claude.json")),
            // https://docs.github.com/copilot/reference/copilot-cli-reference/cli-config-dir-reference
            Host::CopilotCli => folder_in("COPILOT_HOME").map(|own| own.join("mcp-config.json")),
            Host::GeminiCli => {
                folder_in(GEMINI_HOME).map(|home| home.join(".gemini/settings.json"))
            }
            Host::QwenCode => folder_in("QWEN_HOME").map(|folder| folder.join("settings.json")),
            _ => None,
        }
    }

    /// Returns whether this user has the host's configuration file for all projects.
    pub(crate) fn has_user_file(self) -> bool {
        home().is_ok_and(|home| self.user_file(&home).exists())
    }

    /// Returns whether this user seems to have the host: its configuration file for all projects, or the file's folder.
    pub(crate) fn is_installed(self, home: &Path) -> bool {
        let file = self.user_file(home);
        file.exists() || file.parent().is_some_and(|folder| folder != home && folder.is_dir())
    }

    /// Returns the path of the settings that can list further servers: of Continue only.
    pub(crate) fn settings_file(self, home: &Path) -> Option<PathBuf> {
        (self.format() == Host::Continue).then(|| home.join(SETTINGS_OF_CONTINUE))
    }

    /// Returns the path of the host's [settings](Self::settings_file) if they list servers other than mgp.
    pub(crate) fn settings_with_servers(self, home: &Path) -> Option<PathBuf> {
        let file = self.settings_file(home)?;
        let text = std::fs::read_to_string(&file).ok()?;
        let mut lines = text.lines().skip_while(|line| !line.starts_with("mcpServers:"));
        let rest = lines.next()?.strip_prefix("mcpServers:")?;
        let rest = rest.split('#').next().unwrap_or_default().trim();
        let has_servers = if rest.is_empty() {
            // The value is empty, so the servers are in the lines below, before the next key at the top level.
            let is_text = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with('#');
            lines.find(is_text).is_some_and(|line| line.starts_with([' ', '\t', '-']))
        } else {
            !["[]", "[ ]", "{}", "null", "~"].contains(&rest)
        };
        let is_only_mgp = || {
            let all = read(Host::Continue, &file, &text).ok().filter(|all| all.refused.is_empty());
            all.is_some_and(|all| {
                !all.servers.is_empty() && all.servers.iter().all(|server| is_mgp(&server.entry))
            })
        };
        (has_servers && !is_only_mgp()).then_some(file)
    }

    /// Returns the path of the host's configuration file in a project folder, or `None` if the host has no such file.
    pub(crate) fn project_file(self, folder: &Path) -> Option<PathBuf> {
        let file = self.format().project_file().map(|path| folder.join(path))?;
        Some(if self.format() == Host::OpenCode { or_jsonc(file) } else { file })
    }

    /// Returns the host whose servers `mgp import` reads from a file. The settings of VS Code and each file in the
    /// folder of Continue also count, because they can contain servers in addition to the host's configuration file.
    pub(crate) fn from_imported_file(file: &Path) -> Option<Self> {
        let settings = [".vscode/settings.json", "Code/User/settings.json"];
        let is_settings = settings.iter().any(|end| file.ends_with(end));
        let vscode = || Self::from_name(Host::VsCode.name()).filter(|_| is_settings);
        let is_of_continue = || {
            let folder = file.parent().filter(|_| may_list_servers(file));
            folder.is_some_and(|folder| folder.ends_with(".continue/mcpServers"))
        };
        let of_continue = || Self::from_name(Host::Continue.name()).filter(|_| is_of_continue());
        Self::from_file(file).or_else(vscode).or_else(of_continue)
    }

    /// Returns the host to which a configuration file belongs. Recognizes the host by the last parts of the file's
    /// path, or by the variable that names the file's folder.
    pub(crate) fn from_file(file: &Path) -> Option<Self> {
        let others_of_opencode = ["opencode.jsonc", "opencode/config.json"];
        let is_of_opencode = others_of_opencode.iter().any(|end| file.ends_with(end));
        let first = is_of_opencode.then(|| file.with_file_name("opencode.json"));
        let file = first.as_deref().unwrap_or(file);
        Self::ALL.into_iter().find(|host| {
            let is_moved = |own: PathBuf| {
                own == file || dunce::canonicalize(&own).is_ok_and(|real| real == file)
            };
            if host.format() == Host::Continue && file.ends_with(SETTINGS_OF_CONTINUE)
                || host.format() == Host::Antigravity && file.ends_with(EARLIER_FILE_OF_ANTIGRAVITY)
                || host.format() == Host::VsCode && is_of_profile(file)
                || host.moved_file().is_some_and(is_moved)
            {
                return true;
            }
            let (Home(user) | Config(user) | Programs(user)) = host.0.user;
            let mut paths = [Some(user), host.format().project_file()].into_iter().flatten();
            paths.any(|path| file.ends_with(distinct_end(path)))
        })
    }
}

/// The maximum number of characters that the APIs of many model providers accept in the name of a tool.
pub(crate) const MAX_TOOL_NAME_CHARS: usize = 64;

/// Returns whether the APIs of model providers accept the name of a tool.
pub(crate) fn is_portable_name(name: &str) -> bool {
    let is_accepted = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=MAX_TOOL_NAME_CHARS).contains(&name.len()) && name.bytes().all(is_accepted)
}

/// The maximum number of files of a folder that are searched for servers.
pub(crate) const MAX_BESIDE: usize = 200;

/// The maximum number of files or servers that a warning names.
const MAX_NAMES: usize = 8;

/// Joins names with commas; names only the first [`MAX_NAMES`], and counts the rest.
pub(crate) fn first_names(names: &[String]) -> String {
    let first = names[..names.len().min(MAX_NAMES)].join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Returns whether a file has the servers of a profile of VS Code.
fn is_of_profile(file: &Path) -> bool {
    let profiles = file.parent().and_then(Path::parent);
    file.ends_with("mcp.json")
        && profiles.is_some_and(|folder| folder.ends_with("Code/User/profiles"))
}

/// The variable that names the folder of Claude Code's files.
const CLAUDE_FOLDER: &str = "CLAUDE_CONFIG_DIR";

/// The variable that names the parent folder of Gemini CLI's folder `.gemini`.
const GEMINI_HOME: &str = "GEMINI_CLI_HOME";

/// Returns the absolute path of the folder that an environment variable names.
fn folder_in(variable: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable).filter(|folder| !folder.is_empty())?;
    std::path::absolute(folder).ok()
}

/// The settings of Claude Code that an administrator writes for all users.
/// <https://code.claude.com/docs/en/settings>
const MANAGED_BY_CLAUDE: &str = if cfg!(target_os = "macos") {
    "/Library/Application Support/ClaudeCode/managed-settings.json"
} else if cfg!(windows) {
    r"C:\Program Files\ClaudeCode\managed-settings.json"
} else {
    "/etc/claude-code/managed-settings.json"
};

/// Returns the settings files of Claude Code that apply to the servers in one of its files: the administrator's, the
/// user's, and the settings of the project to which a `.mcp.json` belongs. These settings can reject servers and deny
/// tools.
pub(crate) fn claude_settings(file: &Path) -> CliResult<Vec<PathBuf>> {
    let own = match folder_in(CLAUDE_FOLDER) {
        Some(folder) => folder,
        None => home()?.join(".claude"),
    };
    let project = file.parent().filter(|_| file.ends_with(".mcp.json"));
    let files = project.map(claude_project_settings).into_iter().flatten();
    Ok(files.chain([own.join("settings.json"), MANAGED_BY_CLAUDE.into()]).collect())
}

/// Returns the settings files of Claude Code in the folder of a project.
pub(crate) fn claude_project_settings(project: &Path) -> [PathBuf; 2] {
    ["settings.json", "settings.local.json"].map(|name| project.join(".claude").join(name))
}

/// Returns the folder with the files of a host that an administrator writes for all users.
fn admin_folder(name: &str, title: &str) -> PathBuf {
    if cfg!(target_os = "macos") {
        Path::new("/Library/Application Support").join(title)
    } else if cfg!(windows) {
        Path::new(r"C:\ProgramData").join(name)
    } else {
        Path::new("/etc").join(name)
    }
}

/// Returns the folder with the files of Gemini CLI that an administrator writes for all users.
fn admin_folder_of_gemini() -> PathBuf {
    admin_folder("gemini-cli", "GeminiCli")
}

/// Returns further settings files of a host: those of the user, and those of an administrator. Their rules also apply
/// to the servers in `file`.
pub(crate) fn other_settings(host: Host, file: &Path) -> CliResult<Vec<PathBuf>> {
    let known = KnownHost::from_name(host.name());
    let own = || known.map(|known| Ok::<_, Failure>(known.user_file(&home()?))).transpose();
    let managed = match host {
        Host::ClaudeCode => return claude_settings(file),
        Host::CopilotCli => {
            let settings = own()?.map(|own| own.with_file_name("settings.json"));
            return Ok(settings.into_iter().collect());
        }
        Host::GeminiCli => Some(("GEMINI_CLI_SYSTEM_SETTINGS_PATH", admin_folder_of_gemini())),
        Host::QwenCode => {
            Some(("QWEN_CODE_SYSTEM_SETTINGS_PATH", admin_folder("qwen-code", "QwenCode")))
        }
        Host::OpenCode => None,
        _ => return Ok(Vec::new()),
    };
    let managed = managed.map(|(variable, folder)| {
        folder_in(variable).unwrap_or_else(|| folder.join("settings.json"))
    });
    let is_other = |own: &PathBuf| {
        own != file && dunce::canonicalize(own).ok() != dunce::canonicalize(file).ok()
    };
    Ok(own()?.filter(is_other).into_iter().chain(managed).collect())
}

/// Returns the policy files of Gemini CLI, of the user and of the administrator, which can deny tools.
pub(crate) fn gemini_policies() -> CliResult<Vec<PathBuf>> {
    let own = match folder_in(GEMINI_HOME) {
        Some(home) => home,
        None => home()?,
    };
    let folders = [own.join(".gemini/policies"), admin_folder_of_gemini().join("policies")];
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok());
    let is_policy = |file: &PathBuf| file.extension().is_some_and(|end| end == "toml");
    let files = entries.flat_map(|entries| {
        let files = entries.flatten().map(|entry| entry.path());
        files.filter(is_policy).take(MAX_BESIDE)
    });
    Ok(files.collect())
}

/// Returns the path of a file of `OpenCode`: with `.jsonc` instead of `.json` if only that file exists.
fn or_jsonc(file: PathBuf) -> PathBuf {
    let other = file.with_extension("jsonc");
    or_other(file, other)
}

/// Returns the second of two paths if only that file exists, else the first.
fn or_other(file: PathBuf, other: PathBuf) -> PathBuf {
    if other.exists() && !file.exists() { other } else { file }
}

/// Returns the end of a path that identifies its host: the file name if only this host uses it, else also the folder.
fn distinct_end(path: &'static str) -> &'static Path {
    let path = Path::new(path);
    let common = ["mcp.json", "mcp_config.json", "settings.json", "config.toml", "config.yaml"];
    let is_common = |name: &str| common.contains(&name);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let folder = path.parent().and_then(Path::parent).filter(|_| is_common(name));
    match folder {
        // Return the whole path, because other programs also have such a file in a folder `config`.
        Some(_) if path.parent().is_some_and(|own| own.ends_with("config")) => path,
        Some(above) => path.strip_prefix(above).unwrap_or(path),
        None => Path::new(name),
    }
}

const TABLE_LEN: usize = TABLE.len();

/// The path of Continue's settings below the user's home folder.
const SETTINGS_OF_CONTINUE: &str = ".continue/config.yaml";

/// The path of the file that versions of Antigravity before 2.0 have, below the user's home folder.
const EARLIER_FILE_OF_ANTIGRAVITY: &str = ".gemini/antigravity/mcp_config.json";

/// The path, below the user's home folder, of the file that Cline's command line reads instead of the editor's file.
const COMMAND_LINE_OF_CLINE: &str = ".cline/data/settings/cline_mcp_settings.json";

impl ValueEnum for KnownHost {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.title()))
    }
}

pub(crate) fn home() -> CliResult<PathBuf> {
    std::env::home_dir().ok_or_else(|| Failure::failed("the home folder is not known; set HOME"))
}

/// Returns the folder in which this command runs, e.g. that of a project.
pub(crate) fn current_folder() -> CliResult<PathBuf> {
    std::env::current_dir().map_err(|error| {
        Failure::failed(format!(
            "the current folder cannot be used: {error}; change to another one"
        ))
    })
}

/// Shortens the paths below the user's home folder in a text for people, e.g. to `~/.claude.json`. Keeps a path in
/// quotation marks, where a shell does not know `~`.
pub(crate) fn with_tilde(text: &str) -> String {
    match std::env::home_dir().filter(|home| home.parent().is_some()) {
        Some(home) => shortened(text, &home.to_string_lossy()),
        None => text.to_owned(),
    }
}

fn shortened(text: &str, home: &str) -> String {
    let home = home.trim_end_matches(MAIN_SEPARATOR);
    [' ', '`'].into_iter().fold(text.to_owned(), |text, before| {
        let path = format!("{before}{home}{MAIN_SEPARATOR}");
        text.replace(&path, &format!("{before}~{MAIN_SEPARATOR}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_path_below_the_home_folder_is_shortened_where_a_shell_would_read_it() {
        let shown = |text| shortened(text, "/home/ada/");
        assert_eq!(shown("`/home/ada/a` and x: /home/ada/b c"), "`~/a` and x: ~/b c");
        for same in ["'/home/ada/a b'", "=/home/ada/a", "/srv/home/ada/a", " /home/adam/a"] {
            assert_eq!(shown(same), same);
        }
    }

    #[test]
    fn each_host_is_recognised_by_its_files_alone() {
        for host in KnownHost::ALL {
            let files = [Some(host.user_file(Path::new("/h"))), host.project_file(Path::new("/p"))];
            for file in files.into_iter().flatten() {
                assert_eq!(KnownHost::from_file(&file), Some(host), "{}", file.display());
            }
        }
        for (file, host) in [
            ("claude_desktop_config.json", Some("claude-desktop")),
            ("/p/.mcp.json", Some("claude-code")),
            ("/h/.config/opencode/opencode.jsonc", Some("opencode")),
            ("/p/opencode.jsonc", Some("opencode")),
            ("/h/.config/opencode/config.json", Some("opencode")),
            ("/p/config.json", None),
            ("/h/.continue/config.yaml", Some("continue")),
            ("/h/.cline/data/settings/cline_mcp_settings.json", Some("cline")),
            ("/p/config.yaml", None),
            ("/p/other.jsonc", None),
            ("/p/mcp.json", None),
            ("/h/.gemini/antigravity/mcp_config.json", Some("antigravity")),
            ("/p/config/mcp_config.json", None),
            ("settings.json", None),
            ("config.toml", None),
        ] {
            assert_eq!(KnownHost::from_file(Path::new(file)).map(KnownHost::name), host, "{file}");
        }
    }

    #[test]
    fn the_file_of_opencode_can_be_the_one_with_comments() {
        let folder = mgp_testkit::temp_dir();
        let opencode = KnownHost::from_name("opencode").unwrap();
        let file = || opencode.project_file(folder.path()).unwrap();
        let [json, jsonc] =
            ["opencode.json", "opencode.jsonc"].map(|name| folder.path().join(name));
        assert_eq!(file(), json);
        std::fs::write(&jsonc, "{}").unwrap();
        assert_eq!(file(), jsonc);
        std::fs::write(&json, "{}").unwrap();
        assert_eq!(file(), json);
    }

    #[test]
    fn the_file_of_antigravity_is_the_earlier_one_if_only_that_exists() {
        let folder = mgp_testkit::temp_dir();
        let antigravity = KnownHost::from_name("antigravity").unwrap();
        let file = || antigravity.user_file(folder.path());
        let [earlier, new] = [EARLIER_FILE_OF_ANTIGRAVITY, ".gemini/config/mcp_config.json"]
            .map(|path| folder.path().join(path));
        for (path, expected) in [(&earlier, &earlier), (&new, &new)] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "{}").unwrap();
            assert_eq!(file(), *expected);
        }
    }

    #[test]
    fn the_file_of_cline_is_that_of_its_command_line_if_only_that_exists() {
        let folder = mgp_testkit::temp_dir();
        let cline = KnownHost::from_name("cline").unwrap();
        let in_editor = cline.user_file(folder.path());
        let own = folder.path().join(COMMAND_LINE_OF_CLINE);
        std::fs::create_dir_all(own.parent().unwrap()).unwrap();
        std::fs::write(&own, "{}").unwrap();
        assert_ne!(in_editor, own);
        assert_eq!(cline.user_file(folder.path()), own);
    }
}
