//! The features of a server besides tools: resources, prompts, completion, logging, and change notifications.

use std::sync::Arc;

use mgp_lifecycle::{Drain, ServerOffer};
use mgp_types::mcp::{Completion, ListChanged, ResourcesCapability};
use mgp_types::method::Initialized;
use mgp_types::mgp::Extension;
use mgp_types::service::{Extensions, Router};

use crate::audience::{Audience, Lists};
use crate::complete::Completing;
use crate::error::Flaw;
use crate::furnish::Logging;
use crate::herald::{Herald, Watched, Watches};
use crate::listen::Told;
use crate::prompt::{Prompt, Prompts};
use crate::request::{Function, RequestHandler, Serving};
use crate::resource::{Resource, ResourceSet, Resources};
use crate::server::Server;
use crate::tool::Tools;
use crate::{herald, listen, log};

/// The features of a server besides tools.
#[derive(Debug)]
pub(crate) struct Features {
    resources: Resources,
    prompts: Prompts,
    completer: Option<Function<Completion>>,
    logging: Logging,
    audience: Audience,
    /// Set if resources live elsewhere.
    watches: Option<Arc<dyn Watches>>,
    flaws: Vec<Flaw>,
}

/// The announcement of a shutdown.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) drain: Drain,
    /// If set, clients that negotiated it are notified (MGP §11.4).
    pub(crate) are_told: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self::told(Audience::default())
    }
}

impl Features {
    fn told(audience: Audience) -> Self {
        Self {
            resources: Resources::new(audience.clone()),
            prompts: Prompts::new(audience.clone()),
            completer: None,
            logging: Logging::Off,
            audience,
            watches: None,
            flaws: Vec::new(),
        }
    }

    /// Returns the errors that keep a server from being built.
    pub(crate) fn flaws(&mut self, state: &Extensions) -> Vec<Flaw> {
        let mut flaws = std::mem::take(&mut self.flaws);
        flaws.extend(self.prompts.flaws(state));
        flaws.extend(self.resources.flaws(state));
        let completer = self.completer.as_ref();
        flaws.extend(completer.and_then(|function| function.flaw("the completion", state)));
        flaws
    }

    /// Adds the features to the offer, and returns their endpoints and whether logging is on.
    pub(crate) fn assemble(
        self,
        offer: &mut ServerOffer,
        tools: &Tools,
        serving: &Serving,
        ends: Ends,
    ) -> (Router, Logging) {
        let can_complete = self.completer.is_some()
            || self.prompts.can_complete()
            || self.resources.can_complete();
        let resources = self.resources;
        let offered = &mut offer.capabilities;
        if !tools.is_empty() {
            offered.tools.get_or_insert_with(told);
        }
        if !self.prompts.is_empty() {
            offered.prompts.get_or_insert_with(told);
        }
        if !resources.is_empty() {
            offered.resources.get_or_insert_with(|| {
                let mut capability = ResourcesCapability::new();
                capability.subscribe = Some(true);
                capability.list_changed = Some(true);
                capability
            });
        }
        if can_complete {
            offered.completions.get_or_insert_default();
        }
        if self.logging == Logging::On {
            offered.logging.get_or_insert_default();
        }

        // Capabilities that the author put into the offer are served too.
        let mut router = Router::new();
        if offered.prompts.is_some() {
            router = router.merge(self.prompts.routes(serving));
        }
        if offered.resources.is_some() {
            router = router.merge(resources.routes(serving));
        }
        if offered.completions.is_some() {
            let (prompts, fallback) = (self.prompts, self.completer);
            let resources = resources.clone();
            router = router.merge(Completing { prompts, resources, fallback }.routes(serving));
        }
        let logging = if offered.logging.is_some() { Logging::On } else { Logging::Off };
        if logging == Logging::On {
            router = router.merge(log::routes());
        }
        let lists = Lists::announced(offered);
        let watches = offered.resources.as_ref().is_some_and(|one| one.subscribe == Some(true));
        self.audience.announce(lists);
        tools.tell(self.audience.clone());
        let tells_changes = lists != Lists::default() || watches;
        if ends.are_told {
            let audience = self.audience.clone();
            ends.drain.tell(move |change| audience.tell_state(&change));
        }
        if tells_changes || ends.are_told {
            let by = self.watches.map_or(Watched::Own(resources), Watched::By);
            let resources = watches.then_some(by);
            if let Some(resources @ Watched::By(_)) = &resources {
                router = router.merge(herald::routes(self.audience.clone(), resources.clone()));
            }
            let told = Told { audience: self.audience.clone(), resources, tells_changes };
            router = router.merge(listen::routes(told, ends.drain));
            let audience = self.audience;
            router = router.on_notification::<Initialized, _, _>(move |cx, _| {
                if tells_changes || cx.caller.has(Extension::Lifecycle) {
                    audience.join(&cx);
                }
                async { Ok(()) }
            });
        }
        (router, logging)
    }
}

/// Returns the capability of a list whose changes are announced.
fn told() -> ListChanged {
    let mut capability = ListChanged::new();
    capability.list_changed = Some(true);
    capability
}

impl Server {
    /// Adds a resource or a resource template; a second one of the same URI is an error of [`Server::into_stack`].
    pub fn resource(mut self, resource: Resource) -> Self {
        let declared = self.features.resources.declare(resource);
        self.features.flaws.extend(declared.err());
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
        self.features.flaws.extend(declared.err());
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
        self.features.logging = Logging::On;
        self
    }

    /// Sends change notifications through a [`Herald`], which may serve several servers; call it before adding resources
    /// and prompts.
    ///
    /// `watches` subscribes to resources on behalf of callers.
    pub fn herald(mut self, herald: &Herald, watches: impl Watches) -> Self {
        self.features = Features::told(herald.audience().clone());
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
    /// A server that starts without resources does not offer them; to add the first one while it runs, add the capability
    /// to the [offer](Server::offer).
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
