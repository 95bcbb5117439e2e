//! The last known list of one server's tools, and the state of each tool.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mcp;
use mgp_types::mgp::RiskLevel;
use mgp_types::service::ServerId;
use mgp_types::{Payload, Sha256Hash};
use tokio::time::Instant;

use super::DefinitionState;
use super::diff::{Differences, differences};
use super::inspection::Inspection;
use super::name::NameFlaw;
use super::pin::{Pin, PinKind, PinPair, PinTable};
use super::refused::CROWDED;
use super::review::{Finding, Rule, Severity};
use super::state::HeldDefinition;
use super::table::{KnownTool, Tools};
use crate::policy::ServerPolicy;
use crate::tool::Assessment;

/// The maximum number of tools stored per server, including tools that it no longer lists. Beyond that, tools with new
/// names are refused.
pub(super) const TOOLS_MAX: usize = 10_000;

/// The maximum size of all definitions of one server in bytes; further tools are refused.
pub(super) const BYTES_MAX: usize = 16 * 1024 * 1024;

/// The number of false announcements in a row after which further announcements are ignored while the list is fresh. An
/// announcement is false if the next list equals the list before it.
const NOISY_AFTER: u32 = 3;

/// The maximum time between the lists of two false announcements in a row. After a longer time, the count begins again.
/// If a server announces changes all the time, a kernel reads its list at least once a minute.
const ROW_INTERVAL: Duration = Duration::from_mins(2);

/// The last known list of one server's tools.
#[derive(Debug, Default)]
pub(super) struct ServerListing {
    pub(super) listed: HashMap<Box<str>, Arc<ListedTool>>,
    /// The names in `listed` that the last complete list does not contain.
    kept: HashSet<Box<str>>,
    bytes: usize,
    /// `true` if tools were left out because a limit was reached.
    full: bool,
    /// `true` if these are the tools of this process, which are trusted and not pinned.
    own: bool,
    /// The number of changes that the server has announced, or that `review_names` has found.
    announced: u64,
    /// The value of `announced` when the server was asked for the last complete list. If `announced` has grown since,
    /// the list is outdated, because the server may have read its tools before the change.
    included: u64,
    /// The number of false announcements in a row.
    false_announcements: u32,
    /// The time at which a complete list was last requested or received.
    complete: Option<Instant>,
    /// The flaw of the server's id, which prevents the use of its tools.
    pub(super) flaw: Option<NameFlaw>,
    /// `true` if an audit event has recorded that flaw.
    pub(super) is_flaw_recorded: bool,
}

#[derive(Debug)]
pub(super) struct ListedTool {
    /// The hash of the definition's JSON, by which an unchanged definition is recognized and not parsed again.
    pub(super) raw: Sha256Hash,
    pub(super) inspection: Inspection,
    bytes: usize,
}

impl ListedTool {
    pub(super) fn new(
        raw: &Payload,
        hash: Sha256Hash,
        shadows: impl FnOnce(&str) -> Option<NameFlaw>,
        is_of_another: impl Fn(&str) -> bool,
        is_own: impl Fn(&str) -> bool,
    ) -> Self {
        let mut inspection = Inspection::of(raw);
        let name = inspection.shown.as_ref().map(|shown| shown.tool.name.as_str());
        if let Some(flaw) = name.and_then(shadows) {
            inspection.flag_name(&flaw);
        }
        inspection.excuse_own_tools(is_own);
        inspection.flag_mentions(is_of_another);
        Self { raw: hash, inspection, bytes: raw.as_str().len() }
    }

    /// Creates the entry for a name that the server lists twice with different definitions, which have these two
    /// hashes. The entry has a hash of its own. Therefore each of the two definitions counts as new as soon as the
    /// server lists only that one.
    pub(super) fn twice(one: Sha256Hash, other: Sha256Hash) -> Self {
        let inspection = Inspection::refused(Finding::new(Rule::Twice, "/name", ""));
        let raw = Sha256Hash::digest(format!("{one} {other}").as_bytes());
        Self { raw, inspection, bytes: 0 }
    }
}

impl ServerListing {
    /// Creates the listing of a server that has listed nothing yet, with the flaw of its id, if any.
    pub(super) fn of(flaw: Option<NameFlaw>) -> Self {
        Self { flaw, ..Self::default() }
    }

    /// Creates the listing of the tools of this process.
    pub(super) fn own(tools: &[Arc<mcp::Tool>]) -> Self {
        let listed = tools.iter().map(|tool| {
            let inspection = Inspection::trusted(Arc::clone(tool));
            let listed = ListedTool { raw: Sha256Hash::digest(b""), inspection, bytes: 0 };
            (tool.name.as_str().into(), Arc::new(listed))
        });
        Self { listed: listed.collect(), own: true, ..Self::default() }
    }

    /// Returns whether this server was refused because its id looks like the given id.
    pub(super) fn looks_like(&self, server: &ServerId) -> bool {
        matches!(&self.flaw, Some(NameFlaw::LooksLike { like, .. }) if like == server.as_str())
    }

    /// Returns whether these are the tools of this process.
    pub(super) fn is_own(&self) -> bool {
        self.own
    }

    /// Adds a finding to each listed name that begins with the id of another server, because that server may have
    /// become known only after the list was processed.
    pub(super) fn review_names(&mut self, server: &ServerId, is_known: impl Fn(&str) -> bool) {
        if self.own {
            return;
        }
        for (name, listed) in
            self.listed.iter_mut().filter(|(_, one)| !one.inspection.names_another)
        {
            let Some(flaw) = NameFlaw::check_owner(server, name, &is_known).err() else { continue };
            let mut inspection = listed.inspection.clone();
            inspection.flag_name(&flaw);
            *listed = Arc::new(ListedTool { raw: listed.raw, inspection, bytes: listed.bytes });
            // Cause a new listing, during which the definition is stored as waiting.
            self.announced += 1;
        }
    }

    /// Notes that the server has announced a change of its tools.
    pub(super) fn stale(&mut self) {
        self.announced += u64::from(!self.own);
    }

    /// Returns the number of changes so far, for the [`ListExtent`] of a list that is requested now.
    pub(super) fn announced(&self) -> u64 {
        self.announced
    }

    /// Notes a change after which the list must be read, although earlier announcements of the server were false.
    pub(super) fn restarted(&mut self) {
        self.false_announcements = 0;
        self.stale();
    }

    /// Notes the time at which the server was asked for its tools but did not list them.
    pub(super) fn tried(&mut self) {
        (self.false_announcements, self.complete) = (0, Some(Instant::now()));
    }

    /// Adds the tools of a list. A complete list replaces all earlier tools, except tools that wait for an operator or
    /// are refused. A definition beyond the limits of number and size is left out, and so is the tool's earlier
    /// definition.
    pub(super) fn take(&mut self, tools: Vec<(Box<str>, Arc<ListedTool>)>, extent: ListExtent) {
        if let ListExtent::Complete { announced } = extent {
            self.count_false_announcements(&tools, announced);
            // Keep the definitions that have findings. Otherwise, a server could leave such a tool out of its list, and
            // the tool would then be called as an unknown tool.
            self.listed.retain(|_, listed| !listed.inspection.is_usable());
            self.kept = self.listed.keys().cloned().collect();
            self.bytes = self.listed.values().map(|listed| listed.bytes).sum();
            (self.full, self.complete) = (false, Some(Instant::now()));
            // Limit the number: `self.announced` starts again at zero if the server is removed and added while it is
            // asked for the list.
            self.included = announced.min(self.announced);
        }
        for (name, listed) in tools {
            self.kept.remove(&name);
            let before = self.listed.get(&name).map_or(0, |known| known.bytes);
            let bytes = self.bytes - before + listed.bytes;
            let room = before > 0 || self.listed.len() < TOOLS_MAX;
            if !room || bytes > BYTES_MAX {
                self.full = true;
                // The new definition exceeds the size limit. Remove the old definition too, because it must not be used
                // in place of the new one.
                self.bytes -= before;
                self.listed.remove(&name);
                continue;
            }
            self.bytes = bytes;
            self.listed.insert(name, listed);
        }
    }

    /// Counts a false announcement: the server had announced a change, but its complete list equals the list before.
    fn count_false_announcements(&mut self, tools: &[(Box<str>, Arc<ListedTool>)], announced: u64) {
        let is_known = |(name, listed): &(Box<str>, Arc<ListedTool>)| {
            self.listed.get(name).is_some_and(|known| known.raw == listed.raw)
        };
        let is_same = tools.len() == self.listed.len() && tools.iter().all(is_known);
        if !is_same || self.complete.is_none_or(|last| last.elapsed() > ROW_INTERVAL) {
            self.false_announcements = 0;
        }
        if is_same && announced > self.included {
            self.false_announcements = self.false_announcements.saturating_add(1);
        }
    }

    /// Notes that tools were left out because the maximum number of pins is reached.
    pub(super) fn crowded(&mut self) {
        self.full = true;
    }

    /// Builds the table entries of all tools of the server; `before` is the table that they replace.
    pub(super) fn tools(
        &self,
        server: Option<&ServerId>,
        book: &PinTable,
        policy: &Arc<ServerPolicy>,
        before: Option<&Arc<Tools>>,
    ) -> Tools {
        let mut tools = Tools {
            stale: self.announced > self.included,
            is_noisy: self.false_announcements >= NOISY_AFTER,
            is_full: self.full && self.flaw.is_none(),
            own: self.own,
            complete: self.complete,
            policy: Some(Arc::clone(policy)),
            ..Tools::default()
        };
        // Assessments made with the same policy are reused.
        let is_same_policy = |tools: &&Arc<Tools>| {
            tools.policy.as_ref().is_some_and(|known| Arc::ptr_eq(known, policy))
        };
        let assessed = before.filter(is_same_policy).map(|tools| &tools.named);
        if let Some(flaw) = &self.flaw {
            tools.others = refused_id(flaw);
        } else if self.full {
            tools.others = refused(CROWDED);
        }
        let mut named: BTreeMap<Box<str>, KnownTool> = BTreeMap::new();
        if let Some(server) = server.filter(|_| !self.own) {
            // If the operator overrides the risk of an unlisted tool, that must be recorded, too.
            for name in policy.risk.keys() {
                let assessment = Assessment::unlisted(name, policy).into();
                let known = KnownTool::new(None, assessment, tools.others.clone());
                named.insert(name.as_str().into(), known);
            }
            // A tool with a stored definition stays known while it is not listed, so a server cannot change how a tool
            // is treated by leaving it out of the list.
            let unlisted = book.tools(server).filter(|(name, _)| !self.listed.contains_key(*name));
            for (name, pair) in unlisted {
                let earlier = assessed.and_then(|named| named.get(name));
                named.insert(name.into(), recorded(name, pair, policy, &tools.others, earlier));
            }
        }
        for (name, listed) in &self.listed {
            let pair = server.and_then(|server| book.get(server, name));
            let earlier = assessed.and_then(|named| named.get(name));
            named.insert(name.clone(), self.known(name, listed, pair, policy, earlier));
        }
        let finished = |(name, mut known): (Box<str>, KnownTool)| {
            if let Some(before) = before.and_then(|before| before.named.get(&name)) {
                known.keep_record_flag(before);
            }
            (name, Arc::new(known))
        };
        tools.named = named.into_iter().map(finished).collect::<BTreeMap<_, _>>().into();
        tools
    }

    /// Builds the entry of a listed tool in the table of known tools (`table.rs`).
    fn known(
        &self,
        name: &str,
        listed: &ListedTool,
        pair: Option<&PinPair>,
        policy: &ServerPolicy,
        earlier: Option<&Arc<KnownTool>>,
    ) -> KnownTool {
        let standing = match &self.flaw {
            _ if self.own => DefinitionState::Pinned,
            Some(flaw) => refused_id(flaw),
            None => standing(&listed.inspection, pair),
        };
        let tool = listed.inspection.shown.as_ref().map(|shown| Arc::clone(&shown.tool));
        let is_tool = |known: &&Arc<KnownTool>| match (&known.tool, &tool) {
            (Some(known), Some(tool)) => Arc::ptr_eq(known, tool),
            _ => false,
        };
        let assessment = match (earlier.filter(is_tool), &tool) {
            (Some(known), _) => Arc::clone(&known.assessment),
            (None, Some(tool)) if self.own => Assessment::own(tool, policy).into(),
            (None, Some(tool)) => Assessment::of(tool, policy).into(),
            (None, None) => Assessment::unlisted(name, policy).into(),
        };
        #[cfg(feature = "schemas")]
        let schemas = policy.check_schemas.then(|| {
            let same = earlier.filter(is_tool).and_then(|known| known.schemas.clone());
            same.unwrap_or_default()
        });
        let mut known = KnownTool::new(tool, assessment, standing);
        known.findings = listed.inspection.findings().into();
        #[cfg(feature = "schemas")]
        {
            known.schemas = schemas;
        }
        known.raw = (!self.own).then_some(listed.raw);
        known.is_in_last_list = !self.kept.contains(name);
        known
    }
}

/// Builds the table entry of a tool that is not listed, from its stored definitions.
fn recorded(
    name: &str,
    pair: &PinPair,
    policy: &ServerPolicy,
    others: &DefinitionState,
    earlier: Option<&Arc<KnownTool>>,
) -> KnownTool {
    let standing = pair.held.as_ref().map_or(others.clone(), |held| held_as(held, pair));
    let is_pin = |known: &&Arc<KnownTool>| match (&known.pin, &pair.pinned) {
        (Some(known), Some(pin)) => Arc::ptr_eq(known, pin),
        _ => false,
    };
    let assessment = match (earlier.filter(is_pin), &pair.pinned) {
        (Some(known), _) => Arc::clone(&known.assessment),
        (None, Some(pin)) => pin.assess(policy).into(),
        (None, None) => Assessment::unlisted(name, policy).into(),
    };
    let mut known = KnownTool::new(None, assessment, standing);
    known.pin.clone_from(&pair.pinned);
    known
}

/// The part of the server's tools that a list contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListExtent {
    /// The list contains all tools of the server.
    Complete {
        /// The number of changes that the server had announced when it was asked for the list.
        announced: u64,
    },
    /// The list is one of several pages, or it is unknown whether more pages follow.
    Page,
}

impl KnownTool {
    fn new(
        tool: Option<Arc<mcp::Tool>>,
        assessment: Arc<Assessment>,
        standing: DefinitionState,
    ) -> Self {
        let overridden = |before: &RiskLevel| assessment.effective_risk != *before;
        let unrecorded = Arc::new(assessment.overrides.as_ref().is_some_and(overridden).into());
        Self {
            tool,
            raw: None,
            is_in_last_list: false,
            pin: None,
            assessment,
            #[cfg(feature = "schemas")]
            schemas: None,
            standing,
            findings: [].into(),
            unrecorded,
        }
    }

    /// Shares the `unrecorded` flag with the tool's entry in the earlier table if neither the definition nor the risk
    /// changed. Thus an override of the risk is recorded only once, even if a call is recording it at this moment.
    fn keep_record_flag(&mut self, before: &Self) {
        let same = self.tool == before.tool
            && self.assessment.overrides == before.assessment.overrides
            && self.assessment.effective_risk == before.assessment.effective_risk;
        if same {
            self.unrecorded = Arc::clone(&before.unrecorded);
        }
    }
}

/// Returns the state of a listed definition, which depends on the stored definitions of the tool.
pub(super) fn standing(inspection: &Inspection, pair: Option<&PinPair>) -> DefinitionState {
    let is_refused = inspection.severity() == Some(Severity::Refused);
    let Some(shown) = inspection.shown.as_ref().filter(|_| !is_refused) else {
        return DefinitionState::Refused(inspection.findings().into());
    };
    let pinned = pair.and_then(|pair| pair.pinned.as_ref());
    let fingerprint = shown.fingerprint.to_string();
    let bare = shown.bare.map(|bare| bare.to_string());
    let is_listed = |stored: &Pin| {
        stored.fingerprint == fingerprint || bare.as_ref() == Some(&stored.fingerprint)
    };
    let held = pair.and_then(|pair| pair.held.as_ref()).filter(|held| is_listed(held));
    let rejected = held.filter(|held| held.kind == PinKind::Rejected);
    let is_same = |pin: &Pin| {
        let is_equivalent =
            || inspection.extends(pin) || inspection.reorders(pin) || inspection.rewraps(pin);
        pin.fingerprint == fingerprint || (rejected.is_none() && is_equivalent())
    };
    // A definition that was pinned automatically must wait for an operator if its name was later found to be flawed. So
    // ignore its pin in this case.
    let waits = held.is_some_and(|held| {
        held.kind == PinKind::Waiting && held.findings.iter().any(Finding::blocks)
    });
    let is_wrong = waits || inspection.names_another;
    let pinned = pinned.filter(|pin| !is_wrong || pin.by.is_some() || !is_same(pin));
    if pinned.is_some_and(|pin| is_same(pin)) {
        return DefinitionState::Pinned;
    }
    // Show a rejected definition in its stored form, because an operator can still approve that form; the listed form
    // may have more checks.
    let (fingerprint, text) =
        rejected.map_or((shown.fingerprint, &shown.text), |pin| (pin.hash(), &pin.shown));
    let differences = pinned.map(|pin| changed(pin, text)).unwrap_or_default();
    let held = HeldDefinition {
        fingerprint,
        pinned: pinned.map(|pin| pin.hash()),
        definition: text.clone(),
        differences: differences.listed,
        differences_left_out: differences.left_out,
        findings: pinned.map_or_else(
            || inspection.findings().to_vec(),
            |pin| pin.added_by(inspection.findings()),
        ),
        rejected_by: rejected.and_then(|held| held.by.clone()),
    };
    match pinned {
        Some(_) => DefinitionState::Changed(held.into()),
        None if inspection.is_usable() && held.rejected_by.is_none() && !waits => {
            // The definition is not pinned yet, or could not be pinned.
            DefinitionState::Unseen
        }
        None => DefinitionState::Flagged(held.into()),
    }
}

/// Returns the state of a definition that is known only from the store.
fn held_as(held: &Arc<Pin>, pair: &PinPair) -> DefinitionState {
    let waiting = HeldDefinition::waiting(held, pair.pinned.as_deref(), held.by.clone());
    match pair.pinned {
        Some(_) => DefinitionState::Changed(waiting.into()),
        None => DefinitionState::Flagged(waiting.into()),
    }
}

impl HeldDefinition {
    /// Describes a waiting or rejected definition that is known from the store.
    pub(super) fn waiting(held: &Pin, pinned: Option<&Pin>, rejected_by: Option<String>) -> Self {
        let differences = pinned.map(|pin| changed(pin, &held.shown)).unwrap_or_default();
        Self {
            fingerprint: held.hash(),
            pinned: pinned.map(Pin::hash),
            definition: held.shown.clone(),
            differences: differences.listed,
            differences_left_out: differences.left_out,
            findings: held.added(pinned),
            rejected_by,
        }
    }
}

fn changed(pin: &Pin, now: &Payload) -> Differences {
    match (pin.shown.get(), now.get()) {
        (Ok(before), Ok(after)) => differences(&before, &after),
        // This cannot happen, because both records were written by this program.
        _ => Differences::default(),
    }
}

/// Returns the state that all tools of a server have if its id cannot be used. The finding names no member of a
/// definition, because the flaw is in the id.
fn refused_id(flaw: &NameFlaw) -> DefinitionState {
    DefinitionState::Refused(vec![Finding::about(Rule::Name, "", flaw.to_string(), "")].into())
}

pub(super) fn refused(why: impl Into<String>) -> DefinitionState {
    DefinitionState::Refused(vec![Finding::about(Rule::Unreadable, "", why, "")].into())
}
