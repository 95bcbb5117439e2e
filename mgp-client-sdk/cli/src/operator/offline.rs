//! Checks the operator's proof for a command that changes the state folder while no kernel runs.
//!
//! The check protects against mistakes only: any process of the same user can write the files directly.

use mgp_discovery::{Config, DiscoveryError, OperatorProof, Sources, Trust};
use mgp_types::store::MemoryStore;

use super::{OUTSIDE_REMEDY, PASSPHRASE_REMEDY, PassphraseFile, SERVER_REMEDY, TERMINAL_REMEDY};
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::peer::{Place, own_place};
use crate::{prompt, state};

/// Refuses a change if a server started this command, or if this cannot be checked. Also refuses a change without the
/// proof that the configuration requires of operators. If a host started this command, refuses the change unless the
/// required proof is the passphrase. Refuses root under `sudo` if the state belongs to another user.
pub(crate) async fn admit_offline(
    global: &Global,
    configs: impl IntoIterator<Item = Sources>,
) -> CliResult {
    check_place()?;
    #[cfg(unix)]
    state::refuse_sudo_change(global)?;
    let mut proof = OperatorProof::None;
    for sources in configs {
        match (configured_proof(&sources).await?, proof) {
            (OperatorProof::None, _) | (_, OperatorProof::Passphrase) => {}
            (stricter, _) => proof = stricter,
        }
    }
    match (proof, own_place()) {
        (OperatorProof::Passphrase, _) => check_passphrase(global),
        (_, Place::Inside(reason)) => Err(Failure::failed(format!("{reason}; {OUTSIDE_REMEDY}"))),
        (OperatorProof::Terminal, Place::Outside { is_at_terminal: false }) => {
            Err(Failure::failed(TERMINAL_REMEDY))
        }
        _ => Ok(()),
    }
}

/// Returns the proof that the user's own configuration, or a named file, requires.
pub(crate) async fn configured_proof(sources: &Sources) -> CliResult<OperatorProof> {
    // Read the configuration without approvals of projects: a project's file then has no effect, so only the user's own
    // files decide which proof is required.
    let no_approvals = Trust::new(std::sync::Arc::new(MemoryStore::new()));
    match sources.load(&no_approvals).await {
        Ok(loaded) => Ok(loaded.config.kernel.operator_proof),
        // Use the defaults, because the named configuration file does not exist yet: the command is about to create it.
        Err(DiscoveryError::Missing { .. }) => Ok(Config::default().kernel.operator_proof),
        Err(error) => Err(error.into()),
    }
}

/// Refuses this command if a server started it.
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
