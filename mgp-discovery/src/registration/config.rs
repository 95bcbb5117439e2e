//! The bounds of registrations (MGP §15.4).

use std::path::{MAIN_SEPARATOR_STR, PathBuf};
use std::time::Duration;

use crate::expand::SecretFile;

/// The limits of registrations. A request beyond a limit is refused; existing registrations are never removed to make
/// room for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RegistrationConfig {
    /// The maximum number of registrations, in any state; 0 disables registration. A tenant other than `local` may have
    /// at most half of them. Default: 64.
    pub max: usize,
    /// The maximum number of registrations per principal. The number of a principal's stored rejections has the same
    /// maximum. Default: 16.
    pub max_each: usize,
    /// The maximum number of registrations that wait for approval. A tenant other than `local` may have at most half of
    /// them. Default: 32.
    pub max_pending: usize,
    /// The maximum number of registrations per principal that wait for approval. Default: 4.
    pub max_pending_each: usize,
    /// The lifetime of a waiting registration, and of a rejection. Default: one day.
    pub ttl: Duration,
    /// The maximum number of calls per principal and minute, counting `register` and `deregister` together. Default:
    /// 20.
    pub per_minute: u32,
    /// The maximum total size of the program's path, its arguments and its folder, in bytes. Default: 4 KiB.
    pub max_argv_bytes: usize,
    /// The maximum size of the environment, in bytes. Default: 4 KiB.
    pub max_env_bytes: usize,
    /// The maximum size of a script in a request or in a file, in bytes. Default: 256 KiB.
    pub max_script_bytes: usize,
    /// The maximum time that a reply waits until a server is started or removed. After that time, the reply reports
    /// that the work continues. Default: 1.5 s.
    pub reply_timeout: Duration,
    /// The time that running calls have to finish after their server is deregistered. Default: 30 s.
    pub drain_timeout: Duration,
    /// The absolute folder against which relative paths are resolved. Default: the user's home.
    pub folder: PathBuf,
    /// The folders in which programs are searched. Default: the absolute folders in the process's `PATH`.
    pub path: Vec<PathBuf>,
    /// A private folder for scripts that requests contain, and for the files of confined servers from a registry; if
    /// it is `None`, such scripts are refused, and such servers do not start.
    pub scripts: Option<PathBuf>,
    /// The user's secrets, for servers from a registry; `None` if such servers can get no secrets.
    pub secrets: Option<SecretFile>,
    /// The user's own configuration file. No permission of a server extends to this file, or to a file that
    /// `${file:PATH}` names in it.
    pub config_file: Option<PathBuf>,
    /// The other files and folders of the kernel to which no permission of a server extends, besides the state folder,
    /// e.g. its private key.
    pub closed: Vec<PathBuf>,
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
            secrets: None,
            config_file: None,
            closed: Vec::new(),
        }
    }
}
