//! The operator's policy for each server. No other part of the configuration can make a rule less strict (MGP §3.3, §4,
//! §5.5).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::LocalHost;
use mgp_types::mgp::{
    ApprovalPolicy, DefaultPolicy, Permission, PermissionScope, RiskLevel, TrustLevel, Validator,
};
use mgp_types::service::ServerId;
use mgp_types::sync::RwLock;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::hooks::{HookState, Hooks};

/// The operator's policy for one server.
///
/// ```
/// use mgp_security::ServerPolicy;
/// use mgp_types::mgp::{Permission, RiskLevel, TrustLevel};
///
/// let policy = ServerPolicy::default()
///     .trust(TrustLevel::Sandboxed)
///     .permissions([Permission::FilesystemRead])
///     .risk("search", RiskLevel::Safe);
/// assert_eq!(policy.risk["search"], RiskLevel::Safe);
/// ```
///
/// In a configuration, absent members have their defaults; unknown members and unknown values are errors:
///
/// ```
/// use mgp_security::ServerPolicy;
/// use mgp_types::mgp::TrustLevel;
///
/// let policy: ServerPolicy = serde_json::from_str(r#"{"trust":"sandboxed","permissions":["filesystem.read"]}"#).unwrap();
/// assert_eq!(policy.trust, TrustLevel::Sandboxed);
/// let error = serde_json::from_str::<ServerPolicy>(r#"{"trust":"trustworthy"}"#).unwrap_err();
/// assert!(error.to_string().starts_with("unknown word `trustworthy`; known: trusted, standard, "), "{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerPolicy {
    /// The operator's trust in the server; nothing that the server claims about itself changes it. Default: `standard`.
    #[serde(deserialize_with = "trust_level")]
    pub trust: TrustLevel,
    /// The access of callers to whom no entry applies. Default: `opt-in`, i.e. no access.
    pub default_policy: DefaultPolicy,
    /// The only tenants whose callers may have access; no entry and no policy allows it to callers of other tenants.
    /// The tenant `local` is not included unless it is listed. Default: the callers of all tenants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants: Option<BTreeSet<String>>,
    /// The way permissions are approved. Default: `interactive`.
    #[serde(deserialize_with = "approval_policy")]
    pub permission_policy: ApprovalPolicy,
    /// Permissions that `auto_approve` does not grant; for these permissions, the policy `interactive` applies. They
    /// can be short names or have wildcards, e.g. `filesystem.*`; wildcards also cover names that the specification
    /// does not define.
    pub auto_approve_except: Vec<Permission>,
    /// The permissions that this configuration grants.
    pub permissions: Vec<Permission>,
    /// The permissions that each call of the server needs, whatever the server and its tools declare.
    pub permissions_required: Vec<Permission>,
    /// The limits of the granted [`permissions`](Self::permissions). Each limit applies only to the permissions that it
    /// concerns, e.g. `hosts` to `network.outbound`. Only limits of paths, hosts, ports and commands have an effect
    /// here; with an unknown limit, no permission that the configuration grants is within the limits. A list that is
    /// empty in the configuration's text allows nothing.
    pub permission_limits: PermissionScope,
    /// The permissions that the server never gets, even if they are granted elsewhere; written as in
    /// [`auto_approve_except`](Self::auto_approve_except).
    pub denied: Vec<Permission>,
    /// The risk of single tools by name; replaces the computed risk.
    #[serde(deserialize_with = "risk_levels")]
    pub risk: BTreeMap<String, RiskLevel>,
    /// The validator of single tools by name; replaces the validators that would apply otherwise.
    pub validators: BTreeMap<String, Validator>,
    /// Hosts outside of the public internet that calls of the server may reach, although its validators refuse others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub local_hosts: Vec<LocalHost>,
    /// The lowest risk at which a call must be confirmed. Default: `dangerous`.
    pub confirm: ConfirmFrom,
    /// `true` if the arguments of calls are checked against the schemas of the tools (feature `schemas`). Default:
    /// `false`.
    pub check_schemas: bool,
    /// `true` if the validators that fit the arguments of a tool apply in addition to the validators that the server
    /// declares. Default: `false`.
    pub default_validators: bool,
}

impl Default for ServerPolicy {
    fn default() -> Self {
        Self {
            trust: TrustLevel::Standard,
            default_policy: DefaultPolicy::OptIn,
            tenants: None,
            permission_policy: ApprovalPolicy::Interactive,
            auto_approve_except: Vec::new(),
            permissions: Vec::new(),
            permissions_required: Vec::new(),
            permission_limits: PermissionScope::default(),
            denied: Vec::new(),
            risk: BTreeMap::new(),
            validators: BTreeMap::new(),
            local_hosts: Vec::new(),
            confirm: ConfirmFrom::default(),
            check_schemas: false,
            default_validators: false,
        }
    }
}

impl ServerPolicy {
    /// Sets the operator's trust in the server.
    #[must_use]
    pub fn trust(mut self, trust: TrustLevel) -> Self {
        self.trust = trust;
        self
    }

    /// Sets the access of callers to whom no entry applies.
    #[must_use]
    pub fn default_policy(mut self, policy: DefaultPolicy) -> Self {
        self.default_policy = policy;
        self
    }

    /// Limits access to the callers of some tenants. The tenant `local` is treated as any other.
    #[must_use]
    pub fn tenants(mut self, tenants: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tenants = Some(tenants.into_iter().map(Into::into).collect());
        self
    }

    fn admits(&self, tenant: &str) -> bool {
        self.tenants.as_ref().is_none_or(|tenants| tenants.contains(tenant))
    }

    /// Returns the default policy for the callers of a tenant; `opt-in` if this policy excludes the tenant, because it
    /// may have replaced the policy by which the tenant was checked.
    pub(crate) fn default_for(&self, tenant: &str) -> DefaultPolicy {
        if self.admits(tenant) { self.default_policy } else { DefaultPolicy::OptIn }
    }

    /// Sets how permissions are approved.
    #[must_use]
    pub fn permission_policy(mut self, policy: ApprovalPolicy) -> Self {
        self.permission_policy = policy;
        self
    }

    /// Adds permissions that `auto_approve` does not grant.
    #[must_use]
    pub fn auto_approve_except(mut self, except: impl IntoIterator<Item = Permission>) -> Self {
        self.auto_approve_except.extend(except);
        self
    }

    /// Returns the approval policy that applies to one permission, taking the exceptions from `auto_approve` into
    /// account.
    pub(crate) fn decides(&self, permission: &Permission) -> &ApprovalPolicy {
        match &self.permission_policy {
            ApprovalPolicy::AutoApprove if withholds(&self.auto_approve_except, permission) => {
                &ApprovalPolicy::Interactive
            }
            policy => policy,
        }
    }

    /// Adds permissions that the configuration grants.
    #[must_use]
    pub fn permissions(mut self, permissions: impl IntoIterator<Item = Permission>) -> Self {
        self.permissions.extend(permissions);
        self
    }

    /// Adds permissions that each call of the server needs, whatever the server and its tools declare.
    #[must_use]
    pub fn permissions_required(mut self, all: impl IntoIterator<Item = Permission>) -> Self {
        self.permissions_required.extend(all);
        self
    }

    /// Sets the limits of the permissions that the configuration grants.
    #[must_use]
    pub fn permission_limits(mut self, limits: PermissionScope) -> Self {
        self.permission_limits = limits;
        self
    }

    /// Denies permissions, even if they are granted elsewhere, e.g. by an operator's approval.
    ///
    /// ```
    /// use mgp_security::{Permissions, Policies, ServerPolicy};
    /// use mgp_types::mgp::{ApprovalPolicy, Permission};
    /// use mgp_types::service::Principal;
    /// use std::time::SystemTime;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let policies = Policies::default();
    /// let lenient = ServerPolicy::default().permission_policy(ApprovalPolicy::AutoApprove);
    /// policies.set("made", lenient.permissions(["*".into()]).deny([Permission::ShellExecute]));
    /// let permissions = Permissions::in_memory(policies);
    /// let needed = [Permission::ShellExecute, Permission::FilesystemRead];
    /// let missing = permissions.missing(
    ///     &Principal::local(), Some(&"made".into()), "run", &needed, None, SystemTime::now());
    /// assert_eq!(missing.len(), 1);
    /// assert_eq!(missing[0].permission, Permission::ShellExecute);
    /// # });
    /// ```
    #[must_use]
    pub fn deny(mut self, permissions: impl IntoIterator<Item = Permission>) -> Self {
        self.denied.extend(permissions);
        self
    }

    /// Sets the risk of a tool; replaces the computed risk.
    #[must_use]
    pub fn risk(mut self, tool: impl Into<String>, risk: RiskLevel) -> Self {
        self.risk.insert(tool.into(), risk);
        self
    }

    /// Sets the validator of a tool; replaces the validators that would apply otherwise.
    #[must_use]
    pub fn validator(mut self, tool: impl Into<String>, validator: Validator) -> Self {
        self.validators.insert(tool.into(), validator);
        self
    }

    /// Adds hosts outside of the public internet that calls of the server may reach. The standard validators refuse all
    /// others.
    ///
    /// ```
    /// use mgp_security::ServerPolicy;
    /// use mgp_types::LocalHost;
    ///
    /// let host: LocalHost = "localhost:3000".parse().unwrap();
    /// let policy = ServerPolicy::default().local_hosts([host]);
    /// assert_eq!(policy.local_hosts[0].to_string(), "localhost:3000");
    /// ```
    #[must_use]
    pub fn local_hosts(mut self, hosts: impl IntoIterator<Item = LocalHost>) -> Self {
        self.local_hosts.extend(hosts);
        self
    }

    /// Sets whether the arguments of calls are checked against the schemas of the tools (feature `schemas`).
    #[must_use]
    pub fn check_schemas(mut self, check: bool) -> Self {
        self.check_schemas = check;
        self
    }

    /// Sets whether the validators that fit the arguments of a tool apply in addition to the validators that the server
    /// declares.
    #[must_use]
    pub fn default_validators(mut self, apply: bool) -> Self {
        self.default_validators = apply;
        self
    }

    /// Sets the lowest risk at which a call must be confirmed.
    #[must_use]
    pub fn confirm(mut self, from: ConfirmFrom) -> Self {
        self.confirm = from;
        self
    }
}

/// Returns whether a list of permissions to withhold contains a permission: by its name, a short name or a wildcard.
///
/// Unlike the wildcards of granted permissions, these also cover permissions that the specification does not define,
/// and need no dot before the `*`.
pub(crate) fn withholds(list: &[Permission], permission: &Permission) -> bool {
    let names = permission.expand();
    list.iter().any(|entry| match entry.as_str().strip_suffix('*') {
        Some(prefix) => names.iter().any(|name| name.as_str().starts_with(prefix)),
        None => entry.expand().iter().any(|name| names.contains(name)),
    })
}

fn trust_level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TrustLevel, D::Error> {
    let trust = TrustLevel::deserialize(deserializer)?;
    if trust.is_known() { Ok(trust) } else { Err(unknown(&trust, TrustLevel::KNOWN)) }
}

fn approval_policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ApprovalPolicy, D::Error> {
    let policy = ApprovalPolicy::deserialize(deserializer)?;
    if policy.is_known() { Ok(policy) } else { Err(unknown(&policy, ApprovalPolicy::KNOWN)) }
}

fn risk_levels<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, RiskLevel>, D::Error> {
    let risks = BTreeMap::<String, RiskLevel>::deserialize(deserializer)?;
    match risks.values().find(|risk| !risk.is_known()) {
        Some(risk) => Err(unknown(risk, RiskLevel::KNOWN)),
        None => Ok(risks),
    }
}

/// Creates the error for an unknown value. In messages, an unknown value counts as the strictest value, but in a
/// configuration it is a mistake.
fn unknown<E: de::Error, T: fmt::Display>(word: &T, known: &[T]) -> E {
    let known: Vec<_> = known.iter().map(ToString::to_string).collect();
    E::custom(format_args!("unknown word `{word}`; known: {}", known.join(", ")))
}

/// The lowest effective risk at which a call must be confirmed (MGP §4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ConfirmFrom {
    /// Moderate and dangerous calls must be confirmed.
    Moderate,
    /// Only dangerous calls must be confirmed.
    #[default]
    Dangerous,
}

/// The effect of a grant on the confirmation of the calls that it allows (MGP §4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ConfirmRule {
    /// The calls never need a confirmation, even if the server demands one.
    Never,
    /// The grant changes nothing about confirmations, although it names the tool.
    Usual,
}

/// The policies of all servers; a change takes effect with the next message.
///
/// Policies are the operator's configuration. Changes made through this type are not recorded in the audit log: the
/// program that loads the configuration must record them. At run time use
/// [`Governance::set_policy`](crate::Governance::set_policy), which records the change.
///
/// ```
/// use mgp_security::{Policies, ServerPolicy};
/// use mgp_types::mgp::{DefaultPolicy, TrustLevel};
///
/// let policies = Policies::default();
/// assert_eq!(policies.get(Some(&"files".into())).default_policy, DefaultPolicy::OptIn);
///
/// policies.set("files", ServerPolicy::default().default_policy(DefaultPolicy::OptOut));
/// assert_eq!(policies.get(Some(&"files".into())).default_policy, DefaultPolicy::OptOut);
/// ```
#[derive(Clone, Default)]
pub struct Policies(Arc<PolicyStore>);

#[derive(Default)]
struct PolicyStore {
    now: RwLock<Table>,
    /// `true` if any policy limits the tenants, so that a decision reads the table only then.
    limits_tenants: AtomicBool,
    hooks: Hooks,
}

#[derive(Clone, Default)]
struct Table {
    fallback: Arc<ServerPolicy>,
    servers: HashMap<ServerId, Arc<ServerPolicy>>,
}

impl Policies {
    /// Creates policies with a general policy, which applies to every server that has no policy of its own.
    #[must_use]
    pub fn with_default(policy: ServerPolicy) -> Self {
        let policies = Self::default();
        policies.write(|table| table.fallback = Arc::new(policy));
        policies
    }

    /// Returns the policy of a server, or the general policy if `server` is `None`, i.e. for the tools of this process.
    #[must_use]
    pub fn get(&self, server: Option<&ServerId>) -> Arc<ServerPolicy> {
        let table = self.0.now.read();
        let own = server.and_then(|server| table.servers.get(server));
        Arc::clone(own.unwrap_or(&table.fallback))
    }

    /// Sets the policy of a server.
    pub fn set(&self, server: impl Into<ServerId>, policy: ServerPolicy) {
        let server = server.into();
        self.write(|table| {
            table.servers.insert(server, Arc::new(policy));
        });
    }

    /// Removes the policy of a server; the general policy applies to it from then on.
    pub fn remove(&self, server: &ServerId) {
        self.write(|table| {
            table.servers.remove(server);
        });
    }

    /// Returns whether the callers of a tenant may have access to a server, i.e. whether
    /// [`tenants`](ServerPolicy::tenants) of its policy does not exclude them.
    #[inline]
    #[must_use]
    pub fn admits(&self, server: Option<&str>, tenant: &str) -> bool {
        if !self.0.limits_tenants.load(Ordering::Acquire) {
            return true;
        }
        let table = self.0.now.read();
        let own = server.and_then(|server| table.servers.get(server));
        own.unwrap_or(&table.fallback).admits(tenant)
    }

    /// Returns whether a server has a policy of its own, as all configured and registered servers have.
    pub(crate) fn has(&self, server: &str) -> bool {
        self.0.now.read().servers.contains_key(server)
    }

    /// Registers a hook that runs after each change of a policy.
    pub fn on_change<L: Into<HookState>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        self.0.hooks.add(hook);
    }

    fn write(&self, change: impl FnOnce(&mut Table)) {
        let mut table = self.0.now.write();
        change(&mut table);
        let is_limited = |policy: &Arc<ServerPolicy>| policy.tenants.is_some();
        let limits_tenants = is_limited(&table.fallback) || table.servers.values().any(is_limited);
        self.0.limits_tenants.store(limits_tenants, Ordering::Release);
        drop(table);
        self.0.hooks.run();
    }
}

mgp_types::opaque_debug!(Policies);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_round_trips() {
        let policy = ServerPolicy::default()
            .trust(TrustLevel::Experimental)
            .default_policy(DefaultPolicy::OptOut)
            .tenants(["acme"])
            .permission_policy(ApprovalPolicy::AutoApprove)
            .permissions([Permission::FilesystemRead])
            .risk("search", RiskLevel::Safe)
            .validator("run", Validator::Sandbox)
            .local_hosts(["localhost:3000".parse().unwrap()])
            .confirm(ConfirmFrom::Moderate);
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<ServerPolicy>(&text).unwrap(), policy);
        assert_eq!(serde_json::from_str::<ServerPolicy>("{}").unwrap(), ServerPolicy::default());
    }

    #[test]
    fn a_server_admits_only_the_tenants_of_its_policy() {
        let policies = Policies::default();
        let admits = |server: &str| {
            ["acme", "beta", "local"].map(|tenant| policies.admits(Some(server), tenant))
        };
        assert_eq!(admits("files"), [true; 3]);
        policies.set("files", ServerPolicy::default().tenants(["acme"]));
        assert_eq!((admits("files"), admits("other")), ([true, false, false], [true; 3]));
        policies.set("files", ServerPolicy::default().tenants(["local"]));
        assert_eq!(admits("files"), [false, false, true]);
        policies.set("files", ServerPolicy::default().tenants([""; 0]));
        assert_eq!(admits("files"), [false; 3]);
        policies.remove(&"files".into());
        assert_eq!(admits("files"), [true; 3]);
        let general = Policies::with_default(ServerPolicy::default().tenants(["acme"]));
        assert!(general.admits(None, "acme") && !general.admits(None, "beta"));
        let open = ServerPolicy::default().default_policy(DefaultPolicy::OptOut).tenants(["acme"]);
        assert_eq!(open.default_for("acme"), DefaultPolicy::OptOut);
        assert_eq!(open.default_for("beta"), DefaultPolicy::OptIn);
    }

    #[test]
    fn a_wildcard_withholds_every_name_that_it_begins() {
        for (entry, withheld, other) in [
            ("shell*", "shell.execute", "filesystem.read"),
            ("code*", "code_execution", "shell.execute"),
            ("filesystem.*", "filesystem.chown", "network.outbound"),
        ] {
            let policy = ServerPolicy::default()
                .permission_policy(ApprovalPolicy::AutoApprove)
                .auto_approve_except([Permission::from(entry)]);
            let decides = |name: &str| policy.decides(&Permission::from(name)).clone();
            assert_eq!(decides(withheld), ApprovalPolicy::Interactive, "{entry}");
            assert_eq!(decides(other), ApprovalPolicy::AutoApprove, "{entry}");
        }
        let all = [Permission::from("*")];
        assert!(withholds(&all, &Permission::CodeExecution));
    }

    #[test]
    fn unknown_words_are_errors() {
        for text in [
            r#"{"trusted":"core"}"#,
            r#"{"trust":"kore"}"#,
            r#"{"default_policy":"opt_in"}"#,
            r#"{"permission_policy":"ask"}"#,
            r#"{"risk":{"search":"low"}}"#,
            r#"{"confirm":"safe"}"#,
            r#"{"local_hosts":["169.254.169.254"]}"#,
        ] {
            assert!(serde_json::from_str::<ServerPolicy>(text).is_err(), "{text}");
        }
    }
}
