//! The features of a server besides tools: resources, prompts, completion, logging, and change notifications.

use std::sync::Arc;

use mgp_lifecycle::{Drain, ServerOffer};
use mgp_types::mcp::{Completion, ListChanged, ResourcesCapability, ServerCapabilities};
use mgp_types::method::Initialized;
use mgp_types::mgp::Extension;
use mgp_types::service::{Extensions, Router};

use crate::change_notifier::{ChangeNotifier, ResourceSubscriber, ResourceWatcher};
use crate::complete::CompletionEndpoint;
use crate::error::BuildError;
use crate::listen::ListenSources;
use crate::prompt::{Prompt, Prompts};
use crate::request::{Function, HandlerConfig, RequestHandler};
use crate::resource::{Resource, ResourceSet, Resources};
use crate::server::Server;
use crate::subscribers::{ListSet, Subscribers};
use crate::tool::Tools;
use crate::{change_notifier, listen, log};

/// The features of a server besides tools.
#[derive(Debug)]
pub(crate) struct Features {
    resources: Resources,
    prompts: Prompts,
    completer: Option<Function<Completion>>,
    logging: bool,
    subscribers: Subscribers,
    /// Set if resources live elsewhere.
    watches: Option<Arc<dyn ResourceSubscriber>>,
    errors: Vec<BuildError>,
}

/// The announcement of a shutdown.
#[derive(Debug)]
pub(crate) struct ShutdownNotice {
    pub(crate) drain: Drain,
    /// If set, clients that negotiated it are notified (MGP §11.4).
    pub(crate) is_announced: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self::new(Subscribers::default())
    }
}

impl Features {
    fn new(subscribers: Subscribers) -> Self {
        Self {
            resources: Resources::new(subscribers.clone()),
            prompts: Prompts::new(subscribers.clone()),
            completer: None,
            logging: false,
            subscribers,
            watches: None,
            errors: Vec::new(),
        }
    }

    /// Returns the errors that keep a server from being built.
    pub(crate) fn errors(&mut self, state: &Extensions) -> Vec<BuildError> {
        let mut errors = std::mem::take(&mut self.errors);
        errors.extend(self.prompts.errors(state));
        errors.extend(self.resources.errors(state));
        let completer = self.completer.as_ref();
        errors
            .extend(completer.and_then(|function| function.missing_state("the completion", state)));
        errors
    }

    /// Adds the features to the offer, and returns their endpoints and whether logging is on.
    pub(crate) fn assemble(
        self,
        offer: &mut ServerOffer,
        tools: &Tools,
        config: &HandlerConfig,
        notice: ShutdownNotice,
    ) -> (Router, bool) {
        let offered = &mut offer.capabilities;
        self.offer(offered, tools);
        // Capabilities that the author put into the offer are served too.
        let mut router = Router::new();
        if offered.prompts.is_some() {
            router = router.merge(self.prompts.routes(config));
        }
        if offered.resources.is_some() {
            router = router.merge(self.resources.routes(config));
        }
        if offered.completions.is_some() {
            let (prompts, resources) = (self.prompts.clone(), self.resources.clone());
            let endpoint =
                CompletionEndpoint { prompts, resources, fallback: self.completer.clone() };
            router = router.merge(endpoint.routes(config));
        }
        let logging = offered.logging.is_some();
        if logging {
            router = router.merge(log::routes());
        }
        self.subscribers.announce(ListSet::announced(offered));
        tools.notify(self.subscribers.clone());
        (router.merge(self.notifications(offered, notice)), logging)
    }

    fn offer(&self, offered: &mut ServerCapabilities, tools: &Tools) {
        if !tools.is_empty() {
            offered.tools.get_or_insert_with(list_changed);
        }
        if !self.prompts.is_empty() {
            offered.prompts.get_or_insert_with(list_changed);
        }
        if !self.resources.is_empty() {
            offered.resources.get_or_insert_with(|| {
                let mut capability = ResourcesCapability::new();
                capability.subscribe = Some(true);
                capability.list_changed = Some(true);
                capability
            });
        }
        let can_complete = self.completer.is_some()
            || self.prompts.can_complete()
            || self.resources.can_complete();
        if can_complete {
            offered.completions.get_or_insert_default();
        }
        if self.logging {
            offered.logging.get_or_insert_default();
        }
    }

    /// Returns the endpoints by which clients listen to changes and to the server's states.
    fn notifications(self, offered: &ServerCapabilities, notice: ShutdownNotice) -> Router {
        let has_subscriptions =
            offered.resources.as_ref().is_some_and(|capability| capability.subscribe == Some(true));
        let announces_changes =
            self.subscribers.announced() != ListSet::default() || has_subscriptions;
        if notice.is_announced {
            let subscribers = self.subscribers.clone();
            notice.drain.tell(move |change| subscribers.notify_state(&change));
        }
        if !announces_changes && !notice.is_announced {
            return Router::new();
        }
        let watcher =
            self.watches.map_or(ResourceWatcher::Own(self.resources), ResourceWatcher::External);
        let resources = has_subscriptions.then_some(watcher);
        let subscribers = self.subscribers;
        let mut router = Router::new();
        if let Some(resources @ ResourceWatcher::External(_)) = &resources {
            router = router.merge(change_notifier::routes(subscribers.clone(), resources.clone()));
        }
        let sources =
            ListenSources { subscribers: subscribers.clone(), resources, announces_changes };
        let router = router.merge(listen::routes(sources, notice.drain));
        router.on_notification::<Initialized, _, _>(move |cx, _| {
            if announces_changes || cx.caller.has(Extension::Lifecycle) {
                subscribers.join(&cx);
            }
            async { Ok(()) }
        })
    }
}

/// Returns the capability of a list whose changes are announced.
fn list_changed() -> ListChanged {
    let mut capability = ListChanged::new();
    capability.list_changed = Some(true);
    capability
}

impl Server {
    /// Adds a resource or a resource template; a second one of the same URI is an error of [`Server::into_stack`].
    pub fn resource(mut self, resource: Resource) -> Self {
        let declared = self.features.resources.declare(resource);
        self.features.errors.extend(declared.err());
        self
    }

    /// Adds a set of resources that is looked up for each request.
    pub fn resource_set(self, set: impl ResourceSet) -> Self {
        self.features.resources.add_set(set);
        self
    }

    /// Adds a prompt; a second one of the same name is an error of [`Server::into_stack`].
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        let declared = self.features.prompts.declare(prompt);
        self.features.errors.extend(declared.err());
        self
    }

    /// Sets the fallback that proposes values for arguments of prompts and templates without a completion of their own.
    pub fn complete<H, M>(mut self, handler: H) -> Self
    where
        H: RequestHandler<Completion, M>,
    {
        self.features.completer = Some(Function::new(handler));
        self
    }

    /// Lets tools, prompts and resources send log messages to their callers; without it their messages are dropped.
    pub fn logging(mut self) -> Self {
        self.features.logging = true;
        self
    }

    /// Sends change notifications through a [`ChangeNotifier`], which may serve several servers; call it before adding
    /// resources and prompts.
    ///
    /// `watches` subscribes to resources on behalf of callers.
    pub fn herald(mut self, herald: &ChangeNotifier, watches: impl ResourceSubscriber) -> Self {
        self.features = Features::new(herald.subscribers().clone());
        self.features.watches = Some(Arc::new(watches));
        self
    }

    /// Sets the number of prompts, resources and templates on a page of their lists. Default: 500.
    pub fn page_size(self, entries: usize) -> Self {
        self.features.prompts.page_size(entries);
        self.features.resources.page_size(entries);
        self
    }

    /// Returns a handle that changes the resources while the server runs, and notifies their subscribers.
    ///
    /// A server that starts without resources does not offer them; to add the first one while it runs, add the
    /// capability to the [offer](Server::offer).
    #[must_use]
    pub fn resources(&self) -> Resources {
        self.features.resources.clone()
    }

    /// Returns a handle that changes the prompts while the server runs.
    ///
    /// A server that starts without prompts does not offer them; to add the first one while it runs, add the capability
    /// to the [offer](Server::offer).
    #[must_use]
    pub fn prompts(&self) -> Prompts {
        self.features.prompts.clone()
    }
}
