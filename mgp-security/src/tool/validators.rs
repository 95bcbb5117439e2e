//! The checks of arguments before a call (MGP §4.5).
//!
//! If no check is installed under the name of the validator that a tool requires, calls of the tool are blocked, even
//! if this program does not know the name.

use std::collections::HashMap;
use std::sync::Arc;

use mgp_types::mgp::{CodeRejection, TrustLevel, Validator};
use mgp_types::service::{Call, Rule, ServerId};
use mgp_types::{LocalHost, Object, mcp};

use super::assessment::Assessment;
use crate::ServerPolicy;

/// A check of arguments, which is registered under the name of a validator in §4.5. It must not block.
pub trait Validate: Send + Sync {
    /// Checks the arguments of a call; `checked.call.tool_arguments().get::<T>()` decodes them.
    ///
    /// # Errors
    /// [`Violation`] with a description for the caller. An argument that cannot be judged must be treated as a
    /// violation.
    fn check(&self, checked: &CheckedCall<'_>) -> Result<(), Violation>;
}

/// A call, with the information that validators need about it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CheckedCall<'a> {
    /// The call whose arguments are checked.
    pub call: &'a Call,
    /// The name of the validator that runs.
    pub validator: &'a Validator,
    /// The assessment of the called tool.
    pub assessment: &'a Assessment,
    /// The definition of the tool as its server lists it, if it is known.
    pub definition: Option<&'a mcp::Tool>,
    /// The operator's trust in the server of the tool.
    pub trust: &'a TrustLevel,
    /// `true` if a permission of the call limits the paths, and all paths among the arguments are within the limits,
    /// also the paths in URLs of files.
    pub limits_paths: bool,
    /// The hosts outside of the public internet that the operator permits to calls of the server.
    pub local_hosts: &'a [LocalHost],
}

/// The URLs that a kernel itself has put into the arguments of a call. From them the tool reads the data to which a
/// reference refers. These URLs are stored in the extensions of the call's context, and no validator judges where they
/// lead.
#[derive(Clone, Debug, Default)]
pub struct KernelUrls(pub Vec<String>);

impl Validate for Arc<dyn Validate> {
    fn check(&self, checked: &CheckedCall<'_>) -> Result<(), Violation> {
        (**self).check(checked)
    }
}

/// The violation that a validator found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct Violation {
    reason: String,
    code: Option<Box<CodeRejection>>,
    is_of_local_host: bool,
}

impl Violation {
    /// Creates a violation described by `words`, which the caller sees.
    #[must_use]
    pub fn new(words: impl Into<String>) -> Self {
        Self { reason: words.into(), code: None, is_of_local_host: false }
    }

    /// Creates the violation for a call that is blocked only because of hosts that an operator can permit with
    /// `local_hosts`.
    #[must_use]
    pub fn of_local_host(words: impl Into<String>) -> Self {
        Self { is_of_local_host: true, ..Self::new(words) }
    }

    /// Creates the violation for code that is not accepted; `body` is the rejection for the caller (§7.4).
    #[must_use]
    pub fn of_code(words: impl Into<String>, body: CodeRejection) -> Self {
        Self { code: Some(Box::new(body)), ..Self::new(words) }
    }
}

/// The error for a call that a validator blocked, or for which a required validator is not installed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{tool}` was not run: {cause}")]
pub struct ValidationBlocked {
    tool: String,
    server: Option<ServerId>,
    validator: Validator,
    cause: Cause,
    #[source]
    rule: Rule,
}

#[derive(Clone, Debug, thiserror::Error)]
enum Cause {
    #[error(
        "its validator `{0}` is not installed; an operator sets another one for it, or `none`, in `validators` of its server"
    )]
    Missing(Validator),
    #[error("{0}")]
    Violation(Violation),
}

impl ValidationBlocked {
    fn new(server: Option<&ServerId>, tool: &str, validator: &Validator, cause: Cause) -> Self {
        let rule = match cause {
            Cause::Missing(_) => format!("validator {validator}: not there"),
            Cause::Violation(_) => format!("validator {validator}"),
        };
        Self {
            tool: tool.to_owned(),
            server: server.cloned(),
            validator: validator.clone(),
            cause,
            rule: Rule::new(rule),
        }
    }

    /// Returns whether the call was blocked because its code is not accepted.
    pub(crate) fn is_of_code(&self) -> bool {
        matches!(&self.cause, Cause::Violation(violation) if violation.code.is_some())
    }

    /// Returns whether the call was blocked only because of hosts that an operator can permit with `local_hosts`.
    #[must_use]
    pub fn is_of_local_host(&self) -> bool {
        matches!(&self.cause, Cause::Violation(violation) if violation.is_of_local_host)
    }

    /// Returns the error's structured details for the caller (§14.5).
    pub(crate) fn details(&self) -> Object {
        let details = Object::new()
            .with("tool", &self.tool)
            .with_optional("server_id", self.server.as_ref().map(ServerId::as_str))
            .with("validator", self.validator.as_str());
        match &self.cause {
            Cause::Missing(_) => {
                let remedy = "an operator sets `none` or another validator for this tool in `validators` of \
                              its server's configuration";
                details.with("status", "not_there").with("remedy", remedy)
            }
            Cause::Violation(violation) => {
                let code = violation.code.as_ref();
                details
                    .with("status", "rejected")
                    .with("violation", &violation.reason)
                    .with_optional("reason", code.map(|code| &code.reason))
                    .with_optional("violations", code.map(|code| &code.violations))
                    .with_optional("hints", code.map(|code| &code.hints))
            }
        }
    }
}

/// The installed checks by the name of their validator.
#[derive(Clone, Default)]
pub(crate) struct Validators(Arc<HashMap<Validator, Arc<dyn Validate>>>);

/// The result of running the validators of one call.
pub(crate) struct Validation {
    /// The validators that checked the call, in the order in which they ran.
    pub(crate) applied: Vec<Validator>,
    /// The number of `applied` validators that found no violation.
    pub(crate) passed: usize,
    pub(crate) blocked: Option<Box<ValidationBlocked>>,
}

impl Validators {
    /// Adds a check under a name; it replaces an earlier check with that name.
    pub(crate) fn insert(&mut self, name: Validator, check: Arc<dyn Validate>) {
        Arc::make_mut(&mut self.0).insert(name, check);
    }

    /// Checks the arguments of a call. The first validator that finds a violation or is not installed blocks the call.
    pub(crate) fn check(
        &self,
        (call, server, tool): (&Call, Option<&ServerId>, &str),
        assessment: &Assessment,
        definition: Option<&mcp::Tool>,
        policy: &ServerPolicy,
        limits_paths: bool,
    ) -> Validation {
        let mut applied = Vec::new();
        for (passed, validator) in assessment.validators.iter().enumerate() {
            let checked = match self.0.get(validator) {
                Some(check) => {
                    applied.push(validator.clone());
                    let checked = CheckedCall {
                        call,
                        validator,
                        assessment,
                        definition,
                        trust: &policy.trust,
                        limits_paths,
                        local_hosts: &policy.local_hosts,
                    };
                    check.check(&checked).map_err(Cause::Violation)
                }
                None => Err(Cause::Missing(validator.clone())),
            };
            if let Err(cause) = checked {
                let blocked = ValidationBlocked::new(server, tool, validator, cause);
                return Validation { applied, passed, blocked: Some(Box::new(blocked)) };
            }
        }
        Validation { passed: applied.len(), applied, blocked: None }
    }
}
