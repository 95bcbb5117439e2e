//! The parameters of functions that implement prompts, resources and completions.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use mgp_security::Grants;
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
    Args, Cancelled, FromCall, RequestMeta, RequiredState, SessionInfo, State, ToolRequest, Trace,
};

/// A request for a prompt, a resource or a completion; its arguments are text.
#[derive(Clone, Debug)]
pub struct TextRequest {
    pub(crate) name: String,
    pub(crate) arguments: BTreeMap<String, String>,
    pub(crate) typed: Option<PartialArgument>,
    pub(crate) meta: Option<Payload>,
    pub(crate) cx: Context,
    pub(crate) state: Arc<Extensions>,
}

impl TextRequest {
    /// Returns the name of the requested prompt, or the URI of the requested resource.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the arguments of the prompt, or the variables of the template, decoded.
    #[must_use]
    pub fn arguments(&self) -> &BTreeMap<String, String> {
        &self.arguments
    }

    /// Returns the object `_meta` of the request as JSON text, see [`RequestMeta`]; `None` if the caller sent none.
    #[must_use]
    pub fn meta(&self) -> Option<&Payload> {
        self.meta.as_ref()
    }

    /// Returns the context of the call.
    #[must_use]
    pub fn cx(&self) -> &Context {
        &self.cx
    }

    /// Returns the server's state of a type, see [`State`].
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.state.get_shared()
    }

    /// Returns this request as a [`ToolRequest`] without a tool, because the extractors of tools accept only that type.
    fn as_tool_request(&self) -> ToolRequest {
        static NO_TOOL: LazyLock<Arc<mcp::Tool>> =
            LazyLock::new(|| Arc::new(mcp::Tool::new("", RawObject::empty())));
        let (cx, state) = (self.cx.clone(), Arc::clone(&self.state));
        let request = ToolRequest::new(Arc::clone(&NO_TOOL), Payload::empty_object(), cx, state);
        request.with_meta(self.meta.clone())
    }
}

/// A parameter of a function that implements a prompt, resource or completion.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::{FromRequest, Prompt, TextRequest};
///
/// /// The agent of the caller.
/// struct Agent(String);
///
/// impl FromRequest for Agent {
///     fn from_request(request: &TextRequest) -> Result<Self, RpcError> {
///         let agent = request.cx().principal.as_agent();
///         Ok(Self(agent.map_or_else(|| "no agent".to_owned(), ToString::to_string)))
///     }
/// }
///
/// let who = Prompt::new("who", "Names the caller", |Agent(name): Agent| async move { name });
/// # drop(who);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of this function",
    note = "take the arguments as `Args<T>`, the URI as `Uri`, the argument to complete as `PartialArgument`, and the other parameters of tools: `State<T>`, `Context`, `Principal`, `Logger` and so on"
)]
pub trait FromRequest: Sized + Send {
    /// Extracts the value from the request.
    ///
    /// # Errors
    /// Returns the error that the caller receives if the value cannot be extracted.
    fn from_request(request: &TextRequest) -> Result<Self, RpcError>;

    /// Returns the arguments that the parameter reads from the request, as a prompt lists them; `None` if it reads
    /// none.
    #[must_use]
    fn arguments() -> Option<Vec<PromptArgument>> {
        None
    }

    /// Returns the state that the parameter needs from the server; checked when the server is built.
    #[must_use]
    fn needs() -> Vec<RequiredState> {
        Vec::new()
    }
}

/// The URI to read, as the caller wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Uri(pub String);

/// The argument to complete. The arguments that the caller has filled in already are `Args<T>`, whose fields should be
/// optional.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::{PartialArgument, Resource};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Place {
///     country: Option<String>,
///     city: Option<String>,
/// }
///
/// let weather = Resource::template("weather://{country}/{city}", "weather", |Args(at): Args<Place>| async move {
///     format!("Rain in {}", at.city.unwrap_or_default())
/// })
/// .complete("country", |typed: PartialArgument| async move { typed.matching(["Norway", "Switzerland"]) })
/// .complete("city", |typed: PartialArgument, Args(at): Args<Place>| async move {
///     let cities = if at.country.as_deref() == Some("Norway") { ["Bergen", "Oslo"] } else { ["Bern", "Geneva"] };
///     typed.matching(cities)
/// });
/// # drop(weather);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartialArgument {
    /// The name of the argument.
    pub argument: String,
    /// The text typed so far.
    pub value: String,
}

impl PartialArgument {
    /// Returns the proposals that begin with the typed text, ignoring case.
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

impl FromRequest for PartialArgument {
    fn from_request(request: &TextRequest) -> Result<Self, RpcError> {
        request
            .typed
            .clone()
            .ok_or_else(|| RpcError::internal("`PartialArgument` outside a completion"))
    }
}

/// Implements `FromRequest` for extractors of tools, by calling their `FromCall`.
macro_rules! as_tools_do {
    ($($extractor:ty),+ $(,)?) => {$(
        impl FromRequest for $extractor {
            fn from_request(request: &TextRequest) -> Result<Self, RpcError> {
                Self::from_call(&request.as_tool_request())
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
    RequestMeta,
    SessionInfo,
    Trace,
);

impl<T: Send + Sync + 'static> FromRequest for State<T> {
    fn from_request(request: &TextRequest) -> Result<Self, RpcError> {
        Self::from_call(&request.as_tool_request())
    }

    fn needs() -> Vec<RequiredState> {
        <Self as FromCall>::needs()
    }
}

/// Returns the prompt arguments of a type, in the order of its fields.
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
