//! How much may be registered, and for how long it waits (MGP §15.4).
//!
//! Applies to: inbound.

use std::path::PathBuf;
use std::time::Duration;

/// The bounds of registrations; what is beyond is refused, and nothing gives way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistrationConfig {
    /// Registrations in all, whatever became of them; none where this is 0. 64.
    pub most: usize,
    /// Registrations of one principal. 16.
    pub most_each: usize,
    /// Those that wait for an operator, in all. 32.
    pub waiting: usize,
    /// Those of one principal that wait. 4.
    pub waiting_each: usize,
    /// How long one waits, and how long a "no" is remembered. A day.
    pub expires: Duration,
    /// Calls of one principal in a minute, `register` and `deregister` together. 20.
    pub per_minute: u32,
    /// Bytes of the program with its arguments and its folder. 16 KiB.
    pub argv_bytes: usize,
    /// Bytes of the environment. 16 KiB.
    pub env_bytes: usize,
    /// Bytes of a script, in a request or in a file. 256 KiB.
    pub script_bytes: usize,
    /// How long a caller waits for a start or an end before it is told that it goes on. 1.5 s.
    pub answers_within: Duration,
    /// How long calls may still run once their server is deregistered. 30 s.
    pub drain: Duration,
    /// The folder that relative paths start from; that of the process.
    pub folder: PathBuf,
    /// Where programs are looked for; `PATH` of the process.
    pub path: Vec<PathBuf>,
    /// A folder of our own for scripts that came in requests; none where they are not taken.
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
            argv_bytes: 16 * 1024,
            env_bytes: 16 * 1024,
            script_bytes: 256 * 1024,
            answers_within: Duration::from_millis(1500),
            drain: Duration::from_secs(30),
            folder: std::env::current_dir().unwrap_or_default(),
            path: path.iter().flat_map(std::env::split_paths).collect(),
            scripts: None,
        }
    }
}
