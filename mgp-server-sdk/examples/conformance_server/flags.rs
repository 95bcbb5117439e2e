//! The command line flags.

use std::path::PathBuf;

/// The values of the flags.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    /// The value of `--port`: the port at which the server serves HTTP.
    pub(crate) port: Option<u16>,
    /// The value of `--auth-fixture`: the path of the file with keys and tokens.
    pub(crate) auth_fixture: Option<PathBuf>,
}

const KNOWN: &str = "--port N, --auth-fixture FILE";

impl Flags {
    /// Parses the flags; fails with a message for the user.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut flags = Self::default();
        while let Some(flag) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("`{flag}` needs a value"));
            match flag.as_str() {
                "--port" => {
                    let text = value()?;
                    let port = text.parse().map_err(|_| format!("`{text}` is not a valid port"))?;
                    flags.port = Some(port);
                }
                "--auth-fixture" => flags.auth_fixture = Some(value()?.into()),
                unknown => return Err(format!("unknown flag `{unknown}`; known: {KNOWN}")),
            }
        }
        if flags.auth_fixture.is_some() && flags.port.is_none() {
            return Err("`--auth-fixture` needs `--port`: stdio has no authentication".to_owned());
        }
        Ok(flags)
    }
}
