//! The host that a command names, and the file of that host.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use mgp_discovery::import::Host;

use super::syntax::Syntax;
use crate::exit::{CliResult, Failure};
use crate::hosts::{KnownHost, current_folder, home};

/// A host and its file.
#[derive(Clone, Debug, Args)]
pub(super) struct HostTarget {
    /// Host
    pub(super) host: HostArg,
    /// File to edit; required for a generic host
    pub(super) file: Option<PathBuf>,
    /// Edit the host's file in the project of this folder
    #[arg(long, conflicts_with = "file")]
    pub(super) project: bool,
}

impl HostTarget {
    /// Returns the target for a file: the known host to which the path of the file belongs, or else the generic host.
    pub(super) fn of_file(file: &Path) -> Self {
        let host = KnownHost::from_file(file).map_or(HostArg::Generic, HostArg::Known);
        Self { host, file: Some(file.to_owned()), project: false }
    }

    pub(super) fn known(&self) -> Option<KnownHost> {
        match self.host {
            HostArg::Known(host) => Some(host),
            HostArg::Generic => None,
        }
    }

    pub(super) fn path(&self) -> CliResult<PathBuf> {
        let file = match (&self.file, self.known()) {
            (Some(file), _) => std::path::absolute(file)?,
            (None, None) => {
                return Err(Failure::usage(
                    "name the file of the host, e.g. `mgp connect generic FILE`",
                ));
            }
            (None, Some(host)) if self.project => host
                .project_file(&current_folder()?)
                .ok_or_else(|| Failure::usage(format!("{} has no project files", host.name())))?,
            (None, Some(host)) => host.user_file(&home()?),
        };
        // Resolve a symbolic link, so that the edit replaces its target and not the link.
        Ok(with_links_resolved(&file))
    }

    /// Returns whether a file is the user's own file of a known host. Other files can come from other people, so
    /// callers must not trust their contents.
    pub(super) fn is_of_user(&self, file: &Path) -> bool {
        let own = self.known().and_then(|host| Some(host.user_file(&home().ok()?)));
        own.is_some_and(|own| with_links_resolved(&own) == file)
    }

    /// Returns the format of the host's file, given the path to the table that lists its servers.
    pub(super) fn format(&self, table: &[String]) -> Host {
        match self.known() {
            Some(host) => host.format(),
            None if table == ["servers"] => Host::VsCode,
            None => Host::Generic,
        }
    }

    /// Returns the path to the table of servers in the host's file.
    pub(super) fn table(&self, syntax: Syntax, text: &str) -> Vec<String> {
        let has = |path: &[&str], name: &str| {
            let path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
            let members = syntax.members(text, &path);
            members.is_ok_and(|all| all.iter().any(|(own, _)| own == name))
        };
        let key = match self.known() {
            Some(host) => host.format().servers_key(),
            None if has(&[], "servers") && !has(&[], "mcpServers") => "servers",
            None => "mcpServers",
        };
        // Look one level deeper in newer files of OpenCode, which have the servers there.
        let is_nested = key == Host::OpenCode.servers_key() && has(&[key], "servers");
        let nested = is_nested.then_some("servers");
        [Some(key), nested].into_iter().flatten().map(str::to_owned).collect()
    }
}

/// A host as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostArg {
    Known(KnownHost),
    /// Any other host whose file has `mcpServers`; the user must name the file.
    Generic,
}

impl ValueEnum for HostArg {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: [HostArg; KnownHost::ALL.len() + 1] = {
            let mut all = [HostArg::Generic; KnownHost::ALL.len() + 1];
            let mut at = 0;
            while at < KnownHost::ALL.len() {
                all[at] = HostArg::Known(KnownHost::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Known(host) => host.to_possible_value(),
            Self::Generic => Some(
                PossibleValue::new("generic")
                    .help("Any host with a file of `mcpServers`, which must be named"),
            ),
        }
    }
}

/// Returns the path of a file with its symbolic links resolved. The file and its folders need not exist: the path is
/// the same before and after they are created.
fn with_links_resolved(file: &Path) -> PathBuf {
    let real =
        |above: &Path| Some((dunce::canonicalize(above).ok()?, file.strip_prefix(above).ok()?));
    match file.ancestors().find_map(real) {
        Some((real, rest)) if rest.as_os_str().is_empty() => real,
        Some((real, rest)) => real.join(rest),
        None => file.to_owned(),
    }
}
