//! Tests with random entries, policies and groups: lists and calls agree, and the rules of §5.2 hold (MGP §5).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_security::{Access, AccessLayer, Entry, Policies, ServerPolicy};
use mgp_types::Payload;
use mgp_types::method::ToolsList;
use mgp_types::mgp::{AccessEntry, AccessPermission, AccessRevokeParams, DefaultPolicy, EntryType};
use mgp_types::service::{MemoryAudit, Principal, Reply, Stack, mock};
use mgp_types::store::{Change, MemoryStore, Store};
use proptest::collection::vec;
use proptest::prelude::*;
use tower_layer::Layer;

const TENANTS: [&str; 2] = ["acme", "other"];
const AGENTS: [&str; 5] = ["ada", "bob", "group:interns", "group:owners", "*"];
const SERVERS: [&str; 2] = ["files", "mail"];
const TOOLS: [&str; 3] = ["read", "write", "send"];
const LIST: &str = r#"{"tools":[{"name":"read"},{"name":"write"},{"name":"send"}]}"#;

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_hours(500_000)
}

/// An access entry of the test world.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    tenant: &'static str,
    agent: &'static str,
    server: &'static str,
    tool: Option<&'static str>,
    allows: bool,
    ends: End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Never,
    Later,
    Past,
    Unreadable,
}

impl Line {
    fn of(bits: u32) -> Self {
        let pick = |shift: u32, of: usize| usize::try_from(bits >> shift & 0xf).unwrap() % of;
        Self {
            tenant: TENANTS[pick(0, 16) / 12],
            agent: AGENTS[pick(4, 5)],
            server: SERVERS[pick(8, 2)],
            tool: TOOLS.get(pick(12, 5)).copied(),
            allows: pick(16, 2) == 0,
            ends: [End::Never, End::Never, End::Later, End::Past, End::Unreadable][pick(20, 5)],
        }
    }

    fn entry(self) -> Entry {
        let kind = if self.tool.is_some() { EntryType::ToolGrant } else { EntryType::ServerGrant };
        let permission = if self.allows { AccessPermission::Allow } else { AccessPermission::Deny };
        let mut access = AccessEntry::new(kind, self.agent, self.server, permission);
        access.tool_name = self.tool.map(str::to_owned);
        access.expires_at = match self.ends {
            End::Never => None,
            End::Later => Some((now() + Duration::from_secs(1)).into()),
            End::Past => Some(now().into()),
            End::Unreadable => Some("soon".into()),
        };
        Entry::new(self.tenant, access)
    }

    /// Returns whether the entry is in force. If its expiry is unreadable, an entry that allows is no longer in force,
    /// and an entry that denies is always in force.
    fn counts(self) -> bool {
        match self.ends {
            End::Never | End::Later => true,
            End::Past => false,
            End::Unreadable => !self.allows,
        }
    }
}

#[derive(Clone, Debug)]
struct World {
    lines: Vec<Line>,
    groups: Vec<&'static str>,
    open: [bool; 2],
}

impl World {
    fn of(lines: &[u32], shape: u8) -> Self {
        let groups = ["interns", "owners"].into_iter().enumerate();
        Self {
            lines: lines.iter().map(|bits| Line::of(*bits)).collect(),
            groups: groups.filter(|(at, _)| shape >> at & 1 == 1).map(|(_, name)| name).collect(),
            open: [shape >> 2 & 1 == 1, shape >> 3 & 1 == 1],
        }
    }

    fn with(&self, line: Line) -> Self {
        let mut world = self.clone();
        world.lines.push(line);
        world
    }

    fn without(&self, drop: impl Fn(&Line) -> bool) -> Self {
        let mut world = self.clone();
        world.lines.retain(|line| !drop(line));
        world
    }

    /// Returns the decision about the agent `ada` of the tenant `acme`, following the words of §5.2.
    fn decides(&self, server: &str, tool: &str) -> bool {
        let is_for_ada = |line: &&Line| {
            line.tenant == "acme"
                && line.server == server
                && line.counts()
                && match line.agent.strip_prefix("group:") {
                    Some(group) => self.groups.contains(&group),
                    None => matches!(line.agent, "ada" | "*"),
                }
        };
        for level in [Some(tool), None] {
            let mut on_level =
                self.lines.iter().filter(is_for_ada).filter(|line| line.tool == level).peekable();
            if on_level.peek().is_some() {
                return on_level.all(|line| line.allows);
            }
        }
        self.open[SERVERS.iter().position(|known| *known == server).unwrap()]
    }

    async fn access(&self) -> Access {
        let store = MemoryStore::new();
        let mut change = Change::new();
        for (number, line) in self.lines.iter().enumerate() {
            let value = Payload::of(&line.entry()).unwrap();
            change = change.put("access", number.to_string(), value);
        }
        store.commit(change).await.unwrap();
        let policies = Policies::default();
        for (server, open) in SERVERS.into_iter().zip(self.open) {
            let mut policy = ServerPolicy::default();
            if open {
                policy.default_policy = DefaultPolicy::OptOut;
            }
            policies.set(server, policy);
        }
        let access =
            Access::new(Arc::new(store), Arc::new(MemoryAudit::new()), policies).clock(now);
        access.groups().set("acme", "ada", self.groups.clone());
        access.open().await.unwrap();
        access
    }

    /// Returns the tools that ada can call on each server, according to `Access::decide`.
    async fn decided(&self) -> Vec<(&'static str, &'static str)> {
        decided(&self.access().await)
    }

    /// Checks that lists and calls through the layer agree with each other and with §5.2.
    async fn agrees(&self) {
        let layer = AccessLayer::new(self.access().await);
        let peer = Stack::from_fn(|call| async move {
            let text = if call.is::<ToolsList>() { LIST } else { "{}" };
            Ok(Reply::raw(Payload::from_trusted(text)))
        });
        let mut client = mock::client(Stack::new(layer.layer(peer)));
        // The user is not the agent: entries refer to the agent, so this must make no difference.
        client.cx.principal = Principal::new("acme", "bob").agent("ada");
        for server in SERVERS {
            client.cx.server = Some(server.into());
            let list = client.request("tools/list", "{}").await.unwrap();
            for tool in TOOLS {
                let listed = list.as_str().contains(&format!(r#"{{"name":"{tool}"}}"#));
                let called = client.request("tools/call", &format!(r#"{{"name":"{tool}"}}"#)).await;
                let code = called.as_ref().map_or_else(|error| error.code().0, |_| 0);
                let expected = self.decides(server, tool);
                assert_eq!(listed, expected, "list of {tool} on {server}: {list:?}");
                assert_eq!(code, if expected { 0 } else { 1001 }, "{tool} on {server}");
            }
        }
    }

    /// Checks that the rule with the number `law` holds after one more entry is added.
    async fn obeys(&self, law: u8, more: Line) {
        let seen = self.decided().await;
        match law % 5 {
            0 => {
                let with = self.with(Line { allows: true, ..more }).decided().await;
                // Adding an allow never hides a tool.
                assert!(
                    seen.iter().all(|pair| with.contains(pair)),
                    "an allow hid: {seen:?} {with:?}"
                );
            }
            1 => {
                // Adding a deny never makes a tool visible.
                let with = self.with(Line { allows: false, ..more }).decided().await;
                assert!(
                    with.iter().all(|pair| seen.contains(pair)),
                    "a deny showed: {seen:?} {with:?}"
                );
            }
            2 => {
                let with = self.with(Line { tenant: "other", ..more }).decided().await;
                assert_eq!(seen, with, "another tenant's entry counted");
                let alone = self.without(|line| line.tenant == "other").decided().await;
                assert_eq!(seen, alone, "other tenants' entries counted");
            }
            3 => {
                let access = self.access().await;
                let kind =
                    if more.tool.is_some() { EntryType::ToolGrant } else { EntryType::ServerGrant };
                let mut revoke = AccessRevokeParams::new(more.agent, more.server, kind);
                revoke.tool_name = more.tool.map(str::to_owned);
                access.revoke(&Principal::new("acme", "ann").operator(), revoke).await.unwrap();
                let gone = |line: &Line| {
                    line.tenant == "acme"
                        && (line.agent, line.server, line.tool)
                            == (more.agent, more.server, more.tool)
                };
                let alone = self.without(gone).decided().await;
                assert_eq!(decided(&access), alone, "a revoked entry counted");
            }
            _ => {
                let with = self.with(Line { ends: End::Past, ..more }).decided().await;
                assert_eq!(seen, with, "an expired entry counted");
                let alone = self.without(|line| !line.counts()).decided().await;
                assert_eq!(seen, alone, "expired entries counted");
            }
        }
    }
}

fn decided(access: &Access) -> Vec<(&'static str, &'static str)> {
    let ada = Principal::new("acme", "ada");
    let pairs = SERVERS.into_iter().flat_map(|server| TOOLS.map(|tool| (server, tool)));
    let allowed = |(server, tool): &(&str, &str)| {
        access.decide(&ada, Some(&(*server).into()), Some(tool), now()).is_allowed()
    };
    pairs.filter(allowed).collect()
}

/// Returns the number of random worlds: the environment variable `WORLDS`, or enough for a quick run.
fn worlds() -> u32 {
    std::env::var("WORLDS").ok().and_then(|count| count.parse().ok()).unwrap_or(2_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: worlds(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lists_and_calls_agree_and_obey(
        lines in vec(any::<u32>(), 0..10),
        shape in any::<u8>(),
        more in any::<u32>(),
    ) {
        thread_local! {
            static RUNTIME: tokio::runtime::Runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        }
        RUNTIME.with(|runtime| runtime.block_on(async {
            let world = World::of(&lines, shape);
            world.agrees().await;
            world.obeys(shape >> 4, Line::of(more)).await;
        }));
    }
}
