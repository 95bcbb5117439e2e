//! The time limits of a server's start and of its tool calls.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

/// The time limits of a server's start and of its tool calls. For a limit of calls that is `None`, the kernel's limit
/// applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallTimeouts {
    /// The maximum time that a call may take without progress.
    pub timeout: Option<Duration>,
    /// The maximum time that a call may take in total.
    pub max_timeout: Option<Duration>,
    /// The maximum time without progress for individual tools, by tool name.
    pub tools: BTreeMap<String, Duration>,
    /// The maximum time of the start; see [`ServerConfig::start_timeout`](super::ServerConfig::start_timeout).
    pub start: Option<Duration>,
}

/// The maximum time of the start of a server without `start_timeout`.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum time of the start of a program that may download the server first.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_mins(3);

/// Programs that download the package that they run, if it is not installed yet.
const DOWNLOADERS: [&str; 12] =
    ["npx", "npm", "pnpm", "yarn", "bunx", "bun", "deno", "uvx", "uv", "pipx", "docker", "podman"];

/// Programs that start the program which their arguments name.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "fish", "env", "cmd", "powershell", "pwsh"];

/// Returns the maximum time of the start of a program without `start_timeout`.
pub(super) fn default_start_timeout(command: &str, arguments: &[String]) -> Duration {
    let is_in = |names: &[&str], word: &str| {
        let name = Path::new(word).file_stem().and_then(OsStr::to_str);
        name.is_some_and(|name| names.contains(&name))
    };
    let mut words = arguments.iter().flat_map(|argument| argument.split_whitespace());
    let downloads = is_in(&DOWNLOADERS, command)
        || is_in(&SHELLS, command) && words.any(|word| is_in(&DOWNLOADERS, word));
    if downloads { DOWNLOAD_TIMEOUT } else { START_TIMEOUT }
}
