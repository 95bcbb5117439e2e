//! The command `mgp operator`: sets the passphrase that changes require with `operator.proof = "passphrase"`.

use std::time::Duration;

use clap::Subcommand;
use mgp_security::Event;

use crate::args::Global;
use crate::backend;
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::offline_audit::OfflineAudit;
use crate::operator::{MAX_PASSPHRASE_BYTES, MIN_PASSPHRASE_CHARS, PassphraseFile};
use crate::output::ActionReport;
use crate::{prompt, state};

/// The delay after a wrong passphrase, which slows down guessing.
const WRONG_DELAY: Duration = Duration::from_secs(1);

/// `mgp operator`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum Operator {
    /// Set or remove the passphrase, which is asked for on the terminal
    #[command(subcommand)]
    Passphrase(Passphrase),
}

/// `mgp operator passphrase`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum Passphrase {
    /// Set the passphrase, or replace it
    #[command(
        after_help = "Changes need it once your own configuration has operator.proof = \"passphrase\" under [kernel].\n\nExample:\n  mgp operator passphrase set"
    )]
    Set,
    /// Remove the passphrase
    Remove,
}

pub(crate) async fn run(global: &Global, operator: &Operator) -> CliResult {
    let Operator::Passphrase(change) = operator;
    #[cfg(unix)]
    state::refuse_sudo_change(global)?;
    let file = PassphraseFile::in_folder(&state::create_folder(global)?);
    if file.is_set()? {
        if file.verify(&prompt::operator_passphrase()?)? != Some(true) {
            tokio::time::sleep(WRONG_DELAY).await;
            return Err(Failure::failed("wrong passphrase"));
        }
        control::admit_change(global).await?;
    } else {
        // No passphrase is set yet, so ask for none. Refuse a process that a host or a server started, because it must
        // not set the first passphrase.
        control::admit_reader(global).await?;
    }
    let done = match change {
        Passphrase::Set => {
            let new = new_passphrase()?;
            record(global, "operator.passphrase.set").await?;
            file.set(&new)?;
            "set"
        }
        Passphrase::Remove => {
            if !file.is_set()? {
                return Err(Failure::failed("no passphrase is set"));
            }
            record(global, "operator.passphrase.remove").await?;
            file.remove()?;
            "removed"
        }
    };
    ActionReport::new("passphrase", done).print(global)
}

/// Records a change before it is made: a change that cannot be recorded must not be made.
async fn record(global: &Global, method: &str) -> CliResult {
    let audit = OfflineAudit::open(global).await?;
    let event = Event::administered(&backend::operator(), None, method);
    let recorded = audit.sink().record(event.build()).await;
    audit.close().await?;
    Ok(recorded?)
}

fn new_passphrase() -> CliResult<String> {
    let new = prompt::passphrase("New passphrase: ")?;
    if new.chars().count() < MIN_PASSPHRASE_CHARS || new.len() > MAX_PASSPHRASE_BYTES {
        return Err(Failure::usage(format!(
            "a passphrase has at least {MIN_PASSPHRASE_CHARS} characters and at most {MAX_PASSPHRASE_BYTES} bytes"
        )));
    }
    if prompt::passphrase("Again: ")? != new {
        return Err(Failure::failed("the two differ; nothing was changed"));
    }
    Ok(new)
}
