//! Prints what a tool call requires (risk, validators, confirmation, permissions) for each line of JSON on standard
//! input (MGP §3, §4).
//!
//! A line is `{tool, annotations, security, trust, config, grants}`; its answer is `{effective_risk, validators,
//! confirm, missing_permissions}`. An unreadable line is answered with the strictest requirements and an `error`.
//!
//! ```sh
//! echo '{"tool":"rm","security":{"risk_level":"safe"},"trust":"sandboxed"}' | cargo run -q -p mgp-programs --bin policy
//! # {"effective_risk":"dangerous","validators":[],"confirm":true,"missing_permissions":[]}
//! ```

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::SystemTime;

use mgp_security::{
    Access, Assessment, ConfirmFrom, ConfirmRule, NamedTool, Permissions, Policies, ServerPolicy,
};
use mgp_types::mcp::{Tool, ToolAnnotations};
use mgp_types::mgp::{ApprovalPolicy, Permission, RiskLevel, TrustLevel, Validator};
use mgp_types::service::{MemoryAudit, Principal, ServerId};
use mgp_types::store::{Change, MemoryStore, Store};
use mgp_types::{Lenient, Payload, RpcError, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The tenant of all entries. Each input line is about this tenant and the server `SERVER`.
const TENANT: &str = "local";
const SERVER: &str = "server";

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().split(b'\n') {
        let answer =
            std::str::from_utf8(&line?).map_or_else(|_| Answer::unreadable("no UTF-8"), answer);
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

/// The answer to a line: what a call of the tool requires.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Answer {
    /// The risk level after the operator's settings and the trust level are applied.
    pub(crate) effective_risk: RiskLevel,
    /// The validators that the arguments of the call must pass.
    pub(crate) validators: Vec<Validator>,
    /// `true` if a person must confirm the call before it runs.
    pub(crate) confirm: bool,
    /// The permissions that the call needs and the server does not have.
    pub(crate) missing_permissions: Vec<Permission>,
    /// The reason why the line could not be read; `None` if it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl Answer {
    fn unreadable(error: impl Into<String>) -> Self {
        Self {
            effective_risk: RiskLevel::Dangerous,
            validators: Vec::new(),
            confirm: true,
            missing_permissions: Vec::new(),
            error: Some(error.into()),
        }
    }
}

/// Returns the answer to a line; for an unreadable line, the answer with the strictest requirements.
pub(crate) fn answer(line: &str) -> Answer {
    decide(line).unwrap_or_else(Answer::unreadable)
}

#[derive(Deserialize)]
struct Line {
    tool: Value,
    description: Option<Value>,
    #[serde(alias = "inputSchema")]
    input_schema: Option<Value>,
    annotations: Option<Value>,
    security: Option<Value>,
    #[serde(alias = "trust_level")]
    trust: Option<String>,
    #[serde(default)]
    config: Option<Config>,
    #[serde(default)]
    grants: Value,
    now: Option<Timestamp>,
}

/// The operator's configuration of the server.
#[derive(Default, Deserialize)]
struct Config {
    #[serde(alias = "trust_level")]
    trust: Option<String>,
    risk: Option<Value>,
    #[serde(alias = "validator")]
    validators: Option<Value>,
    confirm: Option<String>,
    permissions: Option<Vec<Permission>>,
    permission_policy: Option<ApprovalPolicy>,
}

/// Returns a setting for a tool. The setting is configured as one value for all tools, or as a table of values by tool
/// name.
fn word<'a>(words: Option<&'a Value>, tool: &str) -> Result<Option<&'a str>, String> {
    let words = match words {
        Some(Value::Object(by_tool)) => by_tool.get(tool),
        words => words,
    };
    match words {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(word)) => Ok(Some(word)),
        Some(Value::Array(list)) if matches!(list[..], [Value::String(_)]) => Ok(list[0].as_str()),
        Some(other) => Err(format!("`{other}` is not a word")),
    }
}

/// A decision of the operator about a permission, or about access to a tool.
#[derive(Deserialize)]
struct Grant {
    permission: String,
    decision: Option<String>,
    #[serde(default)]
    tools: Vec<String>,
    entry_type: Option<String>,
    tool_name: Option<String>,
    confirm: Option<String>,
    expires_at: Option<Timestamp>,
}

fn decide(line: &str) -> Result<Answer, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let tool = line.definition()?;
    let policy = line.policy(&tool.name)?;
    let grants = grants(&line.grants)?;
    let now = match &line.now {
        Some(now) => now.to_system_time().ok_or("`now` is not an RFC 3339 time")?,
        None => SystemTime::now(),
    };
    let assessment = Assessment::of(&tool, &policy);
    let books = tokio::runtime::Builder::new_current_thread().build();
    let books = books.map_err(|error| error.to_string())?;
    let (named, missing) = books
        .block_on(kept(&policy, &grants, &tool.name, &assessment.permissions, now))
        .map_err(|error| error.to_string())?;
    Ok(Answer {
        confirm: assessment.needs_confirmation(&policy, named.as_ref()),
        missing_permissions: missing,
        effective_risk: assessment.effective_risk,
        validators: assessment.validators,
        error: None,
    })
}

/// Stores the grants, and returns their effect on the call: the operator's entry that names the tool, if any, and the
/// missing permissions.
async fn kept(
    policy: &ServerPolicy,
    grants: &[Grant],
    tool: &str,
    needed: &[Permission],
    now: SystemTime,
) -> Result<(Option<NamedTool>, Vec<Permission>), RpcError> {
    let store = MemoryStore::new();
    let mut change = Change::new();
    // Store denials last: if several decisions are about one permission, the last one counts, and a denial must win.
    let (denied, others): (Vec<_>, Vec<_>) =
        grants.iter().partition(|grant| grant.decision.as_deref() == Some("denied"));
    for (number, grant) in others.into_iter().chain(denied).enumerate() {
        if grant.entry_type.is_some() {
            change = change.put("access", number.to_string(), grant.entry()?);
        } else {
            for approval in grant.approvals(now) {
                let key = json!([TENANT, SERVER, approval["permission"]]).to_string();
                change = change.put("permissions", key, Payload::of(&approval)?);
            }
        }
    }
    store.commit(change).await?;
    let (store, policies) = (Arc::new(store), Policies::with_default(policy.clone()));
    let audit = || Arc::new(MemoryAudit::bounded(0));
    let access = Access::new(store.clone(), audit(), policies.clone()).clock(move || now);
    let permissions = Permissions::new(store, audit(), policies, None);
    access.open().await?;
    permissions.open().await?;

    let (caller, server) = (Principal::new(TENANT, "caller"), ServerId::from(SERVER));
    let by_access = access.named(&caller, Some(&server), tool, now).map(|entry| entry.confirm);
    let by_permission = permissions.names_tool(&caller, Some(&server), tool, now);
    let words: Vec<_> = by_access.into_iter().chain(by_permission.map(|it| it.confirm)).collect();
    let naming = NamedTool::by("grant");
    let named = if words.contains(&Some(ConfirmRule::Never)) {
        Some(naming.never_confirm())
    } else {
        words.first().map(|_| naming)
    };
    let missing = permissions.missing(&caller, Some(&server), tool, needed, None, now);
    Ok((named, missing.into_iter().map(|lack| lack.permission).collect()))
}

impl Line {
    /// Returns the tool definition of the line; malformed declarations of the server count as absent.
    fn definition(&self) -> Result<Tool, String> {
        let mut members = match &self.tool {
            Value::String(name) => Map::from_iter([("name".to_owned(), json!(name))]),
            Value::Object(members) => members.clone(),
            _ => return Err("`tool` is neither a name nor a definition".to_owned()),
        };
        for (name, value) in [
            ("description", &self.description),
            ("inputSchema", &self.input_schema),
            ("annotations", &self.annotations),
            ("security", &self.security),
        ] {
            if let Some(value) = value {
                members.insert(name.to_owned(), value.clone());
            }
        }
        let schema = members.remove("input_schema");
        let schema = members.remove("inputSchema").or(schema).filter(Value::is_object);
        let name = members.get("name").cloned().unwrap_or_default();
        let mut tool: Tool =
            read(&json!({"name": name, "inputSchema": schema.unwrap_or_else(|| json!({}))}))?;
        let annotations = members.get("annotations").filter(|value| !value.is_null());
        tool.annotations = annotations.and_then(|value| read::<ToolAnnotations>(value).ok());
        if let Some(security) = members.get("security").filter(|value| !value.is_null()) {
            tool.security = Some(read::<Lenient<_>>(security)?);
        }
        tool.meta = members.get("_meta").and_then(|meta| read(meta).ok());
        Ok(tool)
    }

    /// Returns the operator's policy for the server, from `trust` and `config`.
    fn policy(&self, tool: &str) -> Result<ServerPolicy, String> {
        let none = Config::default();
        let config = self.config.as_ref().unwrap_or(&none);
        let mut policy = ServerPolicy::default();
        if let Some(trust) = self.trust.as_ref().or(config.trust.as_ref()) {
            policy.trust = TrustLevel::from(trust.as_str());
        }
        if let Some(risk) = word(config.risk.as_ref(), tool)? {
            policy.risk.insert(tool.to_owned(), RiskLevel::from(risk));
        }
        if let Some(validator) = word(config.validators.as_ref(), tool)? {
            policy.validators.insert(tool.to_owned(), Validator::from(validator));
        }
        policy.confirm = match config.confirm.as_deref() {
            None | Some("dangerous") => ConfirmFrom::Dangerous,
            Some("moderate") => ConfirmFrom::Moderate,
            Some(other) => {
                return Err(format!("`confirm` is `{other}`; known: moderate, dangerous"));
            }
        };
        let listed = config.permissions.iter().flatten();
        policy.permissions = Permission::canonical(listed);
        if let Some(approval) = &config.permission_policy {
            policy.permission_policy = approval.clone();
        }
        Ok(policy)
    }
}

/// Parses the grants: a list of permission names or entries, one entry, or an object of decisions by permission.
fn grants(value: &Value) -> Result<Vec<Grant>, String> {
    let entries: Vec<Value> = match value {
        Value::Null => Vec::new(),
        Value::Array(entries) => entries
            .iter()
            .map(|entry| match entry {
                Value::String(name) => json!({"permission": name, "decision": "approved"}),
                other => other.clone(),
            })
            .collect(),
        Value::Object(entry) if entry.contains_key("entry_type") => vec![value.clone()],
        Value::Object(by_name) => by_name
            .iter()
            .map(|(name, decision)| {
                let mut entry = match decision {
                    Value::Object(entry) => entry.clone(),
                    word => Map::from_iter([("decision".to_owned(), word.clone())]),
                };
                entry.insert("permission".to_owned(), json!(name));
                Value::Object(entry)
            })
            .collect(),
        _ => return Err("`grants` is neither a list nor an object".to_owned()),
    };
    entries.iter().map(read).collect()
}

impl Grant {
    /// Returns the grant as an access entry that applies to every agent.
    fn entry(&self) -> Result<Payload, RpcError> {
        let allows = self.permission == "allow";
        let entry = json!({
            "tenant": TENANT,
            "access": {
                "entry_type": self.entry_type,
                "agent_id": "*",
                "server_id": SERVER,
                "tool_name": self.tool_name,
                "permission": if allows { "allow" } else { "deny" },
                "expires_at": self.expires_at,
            },
            "confirm": self.never().filter(|_| allows),
        });
        Payload::of(&entry)
    }

    /// Returns the permission records of the grant; an undecided grant has none.
    fn approvals(&self, now: SystemTime) -> Vec<Value> {
        let decision = self.decision.as_deref();
        let Some(decision) = decision.filter(|word| matches!(*word, "approved" | "denied")) else {
            return Vec::new();
        };
        let named = Permission::from(self.permission.as_str());
        let record = |permission: &Permission| {
            json!({
                "tenant": TENANT,
                "server": SERVER,
                "permission": permission,
                "decision": decision,
                "source": "operator",
                "tools": self.tools,
                "confirm": self.never(),
                "approved_by": "operator",
                "approved_at": Timestamp::from(now),
                "expires_at": self.expires_at,
            })
        };
        Permission::canonical([&named]).iter().map(record).collect()
    }

    fn never(&self) -> Option<&str> {
        self.confirm.as_deref().filter(|word| *word == "never")
    }
}

/// Converts a JSON value to a type by way of its text: some types keep their JSON text (`RawValue`), and cannot be
/// built from a `Value`.
fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())
}
