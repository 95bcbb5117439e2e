//! What a client answers and hears: questions of its server, and its news.
//!
//! Applies to: inbound.

use std::future::{Future, ready};
use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::mcp::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ElicitationCapability,
    ListChanged, ListRootsResult, LogMessageParams, Root, SamplingCapability,
};
use mgp_types::method::{
    CallbackRequest, ElicitationComplete, ElicitationCreate, LogMessage, Notification, RootsList,
    SamplingCreateMessage,
};
use mgp_types::mgp::{CallbackRequestParams, Extension, LifecycleParams};
use mgp_types::service::{BoxFuture, Progress, Router};

use super::ClientBuilder;
use crate::handler::{Changed, ClientHandler};

/// Who answers for a person.
#[derive(Default)]
pub(super) struct Asked {
    form: Option<ElicitHook>,
    url: Option<ElicitHook>,
}

type ElicitHook =
    Arc<dyn Fn(ElicitParams) -> BoxFuture<'static, Result<ElicitResult, RpcError>> + Send + Sync>;

fn hook<F, Fut>(handler: F) -> ElicitHook
where
    F: Fn(ElicitParams) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ElicitResult, RpcError>> + Send + 'static,
{
    Arc::new(move |question| Box::pin(handler(question)))
}

impl Asked {
    /// One method has two ways to ask; a way that was not offered is refused (MCP elicitation).
    pub(super) fn answer(self, router: Router) -> Router {
        if self.form.is_none() && self.url.is_none() {
            return router;
        }
        router.on::<ElicitationCreate, _, _>(move |_, question| {
            let (way, handler) =
                if question.is_url() { ("url", &self.url) } else { ("form", &self.form) };
            let answer = handler.as_ref().map(|handler| handler(question));
            async move {
                if let Some(answer) = answer {
                    return answer.await;
                }
                let message = format!("this client offers no elicitation of mode `{way}`");
                Err(RpcError::invalid_params(message))
            }
        })
    }
}

impl ClientBuilder {
    // === What is answered ===

    /// Answers questions for a person with a form.
    ///
    /// [`ElicitParams::accept_with`] fills in the defaults of the form, [`ElicitParams::accept`] accepts it as it is.
    pub fn on_elicitation<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(ElicitParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, RpcError>> + Send + 'static,
    {
        let offered = self.offered_elicitation();
        offered.form.get_or_insert_default();
        self.asked.form = Some(hook(handler));
        self
    }

    /// Answers whether a person visits a page; that what they did there is over reaches
    /// [`on_elicitation_complete`](Self::on_elicitation_complete).
    ///
    /// Nothing is fetched: the page is for the person, who must see its whole address first.
    pub fn on_url_elicitation<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(ElicitParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, RpcError>> + Send + 'static,
    {
        let offered = self.offered_elicitation();
        offered.url.get_or_insert_default();
        self.asked.url = Some(hook(handler));
        self
    }

    /// Answers questions for a model.
    ///
    /// Conversations with tools are refused; see [`on_sampling_with_tools`](Self::on_sampling_with_tools).
    pub fn on_sampling<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(CreateMessageParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, RpcError>> + Send + 'static,
    {
        self.config.offer.capabilities.sampling.get_or_insert_with(SamplingCapability::new);
        self.sample(move |conversation| {
            let tools = !conversation.tools.is_empty() || conversation.tool_choice.is_some();
            let answer = (!tools).then(|| handler(conversation));
            async move {
                match answer {
                    Some(answer) => answer.await,
                    None => {
                        Err(RpcError::invalid_params("this client offers no sampling with tools"))
                    }
                }
            }
        })
    }

    /// Answers questions for a model that may ask for tools; running them is the server's part.
    pub fn on_sampling_with_tools<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(CreateMessageParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, RpcError>> + Send + 'static,
    {
        let capabilities = &mut self.config.offer.capabilities;
        let offered = capabilities.sampling.get_or_insert_with(SamplingCapability::new);
        offered.tools.get_or_insert_default();
        self.sample(handler)
    }

    fn sample<F, Fut>(self, handler: F) -> Self
    where
        F: Fn(CreateMessageParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, RpcError>> + Send + 'static,
    {
        self.answer(|router| {
            router.on::<SamplingCreateMessage, _, _>(move |_, params| handler(params))
        })
    }

    fn offered_elicitation(&mut self) -> &mut ElicitationCapability {
        let capabilities = &mut self.config.offer.capabilities;
        capabilities.elicitation.get_or_insert_with(ElicitationCapability::new)
    }

    /// Answers which directories the client works in.
    pub fn on_roots<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<Root>, RpcError>> + Send + 'static,
    {
        let mut roots = ListChanged::new();
        roots.list_changed = Some(true);
        self.config.offer.capabilities.roots.get_or_insert(roots);
        self.answer(|router| {
            router.on::<RootsList, _, _>(move |_, _| {
                let roots = handler();
                async move { Ok(ListRootsResult::new(roots.await?)) }
            })
        })
    }

    /// Works in these directories.
    pub fn roots(self, roots: impl IntoIterator<Item = Root>) -> Self {
        let roots: Vec<_> = roots.into_iter().collect();
        self.on_roots(move || ready(Ok(roots.clone())))
    }

    /// Answers with a handler what it says it answers, and tells it the news.
    pub fn handler(mut self, handler: impl ClientHandler) -> Self {
        let handler = Arc::new(handler);
        let asks = handler.asks();
        if asks.elicitation {
            let own = Arc::clone(&handler);
            self = self.on_elicitation(move |question| {
                let own = Arc::clone(&own);
                async move { own.elicit(question).await }
            });
        }
        if handler.visits() {
            let own = Arc::clone(&handler);
            self = self.on_url_elicitation(move |question| {
                let own = Arc::clone(&own);
                async move { own.visit(question).await }
            });
        }
        if asks.sampling {
            let own = Arc::clone(&handler);
            self = self.on_sampling(move |conversation| {
                let own = Arc::clone(&own);
                async move { own.sample(conversation).await }
            });
        }
        if asks.roots {
            let own = Arc::clone(&handler);
            self = self.on_roots(move || {
                let own = Arc::clone(&own);
                async move { own.roots().await }
            });
        }
        let (logs, changes) = (Arc::clone(&handler), Arc::clone(&handler));
        let states = Arc::clone(&handler);
        self.on_log(move |message| logs.log(message))
            .on_change(move |what| changes.changed(what))
            .on_lifecycle(move |change| states.state(change))
            .on_progress(move |tool, step| handler.progress(tool, step))
    }

    /// Answers further requests.
    pub fn answers(self, router: Router) -> Self {
        self.answer(|own| own.merge(router))
    }

    pub(super) fn answer(mut self, add: impl FnOnce(Router) -> Router) -> Self {
        self.config.answers = add(std::mem::take(&mut self.config.answers));
        self
    }

    // === What is heard ===

    /// Hears log messages.
    pub fn on_log(self, hook: impl Fn(LogMessageParams) + Send + Sync + 'static) -> Self {
        self.on::<LogMessage>(hook)
    }

    /// Hears that what a person did on a page is over: the id of the elicitation.
    ///
    /// It is told to a legacy client only; a modern server notices when the call is made again.
    pub fn on_elicitation_complete(self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on::<ElicitationComplete>(move |over| hook(&over.elicitation_id))
    }

    /// Hears of changes of lists and of resources that are watched; the client's own lists are already forgotten.
    ///
    /// A modern server tells them on a stream, which the client keeps open where the server announces changes; see
    /// [`ListenConfig`](crate::ListenConfig). After a stream was interrupted everything on it is told as changed.
    pub fn on_change(mut self, hook: impl Fn(&Changed) + Send + Sync + 'static) -> Self {
        self.config.hooks.changed.push(Arc::new(hook));
        self
    }

    /// Hears that the server enters another state: that it drains, and that it is gone (MGP §11.4).
    ///
    /// A modern server tells it on the stream of changes, which the client keeps open for this too.
    ///
    /// ```
    /// use mgp_client_sdk::Client;
    ///
    /// let builder = Client::builder("me", "1.0").on_lifecycle(|change| {
    ///     println!("{} because of {:?}", change.new_state, change.reason);
    /// });
    /// # drop(builder);
    /// ```
    pub fn on_lifecycle(mut self, hook: impl Fn(&LifecycleParams) + Send + Sync + 'static) -> Self {
        self.config.hooks.states.push(Arc::new(hook));
        self
    }

    /// Hears how far the tool calls are: the tool and the step.
    pub fn on_progress(mut self, hook: impl Fn(&str, &Progress) + Send + Sync + 'static) -> Self {
        self.config.hooks.progress = Some(Arc::new(hook));
        self
    }

    /// Hears questions that a server asks on behalf of a call; answer with
    /// [`callback_respond`](crate::Mgp::callback_respond) (MGP §13.4).
    pub fn on_callback(
        mut self,
        hook: impl Fn(CallbackRequestParams) + Send + Sync + 'static,
    ) -> Self {
        self.mgp = self.mgp.map(|set| set.with(Extension::Callbacks));
        self.on::<CallbackRequest>(hook)
    }

    /// Hears a notification; it is called on the connection's task, in wire order, and must not wait.
    pub fn on<N: Notification>(self, hook: impl Fn(N::Params) + Send + Sync + 'static) -> Self {
        self.answer(|router| {
            router.on_notification::<N, _, _>(move |_, params| {
                hook(params);
                ready(Ok(()))
            })
        })
    }
}
