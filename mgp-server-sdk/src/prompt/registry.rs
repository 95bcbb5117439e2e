//! The registry of a server's prompts.

use std::collections::BTreeMap;
use std::sync::Arc;

use mgp_types::mcp::{ListParams, ListPromptsResult};
use mgp_types::method::{PromptsGet, PromptsList, Request};
use mgp_types::service::{Call, Extensions, Reply, Router, Stack};
use mgp_types::{Payload, RpcError};
use serde::Deserialize;

use super::Prompt;
use crate::catalog::{Catalog, Entry, PageFields, bad_cursor};
use crate::completers::CompletionTarget;
use crate::error::BuildError;
use crate::request::{HandlerConfig, TextRequest};
use crate::subscribers::{ListKind, Subscribers};
use crate::tool::received_meta;

/// The prompts of a server, which can change while the server runs. Cheap to clone.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::Prompt;
///
/// let server = Server::new("s", "1").prompt(Prompt::new("hello", "Greets", || async { "Hello!" }));
/// let prompts = server.prompts();
/// prompts.add(Prompt::new("bye", "Writes a farewell", || async { "Goodbye!" }));
/// assert!(prompts.remove("hello"));
/// assert_eq!(prompts.len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Prompts(Catalog<Prompt>);

impl Entry for Prompt {
    const LIST: ListKind = ListKind::Prompts;

    fn key(&self) -> &str {
        &self.definition.name
    }

    fn encode(entries: &[Arc<Self>], fields: PageFields) -> Result<Payload, RpcError> {
        let page = entries.iter().map(|prompt| prompt.definition.clone()).collect::<Vec<_>>();
        let mut list = ListPromptsResult::new(page);
        list.result_type = fields.result_type;
        list.next_cursor = fields.next;
        list.ttl_ms = fields.ttl_ms;
        list.cache_scope = fields.cache_scope;
        Payload::of(&list)
    }
}

/// The params of `prompts/get`, decoded in two steps so that an error can name the invalid argument.
#[derive(Deserialize)]
struct GetParams {
    name: String,
    #[serde(default)]
    arguments: Option<BTreeMap<String, Payload>>,
}

impl Prompts {
    pub(crate) fn new(subscribers: Subscribers) -> Self {
        Self(Catalog::new(subscribers))
    }

    /// Adds a prompt, or replaces the prompt with the same name.
    pub fn add(&self, prompt: Prompt) {
        self.0.add(prompt);
    }

    /// Adds a prompt; fails if another prompt has the same name.
    pub(crate) fn declare(&self, prompt: Prompt) -> Result<(), BuildError> {
        let name = &prompt.definition.name;
        if self.0.get(name).is_some() {
            return Err(BuildError::Duplicate(format!("the prompt `{name}`")));
        }
        self.add(prompt);
        Ok(())
    }

    /// Returns the errors that prevent a server with these prompts from being built.
    pub(crate) fn errors(&self, state: &Extensions) -> Vec<BuildError> {
        self.0.snapshot().entries().iter().flat_map(|prompt| prompt.errors(state)).collect()
    }

    /// Removes a prompt; returns `true` if there was one.
    #[must_use]
    pub fn remove(&self, name: &str) -> bool {
        self.0.remove(name)
    }

    /// Returns the number of prompts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no prompts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn routes(&self, serving: &HandlerConfig) -> Router {
        let (list, get, serving) = (self.clone(), self.clone(), serving.clone());
        Router::new()
            .route(
                PromptsList::METHOD,
                Stack::from_fn(move |call| std::future::ready(list.list(&call))),
            )
            .route(
                PromptsGet::METHOD,
                Stack::from_fn(move |call| get.clone().get(call, serving.clone())),
            )
    }

    fn list(&self, call: &Call) -> Result<Reply, RpcError> {
        let cursor = call.params().get::<ListParams>()?.cursor;
        let page = self.0.snapshot().page(cursor.as_deref(), call.cx().caller.era);
        page.ok_or_else(bad_cursor)?.map(Reply::raw)
    }

    async fn get(self, call: Call, serving: HandlerConfig) -> Result<Reply, RpcError> {
        let get: GetParams = call.params().get()?;
        let prompt = self.find(&get.name)?;
        let arguments = texts(&prompt, get.arguments.unwrap_or_default())?;
        let cx = call.cx().clone();
        let request = TextRequest {
            name: get.name,
            arguments,
            typed: None,
            meta: received_meta(&call),
            cx,
            state: serving.state.clone(),
        };
        let getting = async move {
            let mut result = prompt.function.clone().run(request).await?;
            if result.description.is_none() {
                result.description.clone_from(&prompt.definition.description);
            }
            Reply::of(&result)
        };
        serving.run(call.cx(), getting).await
    }

    /// Returns the arguments of a prompt and their completion functions.
    pub(crate) fn completable(&self, name: &str) -> Result<CompletionTarget, RpcError> {
        self.find(name).map(|prompt| {
            let arguments = prompt.definition.arguments.iter();
            CompletionTarget {
                completers: prompt.completers.clone(),
                arguments: Some(arguments.map(|argument| argument.name.clone()).collect()),
            }
        })
    }

    pub(crate) fn can_complete(&self) -> bool {
        self.0.snapshot().entries().iter().any(|prompt| !prompt.completers.is_empty())
    }

    pub(crate) fn page_size(&self, entries: usize) {
        self.0.set_paging(Some(entries), None);
    }

    fn find(&self, name: &str) -> Result<Arc<Prompt>, RpcError> {
        self.0.get(name).ok_or_else(|| {
            let shown = mgp_types::clip(name, 80);
            RpcError::invalid_params(format!("unknown prompt `{shown}`"))
        })
    }
}

/// Returns the arguments as strings; fails if one is not a string, or if a required argument is missing.
fn texts(
    prompt: &Prompt,
    arguments: BTreeMap<String, Payload>,
) -> Result<BTreeMap<String, String>, RpcError> {
    let refuse = |argument: &str, why: &str| {
        let (prompt, argument) = (&prompt.definition.name, mgp_types::clip(argument, 80));
        RpcError::invalid_params(format!("arguments of `{prompt}`: `{argument}` {why}"))
    };
    for argument in &prompt.definition.arguments {
        let is_given = arguments.contains_key(&argument.name);
        if argument.required == Some(true) && !is_given {
            return Err(refuse(&argument.name, "is required"));
        }
    }
    arguments
        .into_iter()
        .map(|(name, value)| match value.get::<String>() {
            Ok(text) => Ok((name, text)),
            Err(_) => Err(refuse(&name, "must be a string")),
        })
        .collect()
}
