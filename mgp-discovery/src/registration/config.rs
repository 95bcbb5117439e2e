//! The bounds of registrations (MGP §15.4).

use std::path::{MAIN_SEPARATOR_STR, PathBuf};
use std::time::Duration;

/// The bounds of registrations; a request beyond them is refused, and no other registration is dropped for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistrationConfig {
    /// The maximum number of registrations, in any state; 0 disables registration. 64.
    pub most: usize,
    /// The maximum number of registrations of one principal. 16.
    pub most_each: usize,
    /// The maximum number of waiting registrations. 32.
    pub waiting: usize,
    /// The maximum number of waiting registrations of one principal. 4.
    pub waiting_each: usize,
    /// The time after which a waiting registration expires, and a rejection is forgotten. One day.
    pub expires: Duration,
    /// The maximum number of calls of one principal in a minute, `register` and `deregister` together. 20.
    pub per_minute: u32,
    /// The maximum size of the program with its arguments and its folder. 16 KiB.
    pub argv_bytes: usize,
    /// The maximum size of the environment. 16 KiB.
    pub env_bytes: usize,
    /// The maximum size of a script, in a request or in a file. 256 KiB.
    pub script_bytes: usize,
    /// The time a caller waits for a start or a removal before the reply reports that it continues. 1.5 s.
    pub answers_within: Duration,
    /// The time that running calls have after their server is deregistered. 30 s.
    pub drain: Duration,
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
            most: 64,
            most_each: 16,
            waiting: 32,
            waiting_each: 4,
            expires: Duration::from_hours(24),
            per_minute: 20,
            argv_bytes: 4 * 1024,
            env_bytes: 4 * 1024,
            script_bytes: 256 * 1024,
            answers_within: Duration::from_millis(1500),
            drain: Duration::from_secs(30),
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
