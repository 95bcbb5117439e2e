//! The command `mgp secrets`: stores values for `${keyring:NAME}` in the configuration.

use std::io::{self, IsTerminal as _, Read as _};

use clap::Subcommand;
use mgp_discovery::SecretFile;
use serde::Serialize;

use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::output::{ActionReport, Output, Render, print};
use crate::{control, prompt, state};

/// The maximum length of a secret's value on standard input, in bytes.
const MAX_INPUT_BYTES: u64 = 1 << 20;

/// `mgp secrets`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Secrets {
    /// Store a value, typed at the terminal or read from standard input
    #[command(
        after_help = "The values are in a file of the state folder that only you can read.\n\nExample:\n  mgp secrets set github    # in ~/.config/mgp/servers.toml: \"Bearer ${keyring:github}\"\n  pass show github | mgp secrets set github"
    )]
    Set {
        /// Name of the secret
        name: String,
    },
    /// List the names
    Ls,
    /// Delete a value
    Rm {
        /// Name of the secret
        name: String,
    },
}

/// The names of all secrets.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SecretNames(Vec<String>);

impl Render for SecretNames {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.hint("no secrets; store one with `mgp secrets set NAME`");
        }
        for name in &self.0 {
            out.line(name);
        }
    }
}

pub(crate) async fn run(global: &Global, secrets: &Secrets) -> CliResult {
    let file = || state::create_folder(global).map(|folder| SecretFile::in_folder(&folder));
    match secrets {
        Secrets::Ls => print(global, &SecretNames(file()?.names().map_err(Failure::failed)?)),
        Secrets::Set { name } => {
            control::admit_change(global).await?;
            file()?.set(name, &value(name)?).map_err(Failure::failed)?;
            ActionReport::new(&**name, "stored").print(global)
        }
        Secrets::Rm { name } => {
            control::admit_change(global).await?;
            if !file()?.remove(name).map_err(Failure::failed)? {
                let what = format!("there is no secret `{name}`; see `mgp secrets ls`");
                return Err(Failure::failed(what));
            }
            ActionReport::new(&**name, "removed").print(global)
        }
    }
}

/// Reads a value without echo; it is never a command-line argument, which other users could see in the process list.
fn value(name: &str) -> CliResult<String> {
    if io::stdin().is_terminal() {
        return prompt::passphrase(&format!("Value of `{name}`: "));
    }
    let mut text = String::new();
    io::stdin().lock().take(MAX_INPUT_BYTES).read_to_string(&mut text)?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}
