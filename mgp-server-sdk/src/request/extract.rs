//! What a function behind a prompt, resource or completion may take.
//!
//! Applies to: inbound.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use mgp_types::mcp::{self, PromptArgument};
use mgp_types::service::{Context, Deadline, Extensions, Outlet, Peer, Principal};
use mgp_types::{Payload, RawObject, RpcError};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::text;
use crate::log::Logger;
use crate::tool::{
    Args, Cancelled, FromCall, Grants, Need, SessionInfo, State, ToolRequest, Trace,
};

/// A prompt, a resource or a completion that was asked for; its arguments are text.
#[derive(Clone, Debug)]
pub struct TextRequest {
    pub(crate) name: String,
    pub(crate) arguments: BTreeMap<String, String>,
    pub(crate) typed: Option<Typed>,
    pub(crate) cx: Context,
    pub(crate) state: Arc<Extensions>,
}

impl TextRequest {
    /// The prompt's name, or the resource's URI.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arguments of the prompt, or the variables of the template, decoded.
    #[must_use]
    pub fn arguments(&self) -> &BTreeMap<String, String> {
        &self.arguments
    }

    /// The surroundings of the call.
    #[must_use]
    pub fn cx(&self) -> &Context {
        &self.cx
    }

    /// The server's state of a type, see [`State`].
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.state.get_shared()
    }

    /// What is around the request, as extractors of tools look at it.
    fn surroundings(&self) -> ToolRequest {
        static NO_TOOL: LazyLock<Arc<mcp::Tool>> =
            LazyLock::new(|| Arc::new(mcp::Tool::new("", RawObject::empty())));
        ToolRequest {
            definition: Arc::clone(&NO_TOOL),
            arguments: Payload::empty_object(),
            cx: self.cx.clone(),
            state: Arc::clone(&self.state),
        }
    }
}

/// An argument of a function behind a prompt, resource or completion.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::{FromRequest, Prompt, TextRequest};
///
/// /// The agent that asks.
/// struct Agent(String);
///
/// impl FromRequest for Agent {
///     fn from_request(request: &TextRequest) -> Result<Self, RpcError> {
///         let agent = request.cx().principal.as_agent();
///         Ok(Self(agent.map_or_else(|| "nobody".to_owned(), ToString::to_string)))
///     }
/// }
///
/// let who = Prompt::new("who", "Says who asks", |Agent(name): Agent| async move { name });
/// # drop(who);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of this function",
    note = "take the arguments as `Args<T>`, the URI as `Uri`, what is being typed as `Typed`, and besides them what a tool takes: `State<T>`, `Context`, `Principal`, `Logger` and so on"
)]
pub trait FromRequest: Sized + Send {
    /// Takes it from the request.
    ///
    /// # Errors
    /// The answer of the call when it cannot be taken.
    fn from_request(request: &TextRequest) -> Result<Self, RpcError>;

    /// The arguments it reads, as a prompt lists them.
    #[must_use]
    fn arguments() -> Option<Vec<PromptArgument>> {
        None
    }

    /// What it needs of the server; checked when the server is built.
    #[must_use]
    fn needs() -> Vec<Need> {
        Vec::new()
    }
}

/// The URI that is read, as the caller wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Uri(pub String);

/// The argument that is being typed, in a completion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Typed {
    /// Its name.
    pub argument: String,
    /// What was typed so far.
    pub value: String,
}

impl Typed {
    /// The proposals that begin with what was typed, whatever the case of their letters.
    pub fn matching<I>(&self, proposals: I) -> Vec<String>
    where
        I: IntoIterator<Item: Into<String>>,
    {
        let typed = self.value.to_lowercase();
        let begins = |proposal: &String| proposal.to_lowercase().starts_with(&typed);
        proposals.into_iter().map(Into::into).filter(begins).collect()
    }
}

impl<T: DeserializeOwned + JsonSchema + Send> FromRequest for Args<T> {
    fn from_request(request: &TextRequest) -> Result<Self, RpcError> {
        text::read(&request.arguments).map(Args).map_err(|error| {
            RpcError::invalid_params(format!("arguments of `{}`: {error}", request.name))
        })
    }

    fn arguments() -> Option<Vec<PromptArgument>> {
        Some(arguments_of::<T>())
    }
}

impl FromRequest for Uri {
    fn from_request(request: &TextRequest) -> Result<Self, RpcError> {
        Ok(Self(request.name.clone()))
    }
}

impl FromRequest for Typed {
    fn from_request(request: &TextRequest) -> Result<Self, RpcError> {
        request.typed.clone().ok_or_else(|| RpcError::internal("`Typed` outside a completion"))
    }
}

/// What tools take of a call's surroundings, other functions take too.
macro_rules! as_tools_do {
    ($($extractor:ty),+ $(,)?) => {$(
        impl FromRequest for $extractor {
            fn from_request(request: &TextRequest) -> Result<Self, RpcError> {
                Self::from_call(&request.surroundings())
            }
        }
    )+};
}

as_tools_do!(
    Cancelled,
    Context,
    Deadline,
    Grants,
    Logger,
    Outlet,
    Peer,
    Principal,
    SessionInfo,
    Trace,
);

impl<T: Send + Sync + 'static> FromRequest for State<T> {
    fn from_request(request: &TextRequest) -> Result<Self, RpcError> {
        Self::from_call(&request.surroundings())
    }

    fn needs() -> Vec<Need> {
        <Self as FromCall>::needs()
    }
}

/// The arguments a type stands for, in the order it declares them.
fn arguments_of<T: DeserializeOwned + JsonSchema>() -> Vec<PromptArgument> {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let Some(Value::Object(properties)) = schema.get("properties") else { return Vec::new() };
    let is_required = |name: &str| {
        schema
            .get("required")
            .and_then(Value::as_array)
            .is_some_and(|required| required.iter().any(|one| one == name))
    };
    let mut arguments: Vec<_> = properties
        .iter()
        .map(|(name, property)| {
            let text = |member| property.get(member).and_then(Value::as_str).map(str::to_owned);
            let mut argument = PromptArgument::new(name.as_str());
            argument.title = text("title");
            argument.description = text("description");
            argument.required = Some(is_required(name));
            argument
        })
        .collect();
    let declared = text::fields::<T>();
    arguments.sort_by_key(|argument| declared.iter().position(|name| *name == argument.name));
    arguments
}
