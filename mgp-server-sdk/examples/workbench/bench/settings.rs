//! The command line flags.

use std::time::Duration;

use mgp_types::mgp::{Extension, ExtensionSet, Permission};

/// The values of the flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// The extensions to offer (`--extensions`); `None` without the flag, which means those that the server serves.
    pub(crate) extensions: Option<ExtensionSet>,
    /// The required permissions (`--permissions`).
    pub(crate) permissions: Vec<Permission>,
    /// The offered server id (`--server-id`).
    pub(crate) server_id: Option<String>,
    /// If set, the server never answers the handshake (`--hang-init`).
    pub(crate) hang_init: bool,
    /// The delay before the server starts to read (`--ready-after`).
    pub(crate) ready_after: Duration,
    /// The number of tool calls to answer before the process exits (`--exit-after`).
    pub(crate) exit_after: Option<u64>,
    /// The address to serve over HTTP (`--http`); `None` for stdin and stdout.
    pub(crate) http: Option<String>,
    /// The number of worker threads (`--workers`); `None` for a single-threaded runtime.
    pub(crate) workers: Option<usize>,
}

const KNOWN: &str = "--extensions LIST, --permissions LIST, --server-id ID, --hang-init, \
    --ready-after MS, --exit-after N, --http ADDR, --workers N";

impl Settings {
    /// Parses the flags; fails with a message for the user.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut settings = Self::default();
        while let Some(flag) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("`{flag}` needs a value"));
            match flag.as_str() {
                "--extensions" => settings.extensions = Some(extensions(&value()?)?),
                "--permissions" => settings.permissions = permissions(&value()?)?,
                "--server-id" => settings.server_id = Some(value()?),
                "--hang-init" => settings.hang_init = true,
                "--ready-after" => {
                    settings.ready_after = Duration::from_millis(number(&flag, &value()?)?);
                }
                "--exit-after" => settings.exit_after = Some(number(&flag, &value()?)?),
                "--http" => settings.http = Some(value()?),
                "--workers" => {
                    let workers = usize::try_from(number(&flag, &value()?)?).unwrap_or_default();
                    settings.workers = Some(workers.clamp(1, 64));
                }
                unknown => return Err(format!("unknown flag `{unknown}`; known: {KNOWN}")),
            }
        }
        Ok(settings)
    }
}

fn number(flag: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{flag}` needs a number, not `{text}`"))
}

fn extensions(list: &str) -> Result<ExtensionSet, String> {
    match list {
        "all" => Ok(ExtensionSet::STANDARD),
        "none" => Ok(ExtensionSet::EMPTY),
        list => list.split(',').map(str::trim).try_fold(ExtensionSet::EMPTY, |set, name| {
            let known =
                || Extension::ALL.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", ");
            Extension::from_word(name)
                .map(|extension| set.with(extension))
                .ok_or_else(|| format!("unknown extension `{name}`; known: all, none, {}", known()))
        }),
    }
}

fn permissions(list: &str) -> Result<Vec<Permission>, String> {
    let permissions = list.split(',').map(str::trim).map(Permission::from);
    permissions
        .map(
            |one| {
                if one.is_valid() { Ok(one) } else { Err(format!("unknown permission `{one}`")) }
            },
        )
        .collect()
}
