//! The MCP hosts that `mgp connect` and `mgp import` know by name, and the paths of their configuration files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use mgp_discovery::import::Host;

use crate::exit::{CliResult, Failure};

/// A host that is known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KnownHost {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code
    ClaudeCode,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    #[value(name = "vscode")]
    VsCode,
}

impl KnownHost {
    pub(crate) const ALL: [Self; 4] =
        [Self::ClaudeDesktop, Self::ClaudeCode, Self::Cursor, Self::VsCode];

    /// Returns the name on the command line, which is also the default agent name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }

    /// Returns the format of the host's configuration files.
    pub(crate) fn format(self) -> Host {
        match self {
            Self::ClaudeDesktop => Host::ClaudeDesktop,
            Self::ClaudeCode => Host::ClaudeCode,
            Self::Cursor => Host::Cursor,
            Self::VsCode => Host::VsCode,
        }
    }

    /// Returns the key under which the host's configuration files list the servers.
    pub(crate) fn servers_key(self) -> &'static str {
        if self == Self::VsCode { "servers" } else { "mcpServers" }
    }

    /// Returns the path of the host's configuration file for all projects of a user.
    pub(crate) fn user_file(self, home: &Path) -> PathBuf {
        let programs = if cfg!(target_os = "macos") {
            home.join("Library/Application Support")
        } else if cfg!(windows) {
            home.join("AppData/Roaming")
        } else {
            let set = std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty());
            set.map_or_else(|| home.join(".config"), PathBuf::from)
        };
        match self {
            Self::ClaudeDesktop => programs.join("Claude/claude_desktop_config.json"),
            Self::ClaudeCode => home.join(".claude.json"),
            Self::Cursor => home.join(".cursor/mcp.json"),
            Self::VsCode => programs.join("Code/User/mcp.json"),
        }
    }

    /// Returns the path of the host's configuration file in a project folder, or `None` if the host has no such file.
    pub(crate) fn project_file(self, folder: &Path) -> Option<PathBuf> {
        match self {
            Self::ClaudeDesktop => None,
            Self::ClaudeCode => Some(folder.join(".mcp.json")),
            Self::Cursor => Some(folder.join(".cursor/mcp.json")),
            Self::VsCode => Some(folder.join(".vscode/mcp.json")),
        }
    }

    /// Returns the host whose configuration file has this name.
    pub(crate) fn from_file(file: &Path) -> Option<Self> {
        let name = |path: &Path| path.file_name().map(OsStr::to_owned).unwrap_or_default();
        let folder = file.parent().map(name).unwrap_or_default();
        match (name(file).to_str()?, folder.to_str()?) {
            ("claude_desktop_config.json", _) => Some(Self::ClaudeDesktop),
            (".mcp.json" | ".claude.json", _) => Some(Self::ClaudeCode),
            ("mcp.json", ".cursor") => Some(Self::Cursor),
            ("mcp.json", ".vscode" | "User") => Some(Self::VsCode),
            _ => None,
        }
    }
}

/// Returns the user's home folder.
pub(crate) fn home() -> CliResult<PathBuf> {
    std::env::home_dir().ok_or_else(|| Failure::failed("the home folder is not known; set HOME"))
}
