//! Command-line arguments that several commands share.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use mgp_discovery::{LoadedConfig, Sources};

use crate::exit::{CliResult, Failure};
use crate::log::LogFormat;
use crate::state;

/// The heading of the options of every command, so that the help lists them after the command's own options.
const GLOBAL: &str = "Global options";

/// The options of every command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// Folder of the kernel's state
    #[arg(long, global = true, value_name = "DIR", env = STATE, value_parser = StateFolder, help_heading = GLOBAL)]
    pub(crate) state: Option<PathBuf>,
    /// Print JSON that follows the schemas in docs/schema/cli
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// Log more; give it twice for debug messages
    #[arg(long, short, global = true, help_heading = GLOBAL, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl Global {
    /// Ignores an empty `$MGP_STATE`: the option `--state` then counts as not given.
    pub(crate) fn without_empty_state(mut self) -> Self {
        self.state = self.state.filter(|folder| !folder.as_os_str().is_empty());
        self
    }
}

/// The environment variable that names the state folder.
const STATE: &str = "MGP_STATE";

/// A parser for the path of the state folder. It accepts an empty path only from the environment variable.
#[derive(Clone, Debug)]
struct StateFolder;

impl TypedValueParser for StateFolder {
    type Value = PathBuf;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<PathBuf, clap::Error> {
        if value.is_empty() && std::env::var_os(STATE).as_deref() == Some(OsStr::new("")) {
            return Ok(PathBuf::new());
        }
        PathBufValueParser::new().parse_ref(command, argument, value)
    }
}

/// The configuration a command reads or edits.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigArg {
    /// Configuration file; the default is `$MGP_CONFIG_PATH`, else the project's file and your own
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl ConfigArg {
    pub(crate) fn sources(&self) -> Sources {
        self.config.clone().map_or_else(Sources::from_env, Sources::single)
    }

    /// Loads the configuration that the command reads.
    pub(crate) async fn load(&self, global: &Global) -> CliResult<LoadedConfig> {
        let trust = state::trust(global).await?;
        Ok(self.sources().load(&trust).await?)
    }

    /// Returns the configuration file named by `--config` or by `$MGP_CONFIG_PATH`.
    pub(crate) fn named_file(&self) -> Option<PathBuf> {
        let in_environment = || std::env::var_os("MGP_CONFIG_PATH").filter(|file| !file.is_empty());
        self.config.clone().or_else(|| in_environment().map(PathBuf::from))
    }

    /// Returns a note for the user if the edited file may be the `mgp.toml` of a project. The edit has no effect in
    /// that project until the user approves the file with `mgp trust`.
    pub(crate) fn approval_note(&self) -> Option<String> {
        let file = self.config.as_ref().filter(|file| file.ends_with("mgp.toml"))?;
        Some(format!(
            "if `{}` is the file of a project, run `mgp trust` in its folder; until then it has no effect there",
            file.display()
        ))
    }

    /// Returns the configuration file that commands edit: the file named by the user, else the user's own file.
    pub(crate) fn file_to_edit(&self) -> CliResult<PathBuf> {
        let sources = self.sources();
        // Take the last file: `files()` lists the user's own file last, and a file that the user named is the only one.
        let file = sources.files().last().map(PathBuf::from);
        file.filter(|file| !file.ends_with("mgp.toml") || self.named_file().is_some()).ok_or_else(
            || Failure::usage("the home folder is not known; name a file with --config FILE"),
        )
    }
}

/// `mgp serve`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("carrier").required(true).args(["stdio", "http"]))]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Serve {
    /// Configuration file; the default is `$MGP_CONFIG_PATH`, else the project's file and your own
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Serve the process that started this one, over standard streams
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Serve over HTTP at an address, e.g. 127.0.0.1:8900
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// Agent name for the stdio client, or for callers with --no-auth
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Run a kernel in this process instead of using the shared kernel of the state folder
    #[arg(long)]
    pub(crate) standalone: bool,
    /// Start servers only as `mgp.lock` describes them, and refuse tools whose definitions differ
    #[arg(long)]
    pub(crate) locked: bool,
    /// Accept HTTP callers without a key, i.e. every user, program and local web page of this machine; loopback only
    #[arg(long, requires = "http")]
    pub(crate) no_auth: bool,
    /// Host name, without port, that requests may use in addition to the address; may be given several times
    #[arg(long, value_name = "HOST", conflicts_with_all = ["stdio", "no_auth"])]
    pub(crate) allow_host: Vec<String>,
    /// Origin whose web pages may call, in addition to loopback origins, e.g. `https://app.example`; may be given
    /// several times
    #[arg(long, value_name = "ORIGIN", conflicts_with = "stdio")]
    pub(crate) allow_origin: Vec<String>,
    /// Serve the console at /console too, to operators who log in with their key or token
    #[arg(long, requires = "http", conflicts_with_all = ["stdio", "no_auth"])]
    pub(crate) console: bool,
    /// Write one line of JSON to this file once the kernel serves
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,
    /// Form of the log on standard error; the default is `$MGP_LOG_FORMAT`, else text
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,
    /// Seconds that a kernel started by this command keeps running after its last host has left
    #[arg(long, value_name = "SECONDS", hide = true)]
    pub(crate) linger: Option<u64>,
}

/// `mgp __kernel`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SharedKernel {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Seconds that the kernel keeps running after its last host has left
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) linger: u64,
    /// Run as a service: fail if another kernel uses the state folder, and do not give way to newer programs
    #[arg(long, hide = true)]
    pub(crate) service: bool,
}
