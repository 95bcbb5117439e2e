//! Times governance decisions among ten thousand access entries (MGP §3–§5). For each kind of decision it prints a
//! line, which ends with the nanoseconds per decision; `accept gov.cost` reads these lines.
//!
//! `decisions [N]` makes N decisions of each kind per run (20,000 by default). Build it with `--release`.

use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::SystemTime;

use mgp_security::{
    Access, Definitions, Entry, PermissionChange, Permissions, Policies, ServerPolicy,
};
use mgp_types::Payload;
use mgp_types::mcp::Tool;
use mgp_types::mgp::{AccessEntry, AccessPermission, DefaultPolicy, EntryType, Permission};
use mgp_types::service::{MemoryAudit, Principal, ServerId};
use mgp_types::store::{Change, MemoryStore, Store as _};
use serde_json::json;
use tokio::time::Instant;

type Failure = Box<dyn Error + Send + Sync>;

/// The number of access entries in the test data.
const ENTRIES: usize = 10_000;
/// The number of servers in the test data.
const SERVERS: usize = 100;
/// The number of tools of each server in the test data.
const TOOLS: usize = 100;

/// The permissions that are granted to each server.
const PERMISSIONS: [Permission; 3] =
    [Permission::FilesystemRead, Permission::NetworkOutbound, Permission::MemoryRead];

/// The number of times that each kind of decision is timed; the median run is printed.
const RUNS: usize = 15;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let count = std::env::args().nth(1).map_or(Ok(20_000), |count| count.parse())?;
    for (kind, nanoseconds) in figures(count).await? {
        writeln!(io::stdout(), "{kind}, ns: {nanoseconds:.0}")?;
    }
    Ok(())
}

/// Times each kind of decision, with the given number of decisions per run.
async fn figures(decisions: usize) -> Result<Vec<(&'static str, f64)>, Failure> {
    let world = World::new().await?;
    let at = SystemTime::now();
    let mut figures = Vec::new();
    let mut time = |kind, expected: bool, decide: &dyn Fn(usize) -> bool| {
        // Checks the decisions first, because the time of wrong decisions would be useless.
        if (0..SERVERS).any(|number| decide(number) != expected) {
            return Err(format!("decided wrongly: {kind}"));
        }
        figures.push((kind, nanoseconds(decisions, decide)));
        Ok(())
    };
    let access = |of: fn(usize) -> String, server: usize, tool: usize| {
        let names: Vec<_> = (0..SERVERS)
            .map(|number| (Principal::new("acme", of(number)), name("server", number + server)))
            .collect();
        let (access, tool) = (world.access.clone(), name("tool", tool));
        move |number: usize| {
            let (agent, server) = &names[number % SERVERS];
            access.decide(agent, Some(server), Some(tool.as_str()), at).is_allowed()
        }
    };
    time("access by default policy", false, &access(|n| format!("stranger.{n}"), 0, 0))?;
    time("access by server_grant", true, &access(|n| format!("agent.{n}"), 0, 0))?;
    time("access by tool_grant of a group", true, &access(|n| format!("member.{n}"), 0, 1))?;
    time("access denied to a group", false, &access(|n| format!("member.{n}"), 0, 2))?;

    let ann = Principal::new("acme", "ann");
    let servers: Vec<_> = (0..SERVERS).map(|number| name("server", number)).collect();
    let lacks = |needed: &[Permission], number: usize| {
        let server = Some(&servers[number % SERVERS]);
        !world.permissions.missing(&ann, server, "tool.1", needed, None, at).is_empty()
    };
    time("no permission needed", false, &|number| lacks(&[], number))?;
    time("one permission held", false, &|number| lacks(&PERMISSIONS[..1], number))?;
    time("three permissions held", false, &|number| lacks(&PERMISSIONS, number))?;
    time("one permission missing", true, &|number| lacks(&[Permission::ShellExecute], number))?;

    let assessed = |number: usize| {
        let assessment = world.definitions.assessment(Some(&servers[number % SERVERS]), "tool.7");
        !assessment.permissions.is_empty()
    };
    time("assessment of a tool", true, &assessed)?;
    let member = Principal::new("acme", "member.7");
    let named = |tool: &'static str| {
        let (world, servers, member) = (&world, &servers, &member);
        move |number: usize| {
            let server = Some(&servers[number % SERVERS]);
            world.access.named(member, server, tool, at).is_some()
                || world.permissions.names_tool(member, server, tool, at).is_some()
        }
    };
    time("a grant that spares the confirmation", true, &named("tool.1"))?;
    time("no grant that spares the confirmation", false, &named("tool.3"))?;
    Ok(figures)
}

fn name(of: &str, number: usize) -> ServerId {
    format!("{of}.{number}").into()
}

/// Returns the nanoseconds per decision in the median run.
fn nanoseconds(decisions: usize, decide: &dyn Fn(usize) -> bool) -> f64 {
    let mut runs: Vec<f64> = (0..RUNS)
        .map(|_| {
            let begin = Instant::now();
            for number in 0..decisions {
                black_box(decide(black_box(number)));
            }
            begin.elapsed().as_secs_f64() * 1e9
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    #[expect(clippy::cast_precision_loss, reason = "counts of decisions are small")]
    let each = runs[RUNS / 2] / decisions as f64;
    each
}

struct World {
    access: Access,
    permissions: Permissions,
    definitions: Definitions,
}

impl World {
    async fn new() -> Result<Self, Failure> {
        let mut policy = ServerPolicy::default();
        policy.default_policy = DefaultPolicy::OptIn;
        let policies = Policies::with_default(policy);
        let definitions = Definitions::in_memory(policies.clone());
        for server in 0..SERVERS {
            definitions.learn(Some(&name("server", server)), &tools()?);
        }
        let permissions = Permissions::in_memory(policies.clone());
        let ann = Principal::new("acme", "ann").operator();
        for server in 0..SERVERS {
            let change = PermissionChange::new(Some(name("server", server)), PERMISSIONS);
            permissions.approve(&ann, change).await?;
        }
        Ok(Self { access: access(policies).await?, permissions, definitions })
    }
}

/// Returns the tool definitions of a server; each tool requires a permission to read files.
fn tools() -> Result<Vec<Tool>, serde_json::Error> {
    let tool = |number| {
        serde_json::from_value(json!({
            "name": format!("tool.{number}"),
            "inputSchema": { "type": "object" },
            "security": { "risk_level": "moderate", "permissions_required": ["filesystem.read"] },
        }))
    };
    (0..TOOLS).map(tool).collect()
}

/// Creates `ENTRIES` access entries. On every server, the group `one` has access to tool 1 and the group `two` to tool
/// 2, and the group `three` is denied tool 2. The other entries grant servers to single agents.
async fn access(policies: Policies) -> Result<Access, Failure> {
    let entry = |who: String, server: usize, tool: Option<usize>, permission| {
        let kind = tool.map_or(EntryType::ServerGrant, |_| EntryType::ToolGrant);
        let mut entry = AccessEntry::new(kind, who, format!("server.{server}"), permission);
        entry.tool_name = tool.map(|tool| format!("tool.{tool}"));
        Entry::new("acme", entry)
    };
    let mut entries = Vec::new();
    for server in 0..SERVERS {
        entries.push(entry("group:one".to_owned(), server, Some(1), AccessPermission::Allow));
        entries.push(entry("group:two".to_owned(), server, Some(2), AccessPermission::Allow));
        entries.push(entry("group:three".to_owned(), server, Some(2), AccessPermission::Deny));
    }
    for number in 0..ENTRIES - entries.len() {
        let (agent, server) = (number % SERVERS, (number + number / SERVERS) % SERVERS);
        entries.push(entry(format!("agent.{agent}"), server, None, AccessPermission::Allow));
    }
    let (store, mut change) = (MemoryStore::new(), Change::new());
    for (number, entry) in entries.iter().enumerate() {
        change = change.put("access", number.to_string(), Payload::of(entry)?);
    }
    store.commit(change).await?;
    let access = Access::new(Arc::new(store), Arc::new(MemoryAudit::new()), policies);
    for member in 0..SERVERS {
        let groups = ["one", "two", "three", "four"].map(str::to_owned);
        access.groups().set("acme", &format!("member.{member}"), groups);
    }
    access.open().await?;
    Ok(access)
}
