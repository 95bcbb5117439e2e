//! The layers. Each of them wraps a service in a [`DecisionService`] with the rules of one section of the
//! specification.
//!
//! Applies to: inbound and outbound.

use std::sync::Arc;

use mgp_types::mgp::Validator;
use mgp_types::service::ServerId;
use tower_layer::Layer;

use super::DecisionService;
use crate::access::Access;
use crate::decision::{ServerName, Sources};
use crate::definition::Definitions;
use crate::permission::Permissions;
use crate::policy::Policies;
use crate::tool::{Assess, Confirmations, Validate, Validators};

/// Implements `Debug` and [`Layer`] for a layer that wraps a service in a [`DecisionService`] with the layer's rules.
macro_rules! gate_layer {
    ($layer:ident) => {
        mgp_types::opaque_debug!($layer);

        impl<S> Layer<S> for $layer {
            type Service = DecisionService<S>;

            fn layer(&self, inner: S) -> DecisionService<S> {
                DecisionService::new(inner, Arc::new(self.0.clone()))
            }
        }
    };
}

/// Adds a method to layers that sets the server of calls whose context names no server.
macro_rules! default_server {
    ($($layer:ident),+) => {
        $(impl $layer {
            /// Sets the server whose tools are called, for calls whose context names no server, as on the server's own
            /// stack.
            pub fn server(mut self, id: impl Into<ServerId>) -> Self {
                self.0.server = ServerName::Default(Some(id.into()));
                self
            }
        })+
    };
}

/// Layer that allows only the calls that [`Access`] allows, and removes everything else from lists.
///
/// - A `tools/call` is allowed if the caller has access to the tool. A refusal has code 1001 (access denied) and names
///   the agent, the server, the tool, the kind of entry or policy that decided, and a remedy. A `tools/list` is
///   filtered by the same decision.
/// - Resources, prompts and completion belong to the server as a whole, so the entry for the server or the policy
///   decides. Without access, calls are refused with code 1001 (access denied), and lists are empty.
/// - Credentials ([`CredentialGrant`](mgp_types::service::CredentialGrant)) restrict this further: credentials for
///   single tools do not permit to use anything else of a server. Expired credentials are refused with code 1003
///   (authentication expired).
///
/// ```
/// use mgp_security::{Access, AccessLayer, Policies};
/// use mgp_types::Payload;
/// use mgp_types::mgp::{AccessGrantParams, AccessPermission, EntryType};
/// use mgp_types::service::{Principal, Reply, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let access = Access::in_memory(Policies::default());
/// let tools = Stack::from_fn(|_| async {
///     Ok(Reply::raw(Payload::from_trusted(r#"{"tools":[{"name":"read"},{"name":"write"}]}"#)))
/// });
/// let mut client = mock::client(Stack::new(AccessLayer::new(access.clone()).server("files").layer(tools)));
/// assert_eq!(client.request("tools/call", r#"{"name":"read"}"#).await.unwrap_err().code().0, 1001);
///
/// let mut grant = AccessGrantParams::new(EntryType::ToolGrant, "local", "files", AccessPermission::Allow);
/// grant.tool_name = Some("read".to_owned());
/// access.grant(&Principal::local().operator(), grant).await.unwrap();
/// assert!(client.request("tools/call", r#"{"name":"read"}"#).await.is_ok());
/// assert_eq!(client.request("tools/list", "{}").await.unwrap().as_str(), r#"{"tools":[{"name":"read"}]}"#);
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct AccessLayer(Sources);

gate_layer!(AccessLayer);

impl AccessLayer {
    /// Creates a layer that uses these access entries.
    pub fn new(access: Access) -> Self {
        let policies = access.policies().clone();
        Self(Sources { access: Some(access), ..Sources::new(policies) })
    }

    /// Sets the server for which access is decided, even if the context of a call names another server.
    ///
    /// Without this method, a call whose context names no server is decided by the default policy, because no entry can
    /// refer to an unnamed server.
    pub fn server(mut self, id: impl Into<ServerId>) -> Self {
        self.0.server = ServerName::Always(id.into());
        self
    }
}

/// Layer that lists and calls tools only while their current definition is the approved one.
///
/// On an outbound stack, the layer reads each `tools/list` and pins new definitions. From the list it removes the tools
/// whose definition waits for approval or is refused; it refuses calls of them with code 4002 (tool disabled). Before a
/// call of a tool that was not listed yet, the layer itself lists the server's tools.
///
/// ```
/// use mgp_security::{DefinitionLayer, Definitions, Policies};
/// use mgp_types::ErrorCode;
/// use mgp_types::service::{Reply, Stack, mock};
/// use mgp_types::Payload;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use std::sync::Arc;
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// // A server that lists another definition the second time it is asked.
/// let asked = Arc::new(AtomicUsize::new(0));
/// let server = Stack::from_fn(move |call| {
///     let lists = call.method().as_str() == "tools/list";
///     let time = if lists { asked.fetch_add(1, Ordering::Relaxed) } else { 0 };
///     let tools = format!(r#"{{"tools":[{{"name":"add","description":"Version {time}.","inputSchema":{{}}}}]}}"#);
///     async move { Ok(if lists { Reply::raw(Payload::from_trusted(tools)) } else { Reply::empty() }) }
/// });
/// let layer = DefinitionLayer::new(Definitions::in_memory(Policies::default())).server("calculator");
/// let mut client = mock::client(Stack::new(layer.layer(server)));
///
/// client.request("tools/call", r#"{"name":"add"}"#).await.unwrap();
/// let tools = client.request("tools/list", "{}").await.unwrap();
/// assert_eq!(tools.as_str(), r#"{"tools":[]}"#);
/// let error = client.request("tools/call", r#"{"name":"add"}"#).await.unwrap_err();
/// assert_eq!(error.code(), ErrorCode::TOOL_DISABLED);
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct DefinitionLayer(Sources);

gate_layer!(DefinitionLayer);

impl DefinitionLayer {
    /// Creates a layer that uses these definitions.
    pub fn new(definitions: Definitions) -> Self {
        let policies = definitions.policies().clone();
        Self(Sources { definitions: Some(definitions), ..Sources::new(policies) })
    }
}

/// Layer that allows a tool call only while every permission it needs is granted to the tool's server, has not expired,
/// and covers the call's arguments.
///
/// ```
/// use mgp_security::{Definitions, PermissionChange, PermissionLayer, Permissions, Policies};
/// use mgp_types::mgp::{Permission, RiskLevel, ToolSecurity};
/// use mgp_types::service::{Principal, Reply, Stack, mock};
/// use mgp_types::{RawObject, mcp};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let policies = Policies::default();
/// let permissions = Permissions::in_memory(policies.clone());
/// let definitions = Definitions::in_memory(policies);
/// let mut camera = mcp::Tool::new("look", RawObject::empty());
/// let mut security = ToolSecurity::new(RiskLevel::Dangerous);
/// security.permissions_required = vec![Permission::Camera].into();
/// camera.security = Some(security.into());
/// definitions.learn(None, &[camera]);
///
/// let gate = PermissionLayer::new(permissions.clone(), definitions);
/// let tools = Stack::from_fn(|_| async { Ok(Reply::empty()) });
/// let mut client = mock::client(Stack::new(gate.layer(tools)));
/// let refused = client.request("tools/call", r#"{"name":"look"}"#).await.unwrap_err();
/// assert_eq!(refused.code().0, 1000);
///
/// let operator = Principal::local().operator();
/// permissions.approve(&operator, PermissionChange::new(None, [Permission::Camera])).await.unwrap();
/// client.request("tools/call", r#"{"name":"look"}"#).await.unwrap();
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct PermissionLayer(Sources);

gate_layer!(PermissionLayer);

impl PermissionLayer {
    /// Creates a layer that uses these permissions; `tools` determines which permissions a tool needs.
    pub fn new(permissions: Permissions, tools: impl Assess + 'static) -> Self {
        let policies = permissions.policies().clone();
        Self(Sources {
            permissions: Some(permissions),
            tools: Some(Arc::new(tools)),
            ..Sources::new(policies)
        })
    }
}

/// Layer that checks the arguments of a call with the validators of its tool. A call that fails a check or cannot be
/// checked is blocked with code 1010 (validation blocked).
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
pub struct ValidateLayer(Sources);

gate_layer!(ValidateLayer);

impl ValidateLayer {
    /// Creates a layer in which no validator is installed yet, so it blocks each call of a tool that needs one. `tools`
    /// determines which validators apply to a tool.
    pub fn new(tools: impl Assess + 'static) -> Self {
        Self(Sources {
            validators: Some(Validators::default()),
            tools: Some(Arc::new(tools)),
            ..Sources::new(Policies::default())
        })
    }

    /// Sets the check that runs for a validator's name; it replaces an earlier check for that name.
    pub fn validator(mut self, name: Validator, check: impl Validate + 'static) -> Self {
        self.0.validators.get_or_insert_default().insert(name, Arc::new(check));
        self
    }
}

/// Layer that runs dangerous calls only after they were confirmed (§4.4); works on inbound and on outbound stacks.
///
/// ```
/// use std::sync::Arc;
/// use mgp_security::{Assessment, ConfirmLayer, Confirmations, ElicitApprover, NamedTool, Policies};
/// use mgp_types::ErrorCode;
/// use mgp_types::service::{Context, Reply, ServerId, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let named = |_: &Context, _: Option<&ServerId>, tool: &str| {
///     (tool == "wipe").then(|| NamedTool::by("tool_grant of ada"))
/// };
/// let confirmations = Confirmations::new(Policies::default(), ElicitApprover::everyone()).named(named);
/// let unknown = |_: Option<&ServerId>, _: &str| Arc::new(Assessment::unknown());
/// let tools = Stack::from_fn(|_| async { Ok(Reply::empty()) });
/// let mut client = mock::client(Stack::new(ConfirmLayer::new(confirmations, unknown).layer(tools)));
///
/// client.request("tools/call", r#"{"name":"wipe"}"#).await.unwrap();
/// // This client answers no questions, so the other call cannot be confirmed.
/// let refused = client.request("tools/call", r#"{"name":"format"}"#).await.unwrap_err();
/// assert_eq!(refused.code(), ErrorCode::PERMISSION_DENIED);
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct ConfirmLayer(Sources);

gate_layer!(ConfirmLayer);

impl ConfirmLayer {
    /// Creates a layer that obtains confirmations through `confirmations`; `tools` determines which calls are risky.
    pub fn new(confirmations: Confirmations, tools: impl Assess + 'static) -> Self {
        let policies = confirmations.policies().clone();
        Self(Sources {
            confirmations: Some(confirmations),
            tools: Some(Arc::new(tools)),
            ..Sources::new(policies)
        })
    }
}

default_server!(DefinitionLayer, PermissionLayer, ValidateLayer, ConfirmLayer);
