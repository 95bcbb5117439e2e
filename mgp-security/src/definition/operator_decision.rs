//! The decisions of operators about definitions that wait for approval.

use std::collections::HashSet;
use std::sync::Arc;

use mgp_types::mgp::Actor;
use mgp_types::service::{Principal, ServerId};
use mgp_types::store::StoreError;
use mgp_types::{Sha256Hash, Timestamp};

use super::definitions::Definitions;
use super::pin::{Pin, PinKind, PinPair};
use super::refused::DecisionRefused;
use super::review::Finding;
use super::state::HeldDefinition;
use crate::access::{About, AdminCheck, Need};
use crate::audit::Event;
use crate::entries::MAX_ATTEMPTS;
use crate::error::Refusal;
use crate::state::ChangeError;

/// A tool whose definition waits for the decision of an operator, or was rejected by one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PendingDefinition {
    /// The server that lists the tool.
    pub server: ServerId,
    /// The name of the tool.
    pub tool: String,
    /// The definition that waits or was rejected, and the reason why it waits.
    pub held: HeldDefinition,
    /// The time since which the definition waits for a decision, or the time of its rejection.
    pub since: Timestamp,
}

impl Definitions {
    /// Approves the waiting or rejected definition of a tool, if it has the given fingerprint. When this method
    /// returns, the tool can be called.
    ///
    /// # Errors
    /// [`Refusal`] if `by` is not an operator, if no definition with this fingerprint waits, or if the approval cannot
    /// be stored or recorded.
    ///
    /// # Cancel safety
    /// If the future is dropped, the definition may or may not have been approved.
    pub async fn approve(
        &self,
        by: &Principal,
        server: &ServerId,
        tool: &str,
        fingerprint: &Sha256Hash,
        justification: Option<&str>,
    ) -> Result<(), Refusal> {
        self.approve_held(by, server, tool, fingerprint, justification, true).await
    }

    /// Approves the waiting definition of a tool as [`approve`](Self::approve) does, but not a rejected definition.
    /// Thus an operator who saw the definition waiting does not overturn the rejection by another operator.
    ///
    /// # Errors
    /// The same errors as [`approve`](Self::approve). Also an error if an operator has rejected the definition.
    ///
    /// # Cancel safety
    /// The same as for [`approve`](Self::approve).
    pub async fn approve_waiting(
        &self,
        by: &Principal,
        server: &ServerId,
        tool: &str,
        fingerprint: &Sha256Hash,
        justification: Option<&str>,
    ) -> Result<(), Refusal> {
        self.approve_held(by, server, tool, fingerprint, justification, false).await
    }

    async fn approve_held(
        &self,
        by: &Principal,
        server: &ServerId,
        tool: &str,
        fingerprint: &Sha256Hash,
        justification: Option<&str>,
        accepts_rejected: bool,
    ) -> Result<(), Refusal> {
        self.authorise(by, server, "approve_definition").await?;
        // A waiting definition and a rejected definition have the same key in the store, so this key is the right one
        // for both.
        let held_key = Pin::key(server.as_str(), tool, PinKind::Waiting);
        let pin_key = Pin::key(server.as_str(), tool, PinKind::Pinned);
        for _ in 0..MAX_ATTEMPTS {
            let (held, pair) = self.held(server, tool, fingerprint)?;
            if held.kind == PinKind::Rejected && !accepts_rejected {
                let by = held.by.clone().unwrap_or_else(|| "an operator".to_owned());
                return Err(DecisionRefused::Rejected { tool: tool.to_owned(), by }.into());
            }
            let pin = Pin {
                kind: PinKind::Pinned,
                findings: Vec::<Finding>::new(),
                by: Some(by.name().to_owned()),
                at: Timestamp::now(),
                ..Pin::clone(&held)
            };
            let before = pair.pinned.as_ref().map(|pin| pin.fingerprint.as_str());
            let event = Event::definition_approved(by, server, tool, fingerprint)
                .before(&before)
                .justification(justification);
            let writes = vec![(pin_key.clone(), Some(pin)), (held_key.clone(), None)];
            // Store the approval only if the waiting definition is still the same: another operator might have rejected
            // it meanwhile, or the server might have listed another definition.
            let (read, events) = ((held_key.as_str(), &held), vec![event.build()]);
            if self.0.pins.write_unless_changed(read, writes, events).await? {
                return Ok(());
            }
        }
        Err(ChangeError::Store(StoreError::Busy("others change the same definition")).into())
    }

    /// Rejects the waiting definition of a tool, if it has the given fingerprint. The definition no longer waits, and
    /// the tool stays refused until an operator approves the definition after all.
    ///
    /// # Errors
    /// The same errors as [`approve`](Self::approve).
    ///
    /// # Cancel safety
    /// If the future is dropped, the definition may or may not have been rejected.
    pub async fn reject(
        &self,
        by: &Principal,
        server: &ServerId,
        tool: &str,
        fingerprint: &Sha256Hash,
        justification: Option<&str>,
    ) -> Result<(), Refusal> {
        self.authorise(by, server, "reject_definition").await?;
        for _ in 0..MAX_ATTEMPTS {
            let (held, _) = self.held(server, tool, fingerprint)?;
            let pin = Pin {
                kind: PinKind::Rejected,
                by: Some(by.name().to_owned()),
                at: Timestamp::now(),
                ..Pin::clone(&held)
            };
            let event = Event::definition_rejected(by, server, tool, fingerprint)
                .justification(justification);
            let key = Pin::key(server.as_str(), tool, PinKind::Rejected);
            // Store the rejection only if the waiting definition is still the same: another operator might have
            // approved it meanwhile, or the server might have listed another definition.
            if self.0.pins.replace(vec![(key, held, pin)], vec![event.build()]).await? {
                return Ok(());
            }
        }
        Err(ChangeError::Store(StoreError::Busy("others change the same definition")).into())
    }

    /// Returns the definitions that wait for an operator, sorted by server and tool.
    ///
    /// # Errors
    /// [`StoreError`] while the pins cannot be read.
    pub fn waiting(&self) -> Result<Vec<PendingDefinition>, StoreError> {
        self.all_held(PinKind::Waiting)
    }

    /// Returns the definitions that an operator rejected, sorted by server and tool.
    ///
    /// # Errors
    /// [`StoreError`] while the pins cannot be read.
    pub fn rejected(&self) -> Result<Vec<PendingDefinition>, StoreError> {
        self.all_held(PinKind::Rejected)
    }

    /// Returns the first tool, by server and name, that passes a test and whose definition waits for an operator or was
    /// rejected by one. In contrast to [`waiting`](Self::waiting) and [`rejected`](Self::rejected), this method does
    /// not compute the differences between definitions, so it is fast enough for each call of an agent.
    ///
    /// # Errors
    /// [`StoreError`] while the pins cannot be read.
    pub fn find_held(
        &self,
        mut is_wanted: impl FnMut(&str, &str) -> bool,
    ) -> Result<Option<(ServerId, String)>, StoreError> {
        let book = self.0.pins.now()?;
        let wanted = book.held().filter(|pin| is_wanted(&pin.server, &pin.tool));
        let first =
            wanted.min_by(|one, other| (&one.server, &one.tool).cmp(&(&other.server, &other.tool)));
        Ok(first.map(|pin| (ServerId::from(pin.server.as_str()), pin.tool.clone())))
    }

    fn all_held(&self, kind: PinKind) -> Result<Vec<PendingDefinition>, StoreError> {
        let book = self.0.pins.now()?;
        let mut held: Vec<_> = book
            .held()
            .filter(|pin| pin.kind == kind)
            .map(|pin| {
                let server = ServerId::from(pin.server.as_str());
                let pinned = book.get(&server, &pin.tool).and_then(|pair| pair.pinned.clone());
                PendingDefinition {
                    tool: pin.tool.clone(),
                    held: HeldDefinition::waiting(pin, pinned.as_deref(), pin.by.clone()),
                    since: pin.at.clone(),
                    server,
                }
            })
            .collect();
        held.sort_by(|one, other| (&one.server, &one.tool).cmp(&(&other.server, &other.tool)));
        Ok(held)
    }

    /// Removes all stored definitions of a server that is no longer registered, whether approved, waiting or rejected.
    /// The tools that a server of this id lists next are pinned as if they were seen for the first time. Checks no
    /// authority: the caller of this method must have checked it.
    ///
    /// # Errors
    /// [`Refusal`] if the change cannot be stored or recorded; nothing was removed then.
    ///
    /// # Cancel safety
    /// If the future is dropped, the definitions may or may not have been removed.
    pub async fn remove_server(&self, server: &ServerId) -> Result<(), Refusal> {
        let kept = self.0.pins.latest(|pin| pin.server == server.as_str()).await;
        let kept = kept.map_err(ChangeError::Store)?;
        let tools: HashSet<_> = kept.iter().map(|found| found.entry.tool.as_str()).collect();
        if !kept.is_empty() {
            let event = Event::definitions_forgotten(Actor::kernel(), server, tools.len())
                .cause("deregistered")
                .build();
            let gone = kept.iter().map(|found| (found.key.clone(), None)).collect();
            self.0.pins.write(gone, vec![event]).await?;
        }
        self.0.seen().retain(|id, seen| {
            let is_it = id.as_ref() == Some(server);
            // Also forget servers that were refused only because their id resembles the id of the removed server: now
            // they can be admitted.
            seen.is_own() || !(is_it || seen.looks_like(server))
        });
        self.0.publish();
        Ok(())
    }

    /// Checks that the caller is an operator. If not, returns an error and records the attempt.
    async fn authorise(
        &self,
        by: &Principal,
        server: &ServerId,
        method: &'static str,
    ) -> Result<(), Refusal> {
        let check = AdminCheck::without_call(by);
        let Err(refusal) = check.check(Need::Write, method, About::All) else { return Ok(()) };
        check.record_refusal(&**self.0.pins.audit(), Some(server), method, refusal.clone()).await;
        Err(refusal)
    }

    /// Returns the waiting or rejected definition of a tool, if it has the given fingerprint.
    fn held(
        &self,
        server: &ServerId,
        tool: &str,
        fingerprint: &Sha256Hash,
    ) -> Result<(Arc<Pin>, PinPair), Refusal> {
        let book = self.0.pins.now().map_err(ChangeError::Store)?;
        let pair = book.get(server, tool).cloned().unwrap_or_default();
        let Some(held) = pair.held.clone() else {
            let (server, tool) = (server.clone(), tool.to_owned());
            return Err(DecisionRefused::Nothing { server, tool }.into());
        };
        if held.fingerprint != fingerprint.to_string() {
            let (tool, waiting) = (tool.to_owned(), held.fingerprint.clone());
            return Err(DecisionRefused::Another { tool, waiting }.into());
        }
        Ok((held, pair))
    }
}
