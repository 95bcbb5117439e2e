//! The snapshot that decisions read: entries by tenant, server, tool and agent (MGP §5.2).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::mgp::{AccessEntry, AccessPermission, Actor, AuditEvent, EntryType};
use mgp_types::store::Change;

use super::entry::{Entry, Subject};
use super::names::Names;
use crate::audit::Event;
use crate::entries::Expiring;
use crate::state::{ChangeError, Found, Snapshot};

/// All access entries, indexed for decisions.
#[derive(Default)]
pub(crate) struct Rules {
    tenants: Names<Names<Server>>,
    /// All entries, in the order of their keys.
    entries: Vec<Arc<Entry>>,
    /// The expiry times of entries, in ascending order.
    ends: Vec<SystemTime>,
}

#[derive(Default)]
struct Server {
    whole: Level,
    tools: Names<Level>,
    /// `true` if any entry denies a single tool of the server. If `false`, a caller with access to the server sees all
    /// its tools.
    any_tool_denied: bool,
}

/// The entries of one level, i.e. for a whole server or for one tool.
#[derive(Default)]
struct Level {
    agents: Names<Vec<Rule>>,
    groups: Names<Vec<Rule>>,
    everyone: Vec<Rule>,
}

struct Rule {
    entry: Arc<Entry>,
    until: Option<SystemTime>,
    denies: bool,
}

/// The caller for whom entries are searched: its tenant, its agent name and its groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeker<'a> {
    pub(super) tenant: &'a str,
    pub(super) agent: Option<&'a str>,
    pub(super) groups: &'a [Box<str>],
}

/// The time of a decision. The clock is read at most once, when the first entry with an expiry is found.
pub(crate) struct Moment<'a> {
    clock: &'a dyn Fn() -> SystemTime,
    read: Cell<Option<SystemTime>>,
}

impl<'a> Moment<'a> {
    pub(crate) fn of(clock: &'a dyn Fn() -> SystemTime) -> Self {
        Self { clock, read: Cell::new(None) }
    }

    pub(crate) fn get(&self) -> SystemTime {
        self.read.get().unwrap_or_else(|| {
            let now = (self.clock)();
            self.read.set(Some(now));
            now
        })
    }
}

impl Snapshot for Rules {
    type Entry = Entry;

    const SPACE: &'static str = "access";

    fn of(entries: &BTreeMap<String, Arc<Entry>>) -> Self {
        let mut rules = Self::default();
        for entry in entries.values() {
            rules.add(entry);
        }
        rules.ends.sort_unstable();
        rules.entries = entries.values().cloned().collect();
        rules
    }

    fn next_expiry(&self, after: SystemTime) -> Option<SystemTime> {
        let at = self.ends.partition_point(|end| *end <= after);
        self.ends.get(at).copied()
    }
}

impl Expiring for Rules {
    fn any_ended(&self, at: SystemTime) -> bool {
        self.ends.first().is_some_and(|end| *end <= at)
    }

    fn has_ended(entry: &Entry, at: SystemTime) -> bool {
        !entry.in_force(at)
    }

    fn end(change: Change, found: &Found<Entry>) -> Result<(Change, AuditEvent), ChangeError> {
        let change = change
            .expect_revision(Self::SPACE, &found.key, Some(found.revision))
            .remove(Self::SPACE, &found.key);
        let event = Event::access_revoked(Actor::kernel(), &found.entry).cause("expired");
        Ok((change, event.build()))
    }
}

impl Rules {
    fn add(&mut self, entry: &Arc<Entry>) {
        let until = entry.until();
        self.ends.extend(until);
        let access = &entry.access;
        let denies = access.permission != AccessPermission::Allow;
        let servers = self.tenants.entry(&entry.tenant);
        let server = servers.entry(&access.server_id);
        let level = match (access.entry_type, &access.tool_name) {
            (EntryType::ToolGrant, Some(tool)) => {
                server.any_tool_denied |= denies;
                server.tools.entry(tool)
            }
            // Ignore an entry `tool_grant` that names no tool if it allows access. If it denies access, it denies the
            // whole server.
            (EntryType::ToolGrant, None) if !denies => return,
            _ => &mut server.whole,
        };
        let rule = Rule { entry: Arc::clone(entry), until, denies };
        match Subject::of(&access.agent_id) {
            Subject::Everyone => level.everyone.push(rule),
            Subject::Group(group) => level.groups.entry(group).push(rule),
            Subject::Agent(agent) => level.agents.entry(agent).push(rule),
        }
    }

    /// Returns a hash of the entries in force of each tenant that has any.
    pub(super) fn revisions(&self, at: SystemTime) -> BTreeMap<String, u64> {
        let mut hashers = BTreeMap::<String, DefaultHasher>::new();
        for entry in self.entries.iter().filter(|entry| entry.in_force(at)) {
            let AccessEntry { agent_id, server_id, tool_name, entry_type, permission, .. } =
                &entry.access;
            let hasher = hashers.entry(entry.tenant.clone()).or_default();
            (agent_id, server_id, tool_name, entry_type, permission).hash(hasher);
        }
        hashers.into_iter().map(|(tenant, hasher)| (tenant, hasher.finish())).collect()
    }

    /// Returns the entry that decides: an entry for the tool if there is one, otherwise an entry for the server.
    pub(super) fn find(
        &self,
        seeker: Seeker<'_>,
        server: &str,
        tool: Option<&str>,
        at: &Moment<'_>,
    ) -> Option<&Arc<Entry>> {
        let server = self.server(seeker, server)?;
        tool.and_then(|tool| server.tools.get(tool)?.find(seeker, at))
            .or_else(|| server.whole.find(seeker, at))
    }

    /// Returns the entry that decides among the entries for the tool itself.
    pub(super) fn find_tool(
        &self,
        seeker: Seeker<'_>,
        server: &str,
        tool: &str,
        at: &Moment<'_>,
    ) -> Option<&Arc<Entry>> {
        self.server(seeker, server)?.tools.get(tool)?.find(seeker, at)
    }

    /// Returns the entry that decides among the entries for the whole server.
    pub(super) fn find_server(
        &self,
        seeker: Seeker<'_>,
        server: &str,
        at: &Moment<'_>,
    ) -> Option<&Arc<Entry>> {
        self.server(seeker, server)?.whole.find(seeker, at)
    }

    /// Returns whether the entries for single tools of a server deny the caller at least one of these tools.
    pub(super) fn denies_a_tool(&self, seeker: Seeker<'_>, server: &str, at: &Moment<'_>) -> bool {
        let denies = |level: &Level| level.find(seeker, at).is_some_and(|entry| denies(entry));
        self.server(seeker, server)
            .is_some_and(|server| server.any_tool_denied && server.tools.values().any(denies))
    }

    /// Returns whether the entries for single tools of a server allow the caller at least one of these tools.
    pub(super) fn allows_a_tool(&self, seeker: Seeker<'_>, server: &str, at: &Moment<'_>) -> bool {
        let allows = |level: &Level| level.find(seeker, at).is_some_and(|entry| !denies(entry));
        self.server(seeker, server).is_some_and(|server| server.tools.values().any(allows))
    }

    fn server(&self, seeker: Seeker<'_>, server: &str) -> Option<&Server> {
        self.tenants.get(seeker.tenant)?.get(server)
    }
}

impl Level {
    /// Returns the deciding entry of this level. Any entry that denies overrides all entries that allow.
    ///
    /// Among the entries that allow, an entry for the agent takes precedence over entries for its groups, and these
    /// take precedence over entries for everyone.
    fn find(&self, seeker: Seeker<'_>, at: &Moment<'_>) -> Option<&Arc<Entry>> {
        let mut found = None;
        // Plain loops, because chained iterators would double the time of a decision.
        if let Some(own) = seeker.agent.and_then(|agent| self.agents.get(agent))
            && pick(own, at, &mut found)
        {
            return found;
        }
        for group in seeker.groups {
            if let Some(rules) = self.groups.get(group)
                && pick(rules, at, &mut found)
            {
                return found;
            }
        }
        pick(&self.everyone, at, &mut found);
        found
    }
}

/// Searches `rules` for entries in force. Stores the first entry that allows access in `found`. If an entry denies
/// access, stores that entry instead and returns `true`, because a denial is final.
fn pick<'a>(rules: &'a [Rule], at: &Moment<'_>, found: &mut Option<&'a Arc<Entry>>) -> bool {
    for rule in rules {
        if rule.until.is_some_and(|until| until <= at.get()) {
            continue;
        }
        if rule.denies {
            *found = Some(&rule.entry);
            return true;
        }
        found.get_or_insert(&rule.entry);
    }
    false
}

fn denies(entry: &Entry) -> bool {
    entry.access.permission != AccessPermission::Allow
}
