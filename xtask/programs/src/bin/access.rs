//! Prints an access decision for each line of standard input (MGP §5).
//!
//! A line is `{"policies":…,"grants":[…],"agent":…,"groups":[…],"server":…,"tool":…,"now":…}`, optionally with a
//! `tenant`; the answer is `{"permission":…,"source":…,"rule":…,"listed":…}`, in the order of the lines.
//!
//! ```sh
//! echo '{"policies":{"files":"opt-out"},"grants":[],"agent":"ada","groups":[],"server":"files","tool":"read","now":"2026-01-01T00:00:00Z"}' \
//!   | cargo run -q -p mgp-programs --bin access
//! ```
//!
//! Unreadable input never widens access: the answer to an unreadable line is a denial. A grant whose `permission` is
//! not `allow` counts as a deny for everything that it could refer to. An unreadable grant with `allow` is ignored.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_security::{Access, AccessLayer, Entry, Policies, ServerPolicy};
use mgp_types::method::{Request, ToolsList};
use mgp_types::mgp::{AccessEntry, AccessPermission, DefaultPolicy, EntryType};
use mgp_types::service::{MemoryAudit, Principal, Reply, Stack, mock};
use mgp_types::store::{Change, MemoryStore, Store};
use mgp_types::{Payload, RpcError, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tower_layer::Layer;

/// The decision that is printed for an input line.
#[derive(Serialize)]
struct Answer {
    permission: String,
    source: String,
    rule: String,
    listed: bool,
}

fn main() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let answer = match Query::read(&line) {
            Ok(query) => runtime.block_on(query.answer()).map_err(|error| error.to_string()),
            Err(why) => Err(why),
        };
        let answer = answer.unwrap_or_else(|why| Answer {
            permission: AccessPermission::Deny.to_string(),
            source: "default_policy".to_owned(),
            rule: format!("unreadable: {why}"),
            listed: false,
        });
        serde_json::to_writer(&mut output, &answer)?;
        output.write_all(b"\n")?;
        output.flush()?;
        line.clear();
    }
    Ok(())
}

/// The contents of an input line: the agent, the tool that it wants to call, and the policies and grants that apply.
struct Query {
    tenant: String,
    agent: String,
    groups: Vec<String>,
    server: String,
    tool: Option<String>,
    now: SystemTime,
    policies: Policies,
    entries: Vec<Entry>,
}

impl Query {
    fn read(line: &[u8]) -> Result<Self, String> {
        let line: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let text = |names: &[&str]| match member(&line, names) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{}` is not a string", names[0])),
        };
        let needed = |names: &[&str]| text(names)?.ok_or(format!("`{}` is missing", names[0]));
        let now = match member(&line, &["now"]) {
            None => SystemTime::now(),
            Some(now) => time(now).ok_or("`now` is not a time")?,
        };
        let mut query = Self {
            tenant: text(&["tenant", "tenant_id"])?.unwrap_or_else(|| "local".to_owned()),
            agent: needed(&["agent", "agent_id"])?,
            groups: groups(member(&line, &["groups"]))?,
            server: needed(&["server", "server_id"])?,
            tool: text(&["tool", "tool_name"])?,
            now,
            policies: policies(member(&line, &["policies"]))?,
            entries: Vec::new(),
        };
        let grants = match member(&line, &["grants", "entries"]) {
            None => &Vec::new(),
            Some(Value::Array(grants)) => grants,
            Some(_) => return Err("`grants` is not a list".to_owned()),
        };
        query.entries = grants.iter().flat_map(|grant| query.entries_of(grant)).collect();
        Ok(query)
    }

    /// Returns the access entries for a grant: none for an allow that is unreadable or contradicts itself, two for a
    /// deny that could mean the server or one tool, else one.
    fn entries_of(&self, grant: &Value) -> Vec<Entry> {
        // Replaces a grant that is not an object by one with an invalid type, which denies everything.
        let anything = Map::from_iter([("entry_type".to_owned(), Value::Bool(true))]);
        let grant = grant.as_object().unwrap_or(&anything);
        let word = |names: &[&str]| word(grant, names);
        let who = match (word(&["agent_id", "agent"]), word(&["group", "group_id"])) {
            (Ok(Some(agent)), Ok(None)) => Ok(agent.to_owned()),
            (Ok(None), Ok(Some(group))) if group.starts_with("group:") => Ok(group.to_owned()),
            (Ok(None), Ok(Some(group))) => Ok(format!("group:{group}")),
            _ => Err(()),
        };
        let server = word(&["server_id", "server"]).and_then(|server| server.ok_or(()));
        let tool = word(&["tool_name", "tool"]);
        let tenant = word(&["tenant", "tenant_id"]).map(|tenant| tenant.unwrap_or(&self.tenant));
        let kind = match (word(&["entry_type", "type"]), tool) {
            (Ok(None), Ok(Some(_))) => Ok(EntryType::ToolGrant),
            (Ok(None), Ok(None)) => Ok(EntryType::ServerGrant),
            (Ok(Some(word)), _) => EntryType::from_word(word).ok_or(()),
            _ => Err(()),
        };
        let ends = match member(grant, &["expires_at"]) {
            None => Ok(None),
            Some(end) => timestamp(end).map(Some).ok_or(()),
        };
        let make = |tenant: &str, who: &str, server: &str, tool: Option<&str>, permission| {
            let kind = tool.map_or(EntryType::ServerGrant, |_| EntryType::ToolGrant);
            let mut access = AccessEntry::new(kind, who, server, permission);
            access.tool_name = tool.map(str::to_owned);
            access.granted_by = word(&["granted_by"]).ok().flatten().map(str::to_owned);
            access.expires_at = ends.clone().unwrap_or_default();
            Entry::new(tenant, access)
        };
        if let Ok(Some("allow")) = word(&["permission"]) {
            let (Ok(tenant), Ok(who), Ok(server), Ok(tool), Ok(kind), Ok(_)) =
                (tenant, &who, server, tool, kind, &ends)
            else {
                return Vec::new();
            };
            let fits = (kind == EntryType::ToolGrant) == tool.is_some();
            let allow = || make(tenant, who, server, tool, AccessPermission::Allow);
            return if fits { vec![allow()] } else { Vec::new() };
        }
        // From here on, the grant is treated as a deny. Without a readable tenant or server, that of this query
        // is used; without a readable agent, all agents are denied. Unreadable input must not widen access.
        let tenant = tenant.unwrap_or(&self.tenant);
        let who = who.as_deref().unwrap_or("*");
        let server = server.ok().filter(|server| *server != "*").unwrap_or(&self.server);
        let deny = |tool: Option<&str>| make(tenant, who, server, tool, AccessPermission::Deny);
        let one = match tool {
            Ok(Some(tool)) if tool != "*" => Some(tool),
            _ => self.tool.as_deref(),
        };
        match kind {
            Ok(EntryType::ServerGrant) => vec![deny(None)],
            Ok(_) => vec![deny(one)],
            Err(()) => vec![deny(None), deny(one)],
        }
    }

    /// Decides about the call, and whether a tool list for this agent would contain the tool.
    async fn answer(self) -> Result<Answer, RpcError> {
        let store = MemoryStore::new();
        let mut change = Change::new();
        for (number, entry) in self.entries.iter().enumerate() {
            change = change.put("access", number.to_string(), Payload::of(entry)?);
        }
        store.commit(change).await?;
        let now = self.now;
        let audit = Arc::new(MemoryAudit::bounded(0));
        let access = Access::new(Arc::new(store), audit, self.policies).clock(move || now);
        access.groups().set(&self.tenant, &self.agent, self.groups);
        access.open().await?;

        let principal = Principal::new(self.tenant.as_str(), self.agent.as_str());
        let server = self.server.as_str().into();
        let decided = access.decide(&principal, Some(&server), self.tool.as_deref(), now);
        let listed = match &self.tool {
            None => decided.is_allowed(),
            Some(tool) => {
                let tools = Payload::of(&json!({ "tools": [{ "name": tool }] }))?;
                let all = Stack::from_fn(move |_| {
                    let tools = tools.clone();
                    async move { Ok(Reply::raw(tools)) }
                });
                let mut client = mock::client(Stack::new(AccessLayer::new(access).layer(all)));
                client.cx.principal = principal;
                client.cx.server = Some(server);
                let list = client.request(ToolsList::METHOD, "{}").await?;
                let list: Value = list.get()?;
                list["tools"].as_array().is_some_and(|tools| !tools.is_empty())
            }
        };
        Ok(Answer {
            permission: decided.permission().to_string(),
            source: decided.source().to_string(),
            rule: decided.rule().to_string(),
            listed,
        })
    }
}

/// Returns the value of the first of these member names that is present and not null.
fn member<'a>(object: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| object.get(*name).filter(|value| !value.is_null()))
}

/// Returns the value of the first of these members that is present, as a string; `None` if none is present.
///
/// # Errors
/// If the value is not a string, or is empty.
fn word<'a>(object: &'a Map<String, Value>, names: &[&str]) -> Result<Option<&'a str>, ()> {
    match member(object, names) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.as_str())),
        Some(_) => Err(()),
    }
}

/// Converts the time of an access entry to a timestamp; strings stay unchanged, so that the store sees them as given.
fn timestamp(value: &Value) -> Option<Timestamp> {
    let time = time(value)?;
    Some(value.as_str().map_or_else(|| Timestamp::from(time), Timestamp::from))
}

/// Parses a time: RFC 3339 text, or a number of seconds or milliseconds since 1970.
fn time(value: &Value) -> Option<SystemTime> {
    /// The smallest number that is read as milliseconds; smaller ones are seconds. As seconds, this number would be a
    /// time in the year 5138; as milliseconds, it is a time in 1973.
    const MILLISECONDS_FROM: f64 = 1e11;
    /// The beginning of the year 10,000, in seconds since 1970; RFC 3339 cannot express times from there on.
    const END: f64 = 253_402_300_800.0;
    let seconds = match value {
        Value::String(text) => return Timestamp::from(text.as_str()).to_system_time(),
        Value::Number(number) => number.as_f64()?,
        _ => return None,
    };
    let seconds = if seconds.abs() < MILLISECONDS_FROM { seconds } else { seconds / 1000.0 };
    let since = Duration::try_from_secs_f64(seconds).ok().filter(|_| seconds < END)?;
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// Parses the groups of the agent, with or without the prefix `group:`.
fn groups(value: Option<&Value>) -> Result<Vec<String>, String> {
    let names = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(names)) => names,
        Some(_) => return Err("`groups` is not a list".to_owned()),
    };
    let name = |name: &Value| {
        let name = name.as_str().ok_or("a group is not a string")?;
        Ok(name.strip_prefix("group:").unwrap_or(name).to_owned())
    };
    names.iter().map(name).collect()
}

/// Parses the default policies: one for all servers, or one for each. An unknown policy counts as `opt-in`.
fn policies(value: Option<&Value>) -> Result<Policies, String> {
    let policy = |value: &Value| {
        let value = value.get("default_policy").unwrap_or(value);
        let mut policy = ServerPolicy::default();
        if value.as_str() == Some(DefaultPolicy::OptOut.as_str()) {
            policy.default_policy = DefaultPolicy::OptOut;
        }
        policy
    };
    match value {
        None => Ok(Policies::default()),
        Some(one @ Value::String(_)) => Ok(Policies::with_default(policy(one))),
        Some(Value::Object(servers)) => {
            let general = member(servers, &["*", "default"]).map(policy).unwrap_or_default();
            let policies = Policies::with_default(general);
            for (server, value) in servers {
                if server != "*" && server != "default" {
                    policies.set(server.as_str(), policy(value));
                }
            }
            Ok(policies)
        }
        Some(_) => Err("`policies` is not an object".to_owned()),
    }
}
