//! Submits the code of sandboxed servers to a judge (MGP §7, §15.4).

use std::time::Duration;

use tokio::time::timeout;

use super::program::{Code, code};
use super::record::{Proposal, is_sandboxed};
use super::refusal::RegistrationError as Refused;
use super::registrations::RegistrationState;
use super::servers::{CodeVerdict, JudgedScript};
use crate::error::DiscoveryError;

/// The maximum time that a code judge may take for a script.
const JUDGE_TIMEOUT: Duration = Duration::from_secs(5);

const REMEDY: &str =
    "ask an operator to register it with `trust_level` `standard`, or to add it to `mgp.toml`";

impl RegistrationState {
    /// Asks the judge about the code of a sandboxed server; returns an error unless the judge accepts it. A server that
    /// is not sandboxed or has no code of its own needs no judgement.
    pub(super) async fn judged(&self, proposal: &Proposal) -> Result<(), DiscoveryError> {
        // Do not judge a package of a registry: the caller did not write the package's code, and the code is not on
        // this machine yet.
        if !is_sandboxed(&proposal.trust) || proposal.published.is_some() {
            return Ok(());
        }
        let server = proposal.server();
        let unavailable = |reason: String| Refused::Unavailable {
            server: server.clone(),
            reason,
            remedy: REMEDY,
        };
        let seen = proposal.clone();
        let code = self.blocking(&server, move |config| code(&seen, config)).await??;
        if let Code::None = code {
            return Ok(());
        }
        let Some(judge) = &self.judge else {
            let reason = "this kernel cannot judge the code of sandboxed servers yet";
            return Err(unavailable(reason.to_owned()).into());
        };
        let Code::Text { language, text } = code else {
            let reason = "its code cannot be judged; the command must be an interpreter other than \
                `bun`, and its first argument the script: a file that exists, with a path that is \
                absolute or begins at `cwd`, by default the home folder";
            return Err(unavailable(reason.to_owned()).into());
        };
        let script = JudgedScript { server: server.clone(), language, text };
        match timeout(JUDGE_TIMEOUT, judge.judge(script)).await {
            Ok(Ok(CodeVerdict::Accepted)) => Ok(()),
            Ok(Ok(CodeVerdict::Rejected(body))) => Err(Refused::Rejected { server, body }.into()),
            Ok(Err(error)) => {
                tracing::error!(%server, %error, "the code of a server could not be judged");
                Err(unavailable("its code could not be judged".to_owned()).into())
            }
            Err(_) => {
                let limit = mgp_types::duration_words(JUDGE_TIMEOUT);
                Err(unavailable(format!("its code was not judged within {limit}")).into())
            }
        }
    }
}
