//! The hosts that are known by name, and where their files are.
//!
//! Applies to: both.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use mgp_discovery::import::Host;

/// A host that is known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Known {
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

impl Known {
    /// All of them.
    pub(crate) const ALL: [Self; 4] =
        [Self::ClaudeDesktop, Self::ClaudeCode, Self::Cursor, Self::VsCode];

    /// Its name on the command line, and the agent it counts as.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
        }
    }

    /// The host of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }

    /// How its files are read.
    pub(crate) fn kind(self) -> Host {
        match self {
            Self::ClaudeDesktop => Host::ClaudeDesktop,
            Self::ClaudeCode => Host::ClaudeCode,
            Self::Cursor => Host::Cursor,
            Self::VsCode => Host::VsCode,
        }
    }

    /// The member of its files that has the servers.
    pub(crate) fn table(self) -> &'static str {
        if self == Self::VsCode { "servers" } else { "mcpServers" }
    }

    /// Its file for all projects of a user.
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

    /// Its file in a project; not every host has one.
    pub(crate) fn project_file(self, folder: &Path) -> Option<PathBuf> {
        match self {
            Self::ClaudeDesktop => None,
            Self::ClaudeCode => Some(folder.join(".mcp.json")),
            Self::Cursor => Some(folder.join(".cursor/mcp.json")),
            Self::VsCode => Some(folder.join(".vscode/mcp.json")),
        }
    }

    /// The host that a file is named after.
    pub(crate) fn of_file(file: &Path) -> Option<Self> {
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
