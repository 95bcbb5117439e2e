//! Completion: proposals for an argument of a prompt, or a variable of a template, while it is typed (MCP completion).
//!
//! Applies to: inbound.

use std::collections::BTreeMap;
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::mcp::{CompleteParams, CompleteReference, CompleteResult, Completion};
use mgp_types::method::{CompletionComplete, Request};
use mgp_types::service::{Call, Reply, Router, Stack};

use crate::prompt::Prompts;
use crate::request::{Function, TextRequest, Typed, spawned};
use crate::resource::Resources;

/// How many proposals an answer may have.
const VALUES: usize = 100;

/// What proposes values, by argument.
#[derive(Clone, Debug, Default)]
pub(crate) struct Completers(BTreeMap<String, Function<Completion>>);

impl Completers {
    pub(crate) fn add(&mut self, argument: String, function: Function<Completion>) {
        self.0.insert(argument, function);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// What a prompt or template lets complete.
#[derive(Debug)]
pub(crate) struct Completable {
    pub(crate) completers: Completers,
    /// Its arguments, where they are known.
    pub(crate) arguments: Option<Vec<String>>,
}

/// Answers `completion/complete`.
#[derive(Clone, Debug)]
pub(crate) struct Completing {
    pub(crate) prompts: Prompts,
    pub(crate) resources: Resources,
    /// Proposes where nothing else does.
    pub(crate) fallback: Option<Function<Completion>>,
}

impl Completing {
    pub(crate) fn routes(self, timeout: Duration) -> Router {
        let answer = Stack::from_fn(move |call| self.clone().complete(call, timeout));
        Router::new().route(CompletionComplete::METHOD, answer)
    }

    async fn complete(self, call: Call, timeout: Duration) -> Result<Reply, RpcError> {
        let params: CompleteParams = call.params().get()?;
        let (name, found) = self.find(params.reference)?;
        let typed = Typed { argument: params.argument.name, value: params.argument.value };
        if let Some(known) = &found.arguments
            && !known.contains(&typed.argument)
        {
            let shown: String = typed.argument.chars().take(80).collect();
            return Err(RpcError::invalid_params(format!("`{name}` has no argument `{shown}`")));
        }
        let function = found.completers.0.get(&typed.argument).or(self.fallback.as_ref()).cloned();
        let Some(function) = function else {
            return Reply::of(&CompleteResult::new(Completion::new(Vec::new())));
        };
        let arguments = params.context.and_then(|context| context.arguments).unwrap_or_default();
        let cx = call.cx().clone();
        let request = TextRequest { name, arguments, typed: Some(typed), cx };
        let completing = async move {
            let completion = function.run(request).await?;
            Reply::of(&CompleteResult::new(bounded(completion)))
        };
        spawned(call.cx(), timeout, completing).await
    }

    fn find(&self, reference: CompleteReference) -> Result<(String, Completable), RpcError> {
        match reference {
            CompleteReference::Prompt(prompt) => {
                let found = self.prompts.completable(&prompt.name)?;
                Ok((prompt.name, found))
            }
            CompleteReference::Resource(resource) => {
                let found = self.resources.completable(&resource.uri).ok_or_else(|| {
                    let shown: String = resource.uri.chars().take(200).collect();
                    RpcError::invalid_params(format!("unknown resource template `{shown}`"))
                })?;
                Ok((resource.uri, found))
            }
            _ => {
                Err(RpcError::invalid_params("unknown `ref.type`; known: ref/prompt, ref/resource"))
            }
        }
    }
}

/// At most as many proposals as an answer may have; what was cut off is counted.
fn bounded(mut completion: Completion) -> Completion {
    if completion.values.len() > VALUES {
        completion.total.get_or_insert(u64::try_from(completion.values.len()).unwrap_or(u64::MAX));
        completion.has_more = Some(true);
        completion.values.truncate(VALUES);
    }
    completion
}
