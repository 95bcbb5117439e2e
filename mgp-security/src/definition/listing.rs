//! Processing of the tool lists that servers send. Each definition is read and reviewed; a new definition is pinned,
//! and a changed definition waits for an operator.

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use mgp_types::mgp::AuditEvent;
use mgp_types::service::ServerId;
use mgp_types::store::{Change, StoreError};
use mgp_types::{Extras, Payload, Sha256Hash, Timestamp};

use super::definitions::Definitions;
use super::inspection::Inspection;
use super::name::{NameFlaw, Shadows};
use super::pin::{Pin, PinKind, PinTable};
use super::review::Severity;
use super::server_listing::{ListExtent, ListedTool, ServerListing, TOOLS_MAX, standing};
use super::state::{DefinitionState, HeldDefinition};
use crate::audit::{DefinitionFlag, Event};
use crate::state::{ChangeError, Snapshot};

/// The maximum number of servers whose lists are stored; lists of further servers are refused with an error.
const SERVERS_MAX: usize = 1024;

/// The maximum number of attempts to store pins if other processes change them at the same time.
const TRIES: usize = 4;

/// The number of bytes of definitions that are processed before yielding to other tasks. The review of this many bytes
/// of short definitions takes some 10 ms in a release build.
const READ_AT_ONCE: usize = 4 * 1024;

/// The result of deciding whether the tools of a server are pinned.
pub(super) enum Admitted {
    /// The tools belong to this process and are not pinned.
    Own,
    /// The server is admitted, so its tools are pinned.
    Well,
    /// The server is refused because of a flaw of its id. Contains the flaw if no audit event has recorded it yet.
    Not(Option<NameFlaw>),
}

/// The tools of the current list, by name.
type ToolsByName = HashMap<Box<str>, Arc<ListedTool>>;

/// The content of a list after its definitions were parsed and reviewed.
struct ReadList {
    named: ToolsByName,
    /// The names of the tools whose definitions were not read before.
    fresh: HashSet<Box<str>>,
    /// The hashes of all listed definitions, in the order of the list.
    hashes: Vec<Sha256Hash>,
    /// `true` if tools were left out because the server reached the maximum number of tool names.
    is_crowded: bool,
}

impl Definitions {
    /// Processes some of the tools that a server lists. New definitions are pinned; changed definitions wait for an
    /// operator.
    ///
    /// # Errors
    /// [`ChangeError`] if the pins cannot be stored or recorded; the list has no effect then.
    ///
    /// # Cancel safety
    /// If the future is dropped, either the list has no effect, or its new pins are stored and the next listing uses
    /// them.
    pub async fn observe(&self, server: &ServerId, tools: &[Payload]) -> Result<(), ChangeError> {
        self.take(server, tools, ListExtent::Page).await.map(drop)
    }

    /// Processes a list and returns the hashes of its definitions. For tools of this process, the result is empty.
    pub(super) async fn take(
        &self,
        server: &ServerId,
        tools: &[Payload],
        extent: ListExtent,
    ) -> Result<Vec<Sha256Hash>, ChangeError> {
        let admitted = self.let_in(server).await?;
        if let Admitted::Own = admitted {
            return Ok(Vec::new());
        }
        let ReadList { named, fresh, hashes, is_crowded } = self.read(server, tools).await?;
        if let Admitted::Well = admitted {
            self.pin(server, &named, &fresh).await?;
        }
        // If the server was removed meanwhile, this list is discarded; the server's next list is processed as usual.
        if let Some(known) = self.0.seen().get_mut(&Some(server.clone()))
            && !known.is_own()
        {
            known.take(named.into_iter().collect(), extent);
            if is_crowded {
                known.crowded();
            }
        }
        self.0.publish();
        Ok(hashes)
    }

    /// Checks whether a server is admitted, and records its refusal once.
    async fn let_in(&self, server: &ServerId) -> Result<Admitted, ChangeError> {
        let admitted = self.admit(server)?;
        if let Admitted::Not(Some(flaw)) = &admitted {
            let flagged =
                Event::definition_flagged(server, None, DefinitionFlag::Refused, &flaw.to_string());
            self.0.pins.commit(Change::new(), vec![flagged.build()]).await?;
            if let Some(known) = self.0.seen().get_mut(&Some(server.clone())) {
                known.is_flaw_recorded = true;
            }
        }
        Ok(admitted)
    }

    /// Returns the flaw of a server's id that prevents the use of its tools. If the server has not listed any tools
    /// yet, checks its id now.
    ///
    /// ```
    /// use mgp_security::{Definitions, NameFlaw, Policies};
    /// use mgp_types::service::ServerId;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let definitions = Definitions::in_memory(Policies::default());
    /// definitions.open().await.unwrap();
    /// assert_eq!(definitions.flaw(&ServerId::from("files")), None);
    /// assert!(matches!(definitions.flaw(&ServerId::from("kernel")), Some(NameFlaw::Reserved(_))));
    /// # });
    /// ```
    #[must_use]
    pub fn flaw(&self, server: &ServerId) -> Option<NameFlaw> {
        let book = self.0.pins.now().ok()?;
        let seen = self.0.seen();
        match seen.get(&Some(server.clone())) {
            Some(known) => known.flaw.clone(),
            None => flaw(server, &seen, &book),
        }
    }

    /// Decides whether the tools of a server are pinned or refused.
    ///
    /// The result is stored immediately, so that only the first of two servers with similar ids is admitted.
    pub(super) fn admit(&self, server: &ServerId) -> Result<Admitted, ChangeError> {
        let book = self.0.pins.now()?;
        let mut seen = self.0.seen();
        if !seen.contains_key(&Some(server.clone())) {
            if seen.len() >= SERVERS_MAX {
                return Err(StoreError::Busy("too many servers list their tools").into());
            }
            let flaw = flaw(server, &seen, &book);
            seen.insert(Some(server.clone()), ServerListing::of(flaw));
        }
        Ok(match seen.get(&Some(server.clone())) {
            Some(known) if known.is_own() => Admitted::Own,
            Some(ServerListing { flaw: Some(_), is_flaw_recorded: true, .. }) => {
                Admitted::Not(None)
            }
            Some(ServerListing { flaw: Some(flaw), .. }) => Admitted::Not(Some(flaw.clone())),
            _ => Admitted::Well,
        })
    }

    /// Parses and reviews those definitions of a list that are new.
    ///
    /// Pins are never removed automatically, so a server that lists new names each time could fill the store. Once
    /// `TOOLS_MAX` names are stored, new names are left out of the list, and calls of them are refused.
    async fn read(&self, server: &ServerId, tools: &[Payload]) -> Result<ReadList, ChangeError> {
        let book = self.0.pins.now()?;
        let mut room = TOOLS_MAX.saturating_sub(book.tools(server).count());
        let before = self.known(server);
        // Computed on demand, because most lists contain no new definition.
        let shadows = LazyCell::new(|| self.shadows(server, &book));
        let own = LazyCell::new(|| OwnNames::of(tools));
        let admitted = admitted(&self.0.seen());
        let is_known = |id: &str| self.0.is_known(id, &admitted, &book);
        let mut read = 0;
        let (mut named, mut fresh) = (ToolsByName::new(), HashSet::new());
        let (mut hashes, mut is_crowded) = (Vec::with_capacity(tools.len()), false);
        for raw in tools {
            let hash = Sha256Hash::digest(raw.as_str().as_bytes());
            hashes.push(hash);
            // The lock file can change, so the restriction is checked for known definitions too.
            let reason = self.restriction(server, raw);
            let known = before.get(&hash);
            let known = known.filter(|known| known.inspection.restriction() == reason.as_deref());
            let listed = if let Some(listed) = known {
                Arc::clone(listed)
            } else {
                read += raw.as_str().len();
                if read > READ_AT_ONCE {
                    read = 0;
                    tokio::task::yield_now().await;
                }
                let flaw = |name: &str| {
                    let owned = NameFlaw::check_owner(server, name, is_known);
                    owned.err().or_else(|| shadows.find(name))
                };
                let is_of_another = |word: &str| shadows.has(word) && !own.contains(word);
                let is_own = |word: &str| own.has_end(word) && !shadows.has(word);
                let mut listed = ListedTool::new(raw, hash, flaw, is_of_another, is_own);
                if let Some(reason) = &reason {
                    listed.inspection.restrict(reason);
                }
                Arc::new(listed)
            };
            // A tool without a name cannot be called, so it is skipped.
            let Some(name) = name_of(raw, &listed.inspection) else { continue };
            if book.get(server, &name).is_none() && !named.contains_key(&name) {
                if room == 0 {
                    is_crowded = true;
                    continue;
                }
                room -= 1;
            }
            let (listed, is_fresh) = entry(named.get(&name), listed, known.is_none(), &before);
            if is_fresh {
                fresh.insert(name.clone());
            } else {
                fresh.remove(&name);
            }
            named.insert(name, listed);
        }
        Ok(ReadList { named, fresh, hashes, is_crowded })
    }

    /// Returns the definitions that a server has listed, by the hashes of their JSON.
    fn known(&self, server: &ServerId) -> HashMap<Sha256Hash, Arc<ListedTool>> {
        let seen = self.0.seen();
        let listed = seen.get(&Some(server.clone())).map(|seen| &seen.listed);
        listed.into_iter().flatten().map(|(_, one)| (one.raw, Arc::clone(one))).collect()
    }

    /// Returns tool names of all other servers: the names of their callable tools and, for a server that has not listed
    /// any tools yet, the names of its pinned tools.
    fn shadows(&self, server: &ServerId, book: &PinTable) -> Shadows {
        let table = self.0.table();
        let others = table.servers.iter().filter(|(id, _)| *id != server);
        let names = others.flat_map(|(id, tools)| {
            // Only callable tools count. A tool that waits for an operator cannot be called, so a tool of another
            // server with the same name deceives no caller.
            let pinned =
                tools.named.iter().filter(|(_, known)| known.standing == DefinitionState::Pinned);
            pinned.map(move |(name, _)| (id.as_str(), &**name))
        });
        let silent =
            book.servers().filter(|id| *id != server.as_str() && table.servers.get(id).is_none());
        let stored = silent.flat_map(|id| book.pinned(id).map(move |name| (id, name)));
        Shadows::of(names.chain(stored))
    }

    /// Stores new pins and waiting definitions, together with the audit events about them.
    async fn pin(
        &self,
        server: &ServerId,
        named: &ToolsByName,
        fresh: &HashSet<Box<str>>,
    ) -> Result<(), ChangeError> {
        for _ in 0..TRIES {
            let (change, mut events) = self.pins(server, named, fresh)?;
            let change = self.extend_pins(server, named, change, &mut events).await?;
            if change.is_empty() && events.is_empty() {
                return Ok(());
            }
            match self.0.pins.commit(change, events).await {
                // Another process changed the pins first: read what it stored, then retry.
                Err(ChangeError::Store(StoreError::Conflict { .. })) => self.0.pins.open().await?,
                done => return done.map(drop),
            }
        }
        Err(StoreError::Busy("others keep changing the same pins").into())
    }

    fn pins(
        &self,
        server: &ServerId,
        named: &ToolsByName,
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
                DefinitionState::Unseen => {
                    let Some(pin) = record(server, name, PinKind::Pinned, &listed.inspection)
                    else {
                        continue;
                    };
                    change = put(
                        change.expect_revision(PinTable::SPACE, key(PinKind::Pinned), None),
                        &pin,
                    )?;
                    events.extend(
                        listed
                            .inspection
                            .fingerprint()
                            .map(|hash| Event::definition_pinned(server, name, &hash).build()),
                    );
                }
                DefinitionState::Pinned => {
                    // The server lists the pinned definition again, so the waiting definition is discarded.
                    if held.is_some_and(|held| held.kind == PinKind::Waiting) {
                        change = change.remove(PinTable::SPACE, key(PinKind::Waiting));
                    }
                }
                DefinitionState::Changed(now) | DefinitionState::Flagged(now) => {
                    let fingerprint = now.fingerprint.to_string();
                    if now.rejected_by.is_some()
                        || held.is_some_and(|held| held.fingerprint == fingerprint)
                    {
                        continue;
                    }
                    if let Some(pin) = record(server, name, PinKind::Waiting, &listed.inspection) {
                        change = put(change, &pin)?;
                    }
                    events.push(held_event(server, name, now, &listed.inspection));
                }
                DefinitionState::Refused(_) if fresh.contains(name) => {
                    events.push(flagged(server, name, &listed.inspection));
                }
                DefinitionState::Refused(_) => {}
            }
        }
        Ok((change, events))
    }

    /// Adds to a change an updated pin for each tool that is now listed with further members of `_meta`. These members
    /// only add checks, so no operator is asked; a later list without them is a change of the definition.
    async fn extend_pins(
        &self,
        server: &ServerId,
        named: &ToolsByName,
        mut change: Change,
        events: &mut Vec<AuditEvent>,
    ) -> Result<Change, ChangeError> {
        let book = self.0.pins.now()?;
        let extended: HashMap<&str, &Inspection> = named
            .iter()
            .filter_map(|(name, listed)| {
                let (pair, inspection) = (book.get(server, name)?, &listed.inspection);
                let lacks = inspection.extends(pair.pinned.as_ref()?)
                    && standing(inspection, Some(pair)) == DefinitionState::Pinned;
                lacks.then_some((&**name, inspection))
            })
            .collect();
        if extended.is_empty() {
            return Ok(change);
        }
        let is_pin = |pin: &Pin| pin.kind == PinKind::Pinned && pin.server == server.as_str();
        for found in self.0.pins.latest(is_pin).await? {
            // An operator may have approved another definition meanwhile, so check again that the listed definition
            // only adds checks to the stored one.
            let inspection = extended.get(&*found.entry.tool);
            let inspection = inspection.filter(|inspection| inspection.extends(&found.entry));
            let Some(shown) = inspection.and_then(|inspection| inspection.shown.as_ref()) else {
                continue;
            };
            let pin = Pin {
                fingerprint: shown.fingerprint.to_string(),
                shown: shown.text.clone(),
                ..Pin::clone(&found.entry)
            };
            let expected = Some(found.revision);
            change = put(change.expect_revision(PinTable::SPACE, found.key, expected), &pin)?;
            events.push(Event::definition_pinned(server, &pin.tool, &shown.fingerprint).build());
        }
        Ok(change)
    }

    /// Notes in memory that a server was asked for its tools but did not list them.
    ///
    /// # Errors
    /// [`ChangeError`] if the pins cannot be read, if too many servers are known, or if a flaw of the server's id
    /// cannot be recorded.
    pub(super) async fn tried(&self, server: &ServerId) -> Result<(), ChangeError> {
        self.let_in(server).await?;
        if let Some(known) = self.0.seen().get_mut(&Some(server.clone())) {
            known.tried();
        }
        self.0.publish();
        Ok(())
    }
}

/// Returns the servers whose tools are admitted.
pub(super) fn admitted(seen: &HashMap<Option<ServerId>, ServerListing>) -> HashSet<ServerId> {
    let well = seen.iter().filter(|(_, seen)| seen.flaw.is_none());
    well.filter_map(|(id, _)| id.clone()).collect()
}

/// Returns the flaw of a server's id in comparison with all admitted servers. A server with pins was admitted before,
/// so it has no flaw.
fn flaw(
    server: &ServerId,
    seen: &HashMap<Option<ServerId>, ServerListing>,
    book: &PinTable,
) -> Option<NameFlaw> {
    if book.tools(server).next().is_some() {
        return None;
    }
    let others = seen.iter().filter(|(_, seen)| seen.flaw.is_none() && !seen.is_own());
    let ids = others.filter_map(|(id, _)| id.as_ref()).map(ServerId::as_str);
    NameFlaw::check_server(server.as_str(), ids.chain(book.servers())).err()
}

fn put(change: Change, pin: &Pin) -> Result<Change, ChangeError> {
    let key = Pin::key(&pin.server, &pin.tool, pin.kind);
    Ok(change.put(PinTable::SPACE, key, Payload::of(pin).map_err(ChangeError::Encode)?))
}

/// Returns the stored form of a definition, or `None` if the definition cannot be read.
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

/// Creates the audit event for a definition that must wait for a review.
fn held_event(
    server: &ServerId,
    tool: &str,
    held: &HeldDefinition,
    what: &Inspection,
) -> AuditEvent {
    match &held.pinned {
        Some(before) => {
            let (now, differences) = (&held.fingerprint, &held.differences);
            Event::definition_changed(server, tool, before, now, differences).build()
        }
        None => flagged(server, tool, what),
    }
}

fn flagged(server: &ServerId, tool: &str, what: &Inspection) -> AuditEvent {
    let kind = match what.severity() {
        Some(Severity::Refused) => DefinitionFlag::Refused,
        _ => DefinitionFlag::Noted,
    };
    let found: Vec<_> = what.findings().iter().map(ToString::to_string).collect();
    let mut event = Event::definition_flagged(server, Some(tool), kind, &found.join("; "));
    if let Some(hash) = what.fingerprint() {
        event = event.detail("hash", &hash.to_string());
    }
    event.build()
}

/// The names of the tools in a list, in lower case and with their letters in reverse order, so that a name is found by
/// its end.
struct OwnNames(BTreeSet<String>);

impl OwnNames {
    fn of(tools: &[Payload]) -> Self {
        let name = |raw: &Payload| raw.get::<Extras>().ok()?.get("name")?.get::<String>().ok();
        Self(tools.iter().filter_map(name).map(|name| backwards(&name.to_lowercase())).collect())
    }

    /// Returns whether a word is the name of one of these tools.
    fn contains(&self, word: &str) -> bool {
        self.0.contains(&backwards(word))
    }

    /// Returns whether a word is the name of one of these tools, or its end: descriptions often leave out what all
    /// names of a server begin with, e.g. `search_tasks` for `asana_search_tasks`.
    fn has_end(&self, word: &str) -> bool {
        let end = backwards(word) + "_";
        let is_end = |name: &String| name.starts_with(&end);
        self.contains(word) || self.0.range(end.clone()..).next().is_some_and(is_end)
    }
}

fn backwards(name: &str) -> String {
    name.chars().rev().collect()
}

/// Returns the entry of a tool with this definition, and whether the entry is new, i.e. missing in `before`, the
/// entries of the last list. If the current list already has another definition of the tool, the returned entry refuses
/// the tool.
fn entry(
    other: Option<&Arc<ListedTool>>,
    listed: Arc<ListedTool>,
    is_fresh: bool,
    before: &HashMap<Sha256Hash, Arc<ListedTool>>,
) -> (Arc<ListedTool>, bool) {
    match other {
        Some(other) if other.raw != listed.raw => {
            let twice = ListedTool::twice(other.raw, listed.raw);
            let is_fresh = !before.contains_key(&twice.raw);
            (Arc::new(twice), is_fresh)
        }
        _ => (listed, is_fresh),
    }
}

/// Returns the name of a tool, or `None` if it cannot be read.
fn name_of(raw: &Payload, inspection: &Inspection) -> Option<Box<str>> {
    match &inspection.shown {
        Some(shown) => Some(shown.tool.name.as_str().into()),
        None => raw.get::<Extras>().ok()?.get("name")?.get::<String>().ok().map(Into::into),
    }
}
