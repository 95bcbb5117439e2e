//! Completes an argument of a prompt, or a variable of a resource template (MCP completion).

use mgp_types::RpcError;
use mgp_types::mcp::{CompleteParams, CompleteReference, CompleteResult, Completion};
use mgp_types::method::{CompletionComplete, Request};
use mgp_types::service::{Call, Reply, Router, Stack};

use crate::completers::CompletionTarget;
use crate::prompt::Prompts;
use crate::request::{Function, HandlerConfig, PartialArgument, TextRequest};
use crate::resource::Resources;
use crate::tool::received_meta;

/// The maximum number of proposed values in an answer to `completion/complete`.
const MAX_PROPOSALS: usize = 100;

/// The endpoint of `completion/complete`.
#[derive(Clone, Debug)]
pub(crate) struct CompletionEndpoint {
    pub(crate) prompts: Prompts,
    pub(crate) resources: Resources,
    /// The author's default function ([`Server::complete`](crate::Server::complete)), for arguments that have no
    /// completion function of their own.
    pub(crate) fallback: Option<Function<Completion>>,
}

impl CompletionEndpoint {
    pub(crate) fn routes(self, serving: &HandlerConfig) -> Router {
        let serving = serving.clone();
        let answer = Stack::from_fn(move |call| self.clone().complete(call, serving.clone()));
        Router::new().route(CompletionComplete::METHOD, answer)
    }

    async fn complete(self, call: Call, serving: HandlerConfig) -> Result<Reply, RpcError> {
        let params: CompleteParams = call.params().get()?;
        let (name, found) = self.find(params.reference)?;
        let typed =
            PartialArgument { argument: params.argument.name, value: params.argument.value };
        if let Some(known) = &found.arguments
            && !known.contains(&typed.argument)
        {
            let shown = mgp_types::clip(&typed.argument, 80);
            return Err(RpcError::invalid_params(format!("`{name}` has no argument `{shown}`")));
        }
        let function = found.completers.get(&typed.argument).or(self.fallback.as_ref()).cloned();
        let Some(function) = function else {
            return Reply::of(&CompleteResult::new(Completion::new(Vec::new())));
        };
        let arguments = params.context.and_then(|context| context.arguments).unwrap_or_default();
        let request = TextRequest {
            name,
            arguments,
            typed: Some(typed),
            meta: received_meta(&call),
            cx: call.cx().clone(),
            state: serving.state.clone(),
        };
        let completing = async move {
            let completion = function.run(request).await?;
            Reply::of(&CompleteResult::new(bounded(completion)))
        };
        serving.run(call.cx(), completing).await
    }

    fn find(&self, reference: CompleteReference) -> Result<(String, CompletionTarget), RpcError> {
        match reference {
            CompleteReference::Prompt(prompt) => {
                let found = self.prompts.completable(&prompt.name)?;
                Ok((prompt.name, found))
            }
            CompleteReference::Resource(resource) => {
                let found = self.resources.completable(&resource.uri).ok_or_else(|| {
                    let shown = mgp_types::clip(&resource.uri, 200);
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

/// Truncates the proposals to the maximum number, and sets their total.
fn bounded(mut completion: Completion) -> Completion {
    if completion.values.len() > MAX_PROPOSALS {
        completion.total.get_or_insert(u64::try_from(completion.values.len()).unwrap_or(u64::MAX));
        completion.has_more = Some(true);
        completion.values.truncate(MAX_PROPOSALS);
    }
    completion
}
