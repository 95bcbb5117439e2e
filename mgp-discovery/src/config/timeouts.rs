//! The time limits of a server: of its start and of the calls of its tools.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Time limits of one server and of the calls of its tools; `None` for the kernel's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallTimeouts {
    /// The maximum time without progress.
    pub timeout: Option<Duration>,
    /// The maximum time in total.
    pub max_timeout: Option<Duration>,
    /// The maximum time without progress of single tools, by name.
    pub tools: BTreeMap<String, Duration>,
    /// The longest start; see [`ServerConfig::start_timeout`](super::ServerConfig::start_timeout).
    pub start: Option<Duration>,
}

/// The longest start of a server without `start_timeout`.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The same for a program that may download the server first.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_mins(3);

/// Programs that download what they run if it is not there yet.
const DOWNLOADERS: [&str; 12] =
    ["npx", "npm", "pnpm", "yarn", "bunx", "bun", "deno", "uvx", "uv", "pipx", "docker", "podman"];

/// Returns the longest start of a server without `start_timeout`, by the command of a program.
pub(super) fn default_start_timeout(command: Option<&str>) -> Duration {
    let name = command.and_then(|command| Path::new(command).file_stem()?.to_str());
    if name.is_some_and(|name| DOWNLOADERS.contains(&name)) {
        DOWNLOAD_TIMEOUT
    } else {
        START_TIMEOUT
    }
}
