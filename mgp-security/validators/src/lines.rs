//! Test cases as lines of JSON, with which other programs can check the validators.

use crate::{CodePolicy, GuardedCall, NetworkRules, Resolver, ValidatorSet};
use mgp_types::mgp::{CodeSafety, TrustLevel, Validator};
use mgp_types::{LocalHost, UniqueJson};
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::IpAddr};

/// The kind of a test case, i.e. the validator that judges it. The member `local_hosts` lists the local hosts that
/// pass; `readonly` ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseKind {
    /// The member `input` is a command, or the arguments of a call.
    Sandbox,
    /// The member `kind` is `url`, `host` or `args`; for `args`, `tool` may name the tool. The members `resolve`,
    /// `resolve_seq` and `redirect_chain` simulate the answers of the network; without `resolve` and `resolve_seq`,
    /// names are not resolved.
    NetworkRestricted,
    /// The member `input` has `tool`, `arguments` and `trust_level`.
    Readonly,
    /// The member `input` is code. The other members are `language`, `level`, and `config`, the name of a set of lists
    /// that [`Cases::configs`] has read.
    CodeSafety,
}

impl CaseKind {
    /// All kinds with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("sandbox", Self::Sandbox),
        ("network_restricted", Self::NetworkRestricted),
        ("readonly", Self::Readonly),
        ("code_safety", Self::CodeSafety),
    ];

    /// Returns the kind that has the given name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

/// A judge of test cases.
#[derive(Debug)]
pub struct Cases {
    kind: CaseKind,
    configs: BTreeMap<String, Value>,
    validators: ValidatorSet,
}

impl Cases {
    /// Creates a judge for one kind of test cases.
    #[must_use]
    pub fn new(kind: CaseKind) -> Self {
        Self { kind, configs: BTreeMap::new(), validators: ValidatorSet::new() }
    }

    /// Reads the lists of imports and patterns (§7.3) to which test cases with code refer by name.
    ///
    /// # Errors
    /// An error with the position at which the text is not a JSON object.
    pub fn configs(mut self, text: &str) -> Result<Self, serde_json::Error> {
        self.configs = serde_json::from_str(text)?;
        Ok(self)
    }

    /// Judges a test case.
    ///
    /// # Errors
    /// The reason why the call in the test case is blocked.
    pub fn judge(&self, line: &str) -> Result<(), String> {
        let UniqueJson(case) = serde_json::from_str(line)
            .map_err(|error| format!("the line cannot be read: {error}"))?;
        match self.kind {
            CaseKind::Sandbox => self.sandbox(&case),
            CaseKind::NetworkRestricted => network(&case),
            CaseKind::Readonly => self.readonly(&case),
            CaseKind::CodeSafety => self.code(&case),
        }
    }

    fn sandbox(&self, case: &Value) -> Result<(), String> {
        let tool = text(case, "tool").unwrap_or("execute_command");
        let arguments = match &case["input"] {
            Value::String(command) => json!({ text(case, "arg").unwrap_or("command"): command }),
            arguments => arguments.clone(),
        };
        let local = local_hosts(case)?;
        let call = GuardedCall::new(tool, &arguments).local_hosts(&local);
        self.check(&Validator::Sandbox, &call)
    }

    fn readonly(&self, case: &Value) -> Result<(), String> {
        let input = &case["input"];
        let trust = input
            .get("trust_level")
            .map_or(Ok(TrustLevel::Sandboxed), |trust| serde_json::from_value(trust.clone()));
        let trust = trust.map_err(|error| format!("`trust_level` cannot be read: {error}"))?;
        let tool = text(&input["tool"], "name").ok_or("the tool has no name")?;
        let call =
            GuardedCall::new(tool, &input["arguments"]).definition(&input["tool"]).trust(trust);
        self.check(&Validator::Readonly, &call)
    }

    fn code(&self, case: &Value) -> Result<(), String> {
        let code = text(case, "input").ok_or("`input` is not code")?;
        let name = text(case, "config").unwrap_or("default");
        let mut rules = match self.configs.get(name) {
            Some(rules) => rules.clone(),
            None if case.get("config").is_none() => json!({}),
            None => {
                return Err(format!("the lists `{name}` are unknown; `--configs FILE` has them"));
            }
        };
        for member in ["level", "language"] {
            if let (Some(rules), Some(value)) = (rules.as_object_mut(), case.get(member)) {
                rules.insert(member.to_owned(), value.clone());
            }
        }
        let rules: CodeSafety = serde_json::from_value(rules)
            .map_err(|error| format!("the lists cannot be read: {error}"))?;
        let local = local_hosts(case)?;
        let network = NetworkRules::new().local_hosts(&local);
        let policy = CodePolicy::new(&rules);
        policy.check_with(code, network).map_err(|rejection| rejection.to_string())
    }

    fn check(&self, validator: &Validator, call: &GuardedCall<'_>) -> Result<(), String> {
        self.validators.check(validator, call).map_err(|rejection| rejection.to_string())
    }
}

/// A resolver that returns the addresses in a test case for every name.
#[derive(Debug)]
struct Answers(Vec<IpAddr>);

impl Resolver for Answers {
    fn resolve(&self, _: &str) -> Vec<IpAddr> {
        self.0.clone()
    }
}

fn network(case: &Value) -> Result<(), String> {
    let addresses = |value: &Value| -> Result<Vec<IpAddr>, String> {
        let list = value.as_array().ok_or("a list of addresses is expected")?;
        list.iter()
            .map(|one| {
                one.as_str()
                    .and_then(|one| one.parse().ok())
                    .ok_or_else(|| format!("`{one}` is not an address"))
            })
            .collect()
    };
    let rounds: Vec<Vec<IpAddr>> = match (case.get("resolve_seq"), case.get("resolve")) {
        (Some(Value::Array(rounds)), _) => {
            rounds.iter().map(addresses).collect::<Result<_, _>>()?
        }
        (None, Some(resolve)) => vec![addresses(resolve)?],
        _ => Vec::new(),
    };
    // If the test case gives no addresses, the validator judges host names by their text only, as a kernel without a
    // resolver does.
    let is_resolved = ["resolve", "resolve_seq"].iter().any(|name| case.get(*name).is_some());
    let answers = is_resolved.then(|| Answers(rounds.first().cloned().unwrap_or_default()));
    let local = local_hosts(case)?;
    let rules = NetworkRules::new().local_hosts(&local);
    let rules = match &answers {
        Some(answers) => rules.resolver(answers),
        None => rules,
    };
    let redirects: Vec<&str> =
        case["redirect_chain"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match (text(case, "kind"), &case["input"]) {
        (Some("url") | None, Value::String(url)) => rules.check_redirects(url, &redirects)?,
        (Some("host"), Value::String(host)) => rules.check_host(host)?,
        (Some("args"), arguments) => {
            let mut validators = ValidatorSet::new();
            if let Some(Answers(addresses)) = &answers {
                validators = validators.resolver(std::sync::Arc::new(Answers(addresses.clone())));
            }
            let tool = text(case, "tool").unwrap_or("call");
            let call = GuardedCall::new(tool, arguments).local_hosts(&local);
            validators
                .check(&Validator::NetworkRestricted, &call)
                .map_err(|rejection| rejection.to_string())?;
        }
        (kind, _) => return Err(format!("unknown kind {kind:?} of input; known: url, host, args")),
    }
    // Check the addresses to which the name resolves at the moment of the connection.
    rounds.iter().skip(1).flatten().try_for_each(|address| rules.check_connect(*address))
}

fn local_hosts(case: &Value) -> Result<Vec<LocalHost>, String> {
    let Some(hosts) = case.get("local_hosts") else { return Ok(Vec::new()) };
    serde_json::from_value(hosts.clone())
        .map_err(|error| format!("`local_hosts` cannot be read: {error}"))
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}
