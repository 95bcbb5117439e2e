//! The set of validators, and the description of the call that they check.

use crate::{
    code::{self, CodePolicy},
    network::{self, NetworkRules, Resolver},
    readonly,
    rejection::Rejection,
    shell,
};
use mgp_types::LocalHost;
use mgp_types::mgp::{TrustLevel, Validator};
use serde_json::Value;
use std::sync::Arc;

static NOTHING: Value = Value::Null;

/// A tool call, with the information that validators need about it.
#[derive(Debug, Clone)]
pub struct GuardedCall<'a> {
    tool: &'a str,
    arguments: &'a Value,
    definition: &'a Value,
    trust: TrustLevel,
    code: Option<CodePolicy>,
    urls: Vec<String>,
    hosts: Vec<String>,
    local_hosts: &'a [LocalHost],
    allows_files: bool,
}

impl<'a> GuardedCall<'a> {
    /// Creates a call of a tool without declarations, on a server that is not trusted.
    #[must_use]
    pub fn new(tool: &'a str, arguments: &'a Value) -> Self {
        Self {
            tool,
            arguments,
            definition: &NOTHING,
            trust: TrustLevel::Sandboxed,
            code: None,
            urls: Vec::new(),
            hosts: Vec::new(),
            local_hosts: &[],
            allows_files: false,
        }
    }

    /// Sets the definition of the tool as the server listed it, with its `annotations` and `security`.
    #[must_use]
    pub fn definition(mut self, definition: &'a Value) -> Self {
        self.definition = definition;
        self
    }

    /// Sets the trust level of the server.
    #[must_use]
    pub fn trust(mut self, trust: TrustLevel) -> Self {
        self.trust = trust;
        self
    }

    /// Sets the names of the arguments that the definition declares as URLs and as hosts; `network_restricted` checks
    /// these as such, whatever their names suggest.
    #[must_use]
    pub fn targets(mut self, urls: Vec<String>, hosts: Vec<String>) -> Self {
        (self.urls, self.hosts) = (urls, hosts);
        self
    }

    /// Sets hosts outside of the public internet that the call may reach. `network_restricted` and `sandbox` let them
    /// pass, and so does `code_safety` in scripts of a shell.
    ///
    /// ```
    /// use mgp_types::{LocalHost, mgp::Validator};
    /// use mgp_validators::{GuardedCall, ValidatorSet};
    /// use serde_json::json;
    ///
    /// let local: [LocalHost; 1] = ["localhost:3000".parse().unwrap()];
    /// let check = |command: &str| {
    ///     let arguments = json!({ "command": command });
    ///     let call = GuardedCall::new("execute_command", &arguments).local_hosts(&local);
    ///     ValidatorSet::new().check(&Validator::Sandbox, &call).is_ok()
    /// };
    /// assert!(check("curl http://localhost:3000/health"));
    /// assert!(!check("curl http://localhost:5432/"));
    /// ```
    #[must_use]
    pub fn local_hosts(mut self, hosts: &'a [LocalHost]) -> Self {
        self.local_hosts = hosts;
        self
    }

    /// Lets `network_restricted` pass arguments that are the URL of a file on this machine. The program that calls this
    /// method must have checked that the call may use these files.
    #[must_use]
    pub fn allow_file_urls(mut self) -> Self {
        self.allows_files = true;
        self
    }

    /// Returns the name of the tool and, unless its server is sandboxed, its definition.
    fn named(&self) -> (&'a str, &'a Value) {
        (self.tool, if self.trust == TrustLevel::Sandboxed { &NOTHING } else { self.definition })
    }

    /// Sets the effective rules for code. Without them, the rules in the definition apply.
    #[must_use]
    pub fn code(mut self, policy: CodePolicy) -> Self {
        self.code = Some(policy);
        self
    }
}

/// The standard validators of §4.5. They block a call if they cannot judge its arguments.
///
/// ```
/// use mgp_types::mgp::Validator;
/// use mgp_validators::{GuardedCall, ValidatorSet};
/// use serde_json::json;
///
/// let validators = ValidatorSet::new();
/// let arguments = json!({"command": "git status; rm -rf /"});
/// let rejection = validators.check(&Validator::Sandbox, &GuardedCall::new("execute_command", &arguments)).unwrap_err();
/// assert_eq!(rejection.reason(), "the operator `;`");
/// ```
#[derive(Debug, Clone, Default)]
pub struct ValidatorSet {
    resolver: Option<Arc<dyn Resolver>>,
}

impl ValidatorSet {
    /// Creates the validators without a resolver for host names.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the resolver that `network_restricted` uses to get the addresses of host names.
    #[must_use]
    pub fn resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// Checks a call with the validator of this name. An unknown name blocks the call.
    ///
    /// # Errors
    /// [`Rejection`] if the call is blocked.
    pub fn check(&self, validator: &Validator, call: &GuardedCall<'_>) -> Result<(), Rejection> {
        let network = NetworkRules::new().local_hosts(call.local_hosts);
        self.check_by(validator, call, network).map_err(|rejection| {
            let uses_list = matches!(validator, Validator::Sandbox | Validator::NetworkRestricted);
            let passes =
                uses_list && self.check_by(validator, call, network.any_local_host()).is_ok();
            if passes { rejection.of_local_host() } else { rejection }
        })
    }

    /// Checks a call with the validator of this name, by these rules for hosts.
    fn check_by(
        &self,
        validator: &Validator,
        call: &GuardedCall<'_>,
        network: NetworkRules<'_>,
    ) -> Result<(), Rejection> {
        let reject = |reason: String| Rejection::new(validator.clone(), reason);
        match validator {
            Validator::None => Ok(()),
            Validator::Sandbox => {
                shell::check(call.named(), call.arguments, network).map_err(reject)
            }
            Validator::Readonly => {
                readonly::check(call.tool, call.definition, call.arguments, &call.trust)
                    .map_err(reject)
            }
            Validator::NetworkRestricted => {
                let rules = match &self.resolver {
                    Some(resolver) => network.resolver(&**resolver),
                    None => network,
                };
                let rules = if call.allows_files { rules.allow_files() } else { rules };
                let declared = (&call.urls[..], &call.hosts[..]);
                network::check(call.named(), call.arguments, declared, rules).map_err(reject)
            }
            Validator::CodeSafety => match &call.code {
                Some(policy) => code::check_arguments(policy, call.arguments, network),
                None => code::check_arguments(
                    &CodePolicy::of_definition(call.definition)?,
                    call.arguments,
                    network,
                ),
            },
            unknown => Err(reject(format!(
                "unknown validator `{unknown}`; known: sandbox, readonly, network_restricted, code_safety, none"
            ))),
        }
    }
}
