//! Decides about each process that connects to the local socket: its role, and whether it has given the required proof.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_discovery::{OperatorProof, Sources};
use mgp_kernel::Kernel;
use mgp_security::Event;
use mgp_types::service::{CredentialGrant, Principal};
use mgp_types::{Backoff, ErrorCode, RpcError};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{OUTSIDE_REMEDY, PASSPHRASE_REMEDY, PassphraseFile, SERVER_REMEDY, TERMINAL_REMEDY};
use crate::commands::connect::is_connected;
use crate::peer::{Hosts, Peer, Place};
use crate::socket_hello::{Hello, HelloReply, HelloRole};

/// The name under which the audit log records a refused connection of an operator or an agent.
const ATTEMPT: &str = "operator.connect";

/// The number of wrong passphrases in a row that cause no waiting time.
const FREE_ATTEMPTS: u32 = 2;

/// The periods during which passphrases are refused after repeated wrong ones; each is longer than the one before.
const ATTEMPT_DELAYS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));

/// An accepted process at the local socket, with its principal.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) principal: Principal,
    /// The reduced rights of an operator who gave no proof and so may only read; `None` for full rights.
    pub(crate) pass: Option<CredentialGrant>,
}

/// The admission check for processes that connect to the local socket.
#[derive(Debug)]
pub(crate) struct OperatorGate {
    hosts: Hosts,
    /// The state folder, which has the records of the hosts whose files `mgp connect` has changed.
    folder: PathBuf,
    passphrase: PassphraseFile,
    /// The configuration files that the kernel follows, whether or not they exist.
    sources: Sources,
    /// The number of wrong passphrases in a row, and the waiting time that they cause. The lock is held while a
    /// passphrase is checked, so that only one is checked at a time.
    attempts: Mutex<Attempts>,
}

#[derive(Debug)]
struct Attempts {
    failed: u32,
    delays: Backoff,
    closed_until: Option<Instant>,
}

/// The refusal of a process that connected, with the reply to that process.
struct Refused {
    principal: Principal,
    /// The cause for the audit log; `None` if the kernel only asks for the passphrase, which is not recorded.
    cause: Option<&'static str>,
    reply: HelloReply,
}

impl OperatorGate {
    pub(crate) fn new(folder: &Path, sources: Sources) -> Self {
        Self {
            hosts: Hosts::default(),
            folder: folder.to_owned(),
            passphrase: PassphraseFile::in_folder(folder),
            sources,
            attempts: Mutex::new(Attempts {
                failed: 0,
                delays: ATTEMPT_DELAYS,
                closed_until: None,
            }),
        }
    }

    /// Records a known host: the process that started this kernel and is connected to it over stdio.
    pub(crate) fn admit_own_host(&self, agent: &str) {
        self.hosts.admit_own_host(agent);
    }

    /// Admits a process, or records the refusal in the audit log and returns the reply for the process.
    pub(crate) async fn admit(
        &self,
        kernel: &Kernel,
        peer: &Peer,
        hello: &Hello<'_>,
    ) -> Result<Admission, HelloReply> {
        let decided = match hello.role() {
            HelloRole::Agent { name, is_shim } => self.admit_agent(peer, name, is_shim),
            HelloRole::Operator { file: Some(file), .. } if !self.follows(file) => {
                return Err(HelloReply::unrelated());
            }
            HelloRole::Operator { changes, passphrase, .. } => {
                let principal = through(Principal::local().operator(), peer);
                let proof = kernel.operator_proof();
                self.admit_operator(peer, principal, proof, changes, passphrase).await
            }
        };
        let Refused { principal, cause, reply } = match decided {
            Ok(admission) => return Ok(admission),
            Err(refused) => *refused,
        };
        if let Some(cause) = cause {
            record(kernel, &principal, cause).await;
        }
        Err(reply)
    }

    /// Returns whether a file is one of the kernel's configuration files; `file` is its real path.
    fn follows(&self, file: &str) -> bool {
        self.sources.files().any(|own| real_path(own).to_string_lossy() == file)
    }

    fn admit_agent(
        &self,
        peer: &Peer,
        name: &str,
        is_shim: bool,
    ) -> Result<Admission, Box<Refused>> {
        let principal = Principal::local().agent(name);
        let is_connected = |host: &str| is_connected(&self.folder, host);
        match self.hosts.admit_agent(peer, name, is_shim, is_connected) {
            Ok(()) => Ok(Admission { principal, pass: None }),
            Err(reason) => {
                let reply = HelloReply::refused(reason);
                Err(Box::new(Refused {
                    principal: through(principal, peer),
                    cause: Some("agent name"),
                    reply,
                }))
            }
        }
    }

    async fn admit_operator(
        &self,
        peer: &Peer,
        principal: Principal,
        proof: OperatorProof,
        changes: bool,
        passphrase: Option<&str>,
    ) -> Result<Admission, Box<Refused>> {
        let place = self.hosts.place(peer);
        let refuse = |cause, reason: &str, remedy: &str| {
            let reply = HelloReply::refused(format!("{reason}; {remedy}"));
            Err(Box::new(Refused { principal: principal.clone(), cause: Some(cause), reply }))
        };
        let is_inside = matches!(place, Place::Inside(_));
        match place {
            Place::Barred(reason) => return refuse("inside server", &reason, SERVER_REMEDY),
            Place::Inside(reason) if proof != OperatorProof::Passphrase => {
                return refuse("inside host", &reason, OUTSIDE_REMEDY);
            }
            // Let a process outside of all hosts and servers read without a proof, but with reduced rights.
            Place::Outside { .. } if proof != OperatorProof::None && !changes => {
                let pass = Some(CredentialGrant::new(["admin.read"], || true));
                return Ok(Admission { principal, pass });
            }
            Place::Outside { is_at_terminal: false } if proof == OperatorProof::Terminal => {
                let reason = "this process is not in the foreground of a terminal";
                return refuse("no terminal", reason, TERMINAL_REMEDY);
            }
            Place::Outside { .. } | Place::Inside(_) => {}
        }
        if (is_inside || proof == OperatorProof::Passphrase)
            && let Err((cause, reply)) = self.check_passphrase(passphrase).await
        {
            return Err(Box::new(Refused { principal, cause, reply }));
        }
        Ok(Admission { principal, pass: None })
    }

    /// Checks a passphrase. After several wrong passphrases, refuses all attempts for a time that grows with each
    /// failure.
    async fn check_passphrase(
        &self,
        passphrase: Option<&str>,
    ) -> Result<(), (Option<&'static str>, HelloReply)> {
        let Some(passphrase) = passphrase.map(str::to_owned) else {
            return Err(match self.passphrase.is_set() {
                Ok(true) => (None, HelloReply::wants_passphrase()),
                Ok(false) => (Some("no passphrase"), HelloReply::refused(PASSPHRASE_REMEDY)),
                Err(failure) => (Some("no passphrase"), HelloReply::refused(failure.to_string())),
            });
        };
        let mut attempts = self.attempts.lock().await;
        if let Some(left) = attempts.closed_for() {
            let left = left.as_secs() + 1;
            let reason = format!("too many wrong passphrases; try again in {left} s");
            return Err((Some("too many attempts"), HelloReply::refused(reason)));
        }
        let file = self.passphrase.clone();
        let verified = tokio::task::spawn_blocking(move || file.verify(&passphrase)).await;
        match verified {
            Ok(Ok(Some(true))) => {
                attempts.succeeded();
                Ok(())
            }
            Ok(Ok(Some(false))) => {
                attempts.count_failure();
                Err((Some("wrong passphrase"), HelloReply::refused("wrong passphrase")))
            }
            Ok(Ok(None)) => Err((Some("no passphrase"), HelloReply::refused(PASSPHRASE_REMEDY))),
            Ok(Err(failure)) => {
                Err((Some("no passphrase"), HelloReply::refused(failure.to_string())))
            }
            Err(_) => {
                let reply = HelloReply::refused("the passphrase cannot be checked; try again");
                Err((Some("no passphrase"), reply))
            }
        }
    }
}

impl Attempts {
    /// Returns how long attempts are still refused; `None` if they are accepted now.
    fn closed_for(&self) -> Option<Duration> {
        self.closed_until?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    fn succeeded(&mut self) {
        self.failed = 0;
        self.delays.reset();
        self.closed_until = None;
    }

    fn count_failure(&mut self) {
        self.failed = self.failed.saturating_add(1);
        if self.failed > FREE_ATTEMPTS {
            self.closed_until = Some(Instant::now() + self.delays.next_delay());
        }
    }
}

/// Returns the path of a file with its symbolic links resolved; the file itself need not exist.
pub(super) fn real_path(file: &Path) -> PathBuf {
    let in_real_folder = || {
        let folder = dunce::canonicalize(file.parent()?).ok()?;
        Some(folder.join(file.file_name()?))
    };
    let real = dunce::canonicalize(file).ok().or_else(in_real_folder);
    real.unwrap_or_else(|| file.to_owned())
}

fn through(principal: Principal, peer: &Peer) -> Principal {
    match peer.process() {
        Some(process) => principal.through(process.clone()),
        None => principal,
    }
}

async fn record(kernel: &Kernel, principal: &Principal, cause: &'static str) {
    let error = RpcError::new(ErrorCode::PERMISSION_DENIED, "refused at the local socket");
    let event = Event::administration_refused(principal, None, ATTEMPT, &error).cause(cause);
    let process = principal.process();
    tracing::warn!(?principal, ?process, cause, "denied at the local socket");
    if let Err(error) = kernel.governance().audit().record(event.build()).await {
        // The connection is refused even if the refusal cannot be recorded.
        tracing::error!(%error, "a refused connection could not be recorded");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn wrong_passphrases_close_the_gate_for_longer_and_longer() {
        let mut attempts = Attempts { failed: 0, delays: ATTEMPT_DELAYS, closed_until: None };
        let mut fail = || {
            attempts.count_failure();
            attempts.closed_for().map_or(0, |left| left.as_secs())
        };
        assert_eq!([fail(), fail(), fail(), fail(), fail()], [0, 0, 1, 2, 4]);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(attempts.closed_for(), None);
        attempts.succeeded();
        attempts.count_failure();
        assert_eq!(attempts.closed_for(), None);
    }
}
