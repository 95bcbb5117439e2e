//! Says what a call of a tool needs, for definitions and policies that come in as lines of JSON (MGP §3, §4).
//!
//! A line is `{tool, annotations, security, trust, config, grants}`; the answer to it is
//! `{effective_risk, validators, confirm, missing_permissions}`.
//! What cannot be read is answered as the worst there is, with the reason.
//!
//! ```sh
//! echo '{"tool":"rm","security":{"risk_level":"safe"},"trust":"sandboxed"}' | cargo run -q -p mgp-security --all-features --example policy
//! # {"effective_risk":"dangerous","validators":[],"confirm":true,"missing_permissions":[]}
//! ```
//!
//! Applies to: both.

use std::io::{self, BufRead, Write};
use std::time::SystemTime;

use mgp_security::{Assessment, ConfirmFrom, Naming, ServerPolicy};
use mgp_types::mcp::{Tool, ToolAnnotations};
use mgp_types::mgp::{ApprovalPolicy, Permission, RiskLevel, TrustLevel, Validator};
use mgp_types::{Lenient, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

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

/// What a call of a tool needs.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Answer {
    /// How dangerous it is.
    pub(crate) effective_risk: RiskLevel,
    /// The checks its arguments must pass.
    pub(crate) validators: Vec<Validator>,
    /// Whether a person must confirm it before it runs.
    pub(crate) confirm: bool,
    /// The permissions it needs and does not have.
    pub(crate) missing_permissions: Vec<Permission>,
    /// Why the line could not be read.
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

/// Answers one line.
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

/// What the operator says about the server.
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

/// The word for a tool: one word for whichever it is, or words by tool.
fn word<'a>(words: Option<&'a Value>, tool: &str) -> Result<Option<&'a str>, String> {
    let words = match words {
        Some(Value::Object(by_tool)) => by_tool.get(tool),
        words => words,
    };
    match words {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(word)) => Ok(Some(word)),
        Some(Value::Array(list)) if matches!(list[..], [Value::String(_)]) => Ok(list[0].as_str()),
        Some(other) => Err(format!("`{other}` is no word")),
    }
}

/// An entry of an operator: about a permission, or about access to a tool.
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
        Some(now) => now.to_system_time().ok_or("`now` is no RFC 3339 time")?,
        None => SystemTime::now(),
    };
    let assessment = Assessment::of(&tool, &policy);
    let named = naming(&grants, &tool.name, now);
    let missing = |needed: &&Permission| !is_granted(&policy, &grants, needed, &tool.name, now);
    Ok(Answer {
        confirm: assessment.needs_confirmation(&policy, named.as_ref()),
        missing_permissions: assessment.permissions.iter().filter(missing).cloned().collect(),
        effective_risk: assessment.effective_risk,
        validators: assessment.validators,
        error: None,
    })
}

impl Line {
    /// The definition; what a server wrote wrongly counts as absent.
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

    /// The operator's policy for the server.
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

/// All grants, in whatever form they came.
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
    fn is_over(&self, now: SystemTime) -> bool {
        // An end that cannot be read has passed.
        self.expires_at
            .as_ref()
            .is_some_and(|end| end.to_system_time().is_none_or(|end| end <= now))
    }

    fn is_about(&self, permission: &Permission) -> bool {
        self.entry_type.is_none()
            && Permission::from(self.permission.as_str()).expand().contains(permission)
    }

    /// Whether an operator named this tool in its favour.
    fn names(&self, tool: &str) -> bool {
        match self.entry_type.as_deref() {
            Some("tool_grant") => {
                self.permission == "allow" && self.tool_name.as_deref() == Some(tool)
            }
            Some(_) => false,
            None => {
                self.decision.as_deref() == Some("approved")
                    && self.tools.iter().any(|named| named == tool)
            }
        }
    }
}

/// The entry that names the tool; one that says `never` before others.
fn naming(grants: &[Grant], tool: &str, now: SystemTime) -> Option<Naming> {
    let named = || grants.iter().filter(|grant| grant.names(tool) && !grant.is_over(now));
    let entry = Naming::by("grant");
    if named().any(|grant| grant.confirm.as_deref() == Some("never")) {
        return Some(entry.never_confirm());
    }
    named().next().map(|_| entry)
}

/// Whether a server has a permission for calls of a tool (§3.3).
fn is_granted(
    policy: &ServerPolicy,
    grants: &[Grant],
    permission: &Permission,
    tool: &str,
    now: SystemTime,
) -> bool {
    let listed = policy.permissions.iter().any(|listed| covers(listed, permission));
    let decided = || grants.iter().filter(|grant| grant.is_about(permission));
    let says = |grant: &Grant, word: &str| grant.decision.as_deref() == Some(word);
    let in_scope =
        |grant: &Grant| grant.tools.is_empty() || grant.tools.iter().any(|named| named == tool);
    match policy.permission_policy {
        ApprovalPolicy::ConfigOnly => return listed,
        ApprovalPolicy::Interactive | ApprovalPolicy::AutoApprove | ApprovalPolicy::DenyAll => {}
        _ => return false,
    }
    if decided().any(|grant| says(grant, "denied") && !grant.is_over(now)) {
        return false;
    }
    if decided().any(|grant| says(grant, "approved")) {
        // Time never opens anything: what has ended is asked for again.
        return decided()
            .any(|grant| says(grant, "approved") && !grant.is_over(now) && in_scope(grant));
    }
    listed || policy.permission_policy == ApprovalPolicy::AutoApprove && permission.is_valid()
}

/// Whether an entry of the configuration is for a permission; a wildcard is for those of the specification only.
fn covers(listed: &Permission, permission: &Permission) -> bool {
    match listed.as_str().strip_suffix('*') {
        Some("") => permission.is_known(),
        Some(family) => {
            permission.is_known()
                && family.ends_with('.')
                && permission.as_str().starts_with(family)
        }
        None => listed == permission,
    }
}

/// Reads a value by way of its text, because some types keep text.
fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())
}
