//! The bounds of registrations (MGP §15.4).

use std::path::{MAIN_SEPARATOR_STR, PathBuf};
use std::time::Duration;

/// The bounds of registrations; a request beyond them is refused, and no other registration is dropped for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistrationConfig {
    /// The maximum number of registrations, in any state; 0 disables registration. 64.
    pub max: usize,
    /// The maximum number of registrations of one principal. 16.
    pub max_each: usize,
    /// The maximum number of waiting registrations. 32.
    pub max_pending: usize,
    /// The maximum number of waiting registrations of one principal. 4.
    pub max_pending_each: usize,
    /// The time after which a waiting registration expires, and a rejection is forgotten. One day.
    pub ttl: Duration,
    /// The maximum number of calls of one principal in a minute, `register` and `deregister` together. 20.
    pub per_minute: u32,
    /// The maximum size of the program with its arguments and its folder. 16 KiB.
    pub max_argv_bytes: usize,
    /// The maximum size of the environment. 16 KiB.
    pub max_env_bytes: usize,
    /// The maximum size of a script, in a request or in a file. 256 KiB.
    pub max_script_bytes: usize,
    /// The time a caller waits for a start or a removal before the reply reports that it continues. 1.5 s.
    pub reply_timeout: Duration,
    /// The time that running calls have after their server is deregistered. 30 s.
    pub drain_timeout: Duration,
    /// The folder that relative paths start from, absolute; by default the user's home.
    pub folder: PathBuf,
    /// The folders that programs are searched in; by default the absolute ones in `PATH` of the process.
    pub path: Vec<PathBuf>,
    /// A private folder for scripts that came in requests; `None` if they are refused.
    pub scripts: Option<PathBuf>,
}

impl Default for RegistrationConfig {
    fn default() -> Self {
        let path = std::env::var_os("PATH");
        Self {
            max: 64,
            max_each: 16,
            max_pending: 32,
            max_pending_each: 4,
            ttl: Duration::from_hours(24),
            per_minute: 20,
            max_argv_bytes: 4 * 1024,
            max_env_bytes: 4 * 1024,
            max_script_bytes: 256 * 1024,
            reply_timeout: Duration::from_millis(1500),
            drain_timeout: Duration::from_secs(30),
            folder: std::env::home_dir().unwrap_or_else(|| MAIN_SEPARATOR_STR.into()),
            path: path
                .iter()
                .flat_map(std::env::split_paths)
                .filter(|folder| folder.is_absolute())
                .collect(),
            scripts: None,
        }
    }
}
