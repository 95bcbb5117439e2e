//! Checks the operator's proof for a command that changes the state folder while no kernel runs.
//!
//! The check protects against mistakes only: any process of the same user can write the files directly.

use std::sync::Arc;

use mgp_discovery::{OperatorProof, Sources, Trust};

use super::{OUTSIDE_REMEDY, PASSPHRASE_REMEDY, PassphraseFile, SERVER_REMEDY, TERMINAL_REMEDY};
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::peer::{Place, own_place};
use crate::{prompt, state};

/// Refuses a change if a server started this command, or if the operator has not given the configured proof.
pub(crate) async fn admit_offline(global: &Global) -> CliResult {
    check_place()?;
    let trust = Trust::new(Arc::new(state::db(global).await?));
    let proof = Sources::from_env().load(&trust).await?.config.kernel.operator_proof;
    match (proof, own_place()) {
        (OperatorProof::Passphrase, _) => check_passphrase(global),
        (_, Place::Inside(reason)) => Err(Failure::failed(format!("{reason}; {OUTSIDE_REMEDY}"))),
        (OperatorProof::Terminal, Place::Outside { is_at_terminal: false }) => {
            Err(Failure::failed(TERMINAL_REMEDY))
        }
        _ => Ok(()),
    }
}

/// Refuses a command that a server started.
pub(crate) fn check_place() -> CliResult {
    match own_place() {
        Place::Barred(reason) => Err(Failure::failed(format!("{reason}; {SERVER_REMEDY}"))),
        _ => Ok(()),
    }
}

fn check_passphrase(global: &Global) -> CliResult {
    let file = PassphraseFile::in_folder(&state::create_folder(global)?);
    if !file.is_set()? {
        return Err(Failure::failed(PASSPHRASE_REMEDY));
    }
    match file.verify(&prompt::operator_passphrase()?)? {
        Some(true) => Ok(()),
        _ => Err(Failure::failed("wrong passphrase")),
    }
}
