//! Taking over what a server lists: read, reviewed, pinned where it is new, held back where it changed.
//!
//! Applies to: outbound.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mgp_types::mgp::AuditEvent;
use mgp_types::service::ServerId;
use mgp_types::store::{Change, StoreError};
use mgp_types::{Extras, Hash, Payload, Timestamp};

use super::definitions::Definitions;
use super::inspection::Inspection;
use super::name::{NameFlaw, Shadows};
use super::pin::{Book, Pin, PinKind};
use super::review::Severity;
use super::seen::{Listed, TOOLS_MAX, Whole, standing};
use super::standing::Standing;
use crate::audit::{Event, Flagged};
use crate::state::{ChangeError, Snapshot};

/// How many servers are known at a time; the tools of further ones are not taken over.
const SERVERS_MAX: usize = 1024;

/// How often pins are tried again when another process was first.
const TRIES: usize = 4;

/// How many definitions are read before others get a turn.
const READ_AT_ONCE: usize = 16;

/// Whether tools of a server are taken over.
enum Admitted {
    /// They are our own, and not.
    Own,
    /// They are.
    Well,
    /// They are refused for the name of their server.
    Not(NameFlaw),
}

impl From<Option<NameFlaw>> for Admitted {
    fn from(flaw: Option<NameFlaw>) -> Self {
        flaw.map_or(Self::Well, Self::Not)
    }
}

/// Tools by name, as they were listed now.
type Named = HashMap<Box<str>, Arc<Listed>>;

/// What was read of a list.
struct Read {
    named: Named,
    /// The names of what was not read before.
    fresh: HashSet<Box<str>>,
    /// The hashes of all definitions, in their order.
    hashes: Vec<Hash>,
    /// Whether names were left out for want of room.
    is_crowded: bool,
}

impl Definitions {
    /// Takes over tools that a server lists: new ones are pinned, changed ones wait for an operator.
    ///
    /// # Errors
    /// [`ChangeError`] when the pins cannot be kept or recorded; nothing was taken over then.
    ///
    /// # Cancel safety
    /// Dropping the future takes over nothing, or pins that the next listing finds.
    pub async fn observe(&self, server: &ServerId, tools: &[Payload]) -> Result<(), ChangeError> {
        self.take(server, tools, Whole::No).await.map(drop)
    }

    /// The same, for a list that may be all there is; answers with the hashes of the definitions, none for our own.
    pub(super) async fn take(
        &self,
        server: &ServerId,
        tools: &[Payload],
        whole: Whole,
    ) -> Result<Vec<Hash>, ChangeError> {
        let flaw = match self.admit(server)? {
            Admitted::Own => return Ok(Vec::new()),
            Admitted::Well => None,
            Admitted::Not(flaw) => Some(flaw),
        };
        let Read { named, fresh, hashes, is_crowded } = self.read(server, tools).await?;
        if flaw.is_none() {
            self.pin(server, &named, &fresh).await?;
        } else if let Some(flaw) = flaw.as_ref().filter(|_| !self.0.knows(server)) {
            // It is told once.
            let flagged =
                Event::definition_flagged(server, None, Flagged::Refused, &flaw.to_string());
            self.0.pins.commit(Change::new(), vec![flagged.build()]).await?;
        }
        let mut seen = self.0.seen();
        let known = seen.entry(Some(server.clone())).or_default();
        if !known.is_own() {
            known.flaw = flaw;
            known.take(named.into_iter().collect(), whole);
            if is_crowded {
                known.crowded();
            }
        }
        drop(seen);
        self.0.publish();
        Ok(hashes)
    }

    /// Whether tools of a server are taken over at all, and what is wrong with its id.
    fn admit(&self, server: &ServerId) -> Result<Admitted, ChangeError> {
        let book = self.0.pins.now()?;
        let seen = self.0.seen();
        match seen.get(&Some(server.clone())) {
            Some(known) if known.is_own() => return Ok(Admitted::Own),
            Some(known) => return Ok(known.flaw.clone().into()),
            None if seen.len() >= SERVERS_MAX => {
                return Err(StoreError::Busy("too many servers list their tools").into());
            }
            None => {}
        }
        // A server with pins was let in before.
        if book.tools(server).next().is_some() {
            return Ok(Admitted::Well);
        }
        let others = seen.iter().filter(|(_, seen)| seen.flaw.is_none() && !seen.is_own());
        let ids = others.filter_map(|(id, _)| id.as_ref()).map(ServerId::as_str);
        Ok(NameFlaw::check_server(server.as_str(), ids.chain(book.servers())).err().into())
    }

    /// Reads definitions that were not read before.
    ///
    /// What is pinned stays, so a server that lists other names each time would fill the store: beyond the bound a name
    /// that is not known is left out, and with it all names nobody knows are refused.
    async fn read(&self, server: &ServerId, tools: &[Payload]) -> Result<Read, ChangeError> {
        let book = self.0.pins.now()?;
        let mut room = TOOLS_MAX.saturating_sub(book.tools(server).count());
        let known: HashMap<Hash, Arc<Listed>> = {
            let seen = self.0.seen();
            let listed = seen.get(&Some(server.clone())).map(|seen| &seen.listed);
            listed.into_iter().flatten().map(|(_, one)| (one.raw, Arc::clone(one))).collect()
        };
        let shadows = self.shadows(server);
        let (mut named, mut fresh) = (Named::new(), HashSet::new());
        let (mut hashes, mut is_crowded) = (Vec::with_capacity(tools.len()), false);
        for raw in tools {
            let hash = Hash::of(raw.as_str().as_bytes());
            hashes.push(hash);
            let listed = if let Some(listed) = known.get(&hash) {
                Arc::clone(listed)
            } else {
                if fresh.len() % READ_AT_ONCE == READ_AT_ONCE - 1 {
                    tokio::task::yield_now().await;
                }
                Arc::new(Listed::new(raw, hash, |name| shadows.find(name)))
            };
            // A tool without a name can neither be called nor refused.
            let Some(name) = name_of(raw, &listed.inspection) else { continue };
            if book.get(server, &name).is_none() && !named.contains_key(&name) {
                if room == 0 {
                    is_crowded = true;
                    continue;
                }
                room -= 1;
            }
            if !known.contains_key(&hash) {
                fresh.insert(name.clone());
            }
            match named.get(&name) {
                Some(other) if other.raw != listed.raw => {
                    named.insert(name, Arc::new(Listed::twice(hash)));
                }
                _ => drop(named.insert(name, listed)),
            }
        }
        Ok(Read { named, fresh, hashes, is_crowded })
    }

    /// The names of the tools of all other servers that can be called.
    fn shadows(&self, server: &ServerId) -> Shadows {
        let table = self.0.table();
        let others = table.servers.iter().filter(|(id, _)| *id != server);
        let names = others.flat_map(|(id, tools)| {
            // What is held back itself is nobody to be taken for.
            let pinned = tools.named.iter().filter(|(_, known)| known.standing == Standing::Pinned);
            pinned.map(move |(name, _)| (id.as_str(), &**name))
        });
        Shadows::of(names)
    }

    /// Keeps what is new of some tools, with the events that tell of it.
    async fn pin(
        &self,
        server: &ServerId,
        named: &Named,
        fresh: &HashSet<Box<str>>,
    ) -> Result<(), ChangeError> {
        for _ in 0..TRIES {
            let (change, events) = self.pins(server, named, fresh)?;
            if change.is_empty() && events.is_empty() {
                return Ok(());
            }
            match self.0.pins.commit(change, events).await {
                // Another process was first: see what it pinned.
                Err(ChangeError::Store(StoreError::Conflict { .. })) => self.0.pins.open().await?,
                done => return done.map(drop),
            }
        }
        Err(StoreError::Busy("others keep changing the same pins").into())
    }

    fn pins(
        &self,
        server: &ServerId,
        named: &Named,
        fresh: &HashSet<Box<str>>,
    ) -> Result<(Change, Vec<AuditEvent>), ChangeError> {
        let book = self.0.pins.now()?;
        let mut change = Change::new();
        let mut events = Vec::new();
        for (name, listed) in named {
            let pair = book.get(server, name);
            let held = pair.and_then(|pair| pair.held.as_ref());
            let standing = standing(&listed.inspection, pair);
            let key = |kind| Pin::key(server.as_str(), name, kind);
            match &standing {
                Standing::Unseen => {
                    let Some(pin) = record(server, name, PinKind::Pinned, &listed.inspection)
                    else {
                        continue;
                    };
                    change = put(change.expect(Book::SPACE, key(PinKind::Pinned), None), &pin)?;
                    events.extend(
                        listed
                            .inspection
                            .fingerprint()
                            .map(|hash| Event::definition_pinned(server, name, &hash).build()),
                    );
                }
                Standing::Pinned => {
                    // It is again what it was.
                    if held.is_some_and(|held| held.kind == PinKind::Waiting) {
                        change = change.remove(Book::SPACE, key(PinKind::Waiting));
                    }
                }
                Standing::Changed(now) | Standing::Flagged(now) => {
                    let fingerprint = now.fingerprint.to_string();
                    if held.is_some_and(|held| held.fingerprint == fingerprint) {
                        continue;
                    }
                    if let Some(pin) = record(server, name, PinKind::Waiting, &listed.inspection) {
                        change = put(change, &pin)?;
                    }
                    events.push(match &now.pinned {
                        Some(before) => Event::definition_changed(
                            server,
                            name,
                            before,
                            &now.fingerprint,
                            &now.differences,
                        )
                        .build(),
                        None => flagged(server, name, &listed.inspection),
                    });
                }
                Standing::Refused(_) if fresh.contains(name) => {
                    events.push(flagged(server, name, &listed.inspection));
                }
                Standing::Refused(_) => {}
            }
        }
        Ok((change, events))
    }

    /// Notes that a server was asked for its tools, whatever came of it.
    pub(super) fn tried(&self, server: &ServerId) {
        let mut seen = self.0.seen();
        if seen.len() < SERVERS_MAX || seen.contains_key(&Some(server.clone())) {
            seen.entry(Some(server.clone())).or_default().tried();
        }
        drop(seen);
        self.0.publish();
    }
}

fn put(change: Change, pin: &Pin) -> Result<Change, ChangeError> {
    let key = Pin::key(&pin.server, &pin.tool, pin.kind);
    Ok(change.put(Book::SPACE, key, Payload::of(pin).map_err(ChangeError::Encode)?))
}

/// The record of a definition; none where it cannot be read.
fn record(server: &ServerId, tool: &str, kind: PinKind, what: &Inspection) -> Option<Pin> {
    let shown = what.shown.as_ref()?;
    Some(Pin {
        server: server.to_string(),
        tool: tool.to_owned(),
        kind,
        fingerprint: shown.fingerprint.to_string(),
        shown: shown.text.clone(),
        findings: what.findings().to_vec(),
        by: None,
        at: Timestamp::now(),
    })
}

fn flagged(server: &ServerId, tool: &str, what: &Inspection) -> AuditEvent {
    let kind = match what.severity() {
        Some(Severity::Refused) => Flagged::Refused,
        _ => Flagged::Noted,
    };
    let found: Vec<_> = what.findings().iter().map(ToString::to_string).collect();
    let mut event = Event::definition_flagged(server, Some(tool), kind, &found.join("; "));
    if let Some(hash) = what.fingerprint() {
        event = event.detail("hash", &hash.to_string());
    }
    event.build()
}

/// The name of a tool, where it can be read at all.
fn name_of(raw: &Payload, inspection: &Inspection) -> Option<Box<str>> {
    match &inspection.shown {
        Some(shown) => Some(shown.tool.name.as_str().into()),
        None => raw.get::<Extras>().ok()?.get("name")?.get::<String>().ok().map(Into::into),
    }
}
