//! Has the code of sandboxed servers judged (MGP §7, §15.4; checklist C33).
//!
//! Applies to: inbound.

use std::time::Duration;

use tokio::time::timeout;

use super::book::Inner;
use super::program::{Code, code};
use super::record::{Proposal, is_sandboxed};
use super::refused::RegistrationRefused as Refused;
use super::servers::{Script, Verdict};
use crate::error::Error;

/// How long a judge may take.
const PATIENCE: Duration = Duration::from_secs(5);

const REMEDY: &str =
    "have an operator register it with `trust_level` `standard`, or put it into `mgp.toml`";

impl Inner {
    /// Refuses code of a sandboxed server that was not judged to be safe.
    pub(super) async fn judged(&self, proposal: &Proposal) -> Result<(), Error> {
        if !is_sandboxed(&proposal.trust) {
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
            let reason = "nothing here can judge the code of sandboxed servers yet";
            return Err(unavailable(reason.to_owned()).into());
        };
        let Code::Text { language, text } = code else {
            let reason = "what it runs cannot be judged; the command must be an interpreter, and its first argument the script";
            return Err(unavailable(reason.to_owned()).into());
        };
        let script = Script { server: server.clone(), language, text };
        match timeout(PATIENCE, judge.judge(script)).await {
            Ok(Ok(Verdict::Accepted)) => Ok(()),
            Ok(Ok(Verdict::Rejected(violations))) => {
                Err(Refused::Rejected { server, violations }.into())
            }
            Ok(Err(error)) => {
                tracing::error!(%server, %error, "the code of a server could not be judged");
                Err(unavailable("its code could not be judged".to_owned()).into())
            }
            Err(_) => {
                Err(unavailable(format!("its code was not judged within {PATIENCE:?}")).into())
            }
        }
    }
}
