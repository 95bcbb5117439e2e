//! The checks of arguments before a call (MGP §4.5).
//!
//! A tool whose check is not there is blocked, whatever it is called: an unknown check is no reason to skip it.
//!
//! Applies to: both.

use std::collections::HashMap;
use std::fmt;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_types::mgp::Validator;
use mgp_types::service::{Call, Either, MgpService, Reply, Rule, ServerId, Start};
use mgp_types::{Object, Payload, RpcError};
use tower_layer::Layer;
use tower_service::Service;

use super::{Assess, Assessment};
use crate::error::Refusal;

/// One of the checks of §4.5; it looks at a call and never waits.
pub trait Validate: Send + Sync {
    /// Checks the arguments of a call.
    ///
    /// # Errors
    /// What is wrong with them, in words for whoever called; an argument that cannot be judged is wrong.
    fn check(&self, call: &Call, assessment: &Assessment) -> Result<(), Violation>;
}

impl Validate for Arc<dyn Validate> {
    fn check(&self, call: &Call, assessment: &Assessment) -> Result<(), Violation> {
        (**self).check(call, assessment)
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

impl Violation {
    /// Says what is wrong.
    #[must_use]
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

/// A call that was blocked by a check, or for want of one.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{tool}` was not run: {found}")]
pub struct ValidationBlocked {
    tool: String,
    server: Option<ServerId>,
    validator: Validator,
    found: Found,
    #[source]
    rule: Rule,
}

#[derive(Clone, Debug, thiserror::Error)]
enum Found {
    #[error(
        "its validator `{0}` is not there; an operator sets another one for it, or `none`, in `validators` of its server"
    )]
    Missing(Validator),
    #[error("{0}")]
    Violation(Violation),
}

impl ValidationBlocked {
    fn new(server: Option<&ServerId>, tool: &str, validator: &Validator, found: Found) -> Self {
        let rule = match found {
            Found::Missing(_) => format!("validator {validator}: not there"),
            Found::Violation(_) => format!("validator {validator}"),
        };
        Self {
            tool: tool.to_owned(),
            server: server.cloned(),
            validator: validator.clone(),
            found,
            rule: Rule::new(rule),
        }
    }

    /// The facts of the refusal (§14.5).
    pub(crate) fn details(&self) -> Object {
        let mut details = Object::new();
        // Words can always be written.
        let mut put = |name: &str, value: &str| drop(details.encode(name, value));
        put("tool", &self.tool);
        if let Some(server) = &self.server {
            put("server_id", server.as_str());
        }
        put("validator", self.validator.as_str());
        match &self.found {
            Found::Missing(_) => {
                put("status", "not_there");
                let remedy = "an operator sets `none` or another validator for this tool";
                put("remedy", &format!("{remedy} in `validators` of its server's configuration"));
            }
            Found::Violation(violation) => {
                put("status", "rejected");
                put("violation", &violation.0);
            }
        }
        details
    }
}

/// Checks arguments before a call, and blocks what it cannot check (1010).
///
/// ```
/// use std::sync::Arc;
/// use mgp_security::{Assessment, ServerPolicy, ValidateLayer};
/// use mgp_types::ErrorCode;
/// use mgp_types::mcp::Tool;
/// use mgp_types::service::{Reply, ServerId, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let definition = r#"{"name":"run","inputSchema":{},"security":{"risk_level":"safe","validator":"sandbox"}}"#;
/// let tool: Tool = serde_json::from_str(definition).unwrap();
/// let assessment = Arc::new(Assessment::of(&tool, &ServerPolicy::default()));
/// let known = move |_: Option<&ServerId>, _: &str| Arc::clone(&assessment);
/// let tools = Stack::from_fn(|_| async { Ok(Reply::empty()) });
/// let mut client = mock::client(Stack::new(ValidateLayer::new(known).layer(tools)));
///
/// let blocked = client.request("tools/call", r#"{"name":"run"}"#).await.unwrap_err();
/// assert_eq!(blocked.code(), ErrorCode::VALIDATION_BLOCKED);
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct ValidateLayer {
    tools: Arc<dyn Assess>,
    validators: Arc<HashMap<Validator, Arc<dyn Validate>>>,
    server: Option<ServerId>,
}

impl ValidateLayer {
    /// A layer without any check, about tools as they are known there.
    pub fn new(tools: impl Assess + 'static) -> Self {
        Self { tools: Arc::new(tools), validators: Arc::default(), server: None }
    }

    /// Provides a check, in place of one of that name.
    pub fn validator(mut self, name: Validator, check: impl Validate + 'static) -> Self {
        Arc::make_mut(&mut self.validators).insert(name, Arc::new(check));
        self
    }

    /// Names the server whose tools are called, where the context does not: on the server's own stack.
    pub fn server(mut self, id: impl Into<ServerId>) -> Self {
        self.server = Some(id.into());
        self
    }

    pub(crate) fn check(&self, call: &Call) -> Result<(), Refusal> {
        let Some(tool) = call.tool() else { return Ok(()) };
        let server = call.cx().server.as_ref().or(self.server.as_ref());
        let assessment = self.tools.assessment(server, tool.name);
        let mut applied = Vec::new();
        let mut check = |validator: &Validator| match self.validators.get(validator) {
            Some(check) => {
                applied.push(validator.as_str().to_owned());
                check.check(call, &assessment).map_err(Found::Violation)
            }
            None => Err(Found::Missing(validator.clone())),
        };
        let blocked = assessment.validators.iter().find_map(|validator| {
            let found = check(validator).err()?;
            Some(ValidationBlocked::new(server, tool.name, validator, found))
        });
        note_applied(call, &applied);
        blocked.map_or(Ok(()), |blocked| Err(blocked.into()))
    }
}

/// Notes the validators that looked at a call, for its record.
fn note_applied(call: &Call, applied: &[String]) {
    if !applied.is_empty()
        && let Some(start) = call.cx().extensions.get::<Start>()
        && let Ok(words) = Payload::of(&applied.join(", "))
    {
        start.note("validator_applied", words);
    }
}

impl fmt::Debug for ValidateLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.validators.keys()).finish()
    }
}

impl<S> Layer<S> for ValidateLayer {
    type Service = Validated<S>;

    fn layer(&self, inner: S) -> Validated<S> {
        Validated { inner, layer: Arc::new(self.clone()) }
    }
}

/// Service of [`ValidateLayer`].
#[derive(Clone)]
pub struct Validated<S> {
    inner: S,
    layer: Arc<ValidateLayer>,
}

impl<S> fmt::Debug for Validated<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Validated")
    }
}

impl<S: MgpService> Service<Call> for Validated<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, Ready<Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        match self.layer.check(&call) {
            Ok(()) => Either::Left { future: self.inner.call(call) },
            Err(refusal) => Either::Right { future: ready(Err(refusal.into())) },
        }
    }
}
