//! Lists: a page, all pages, or what is kept of them (MCP pagination).
//!
//! Applies to: outbound.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mcp::{
    Era, ListParams, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, Prompt, Resource, ResourceTemplate, Tool,
};
use mgp_types::method::{PromptsList, Request, ResourcesList, ResourcesTemplatesList, ToolsList};
use mgp_types::{ErrorCode, RpcError};

use super::Client;
use crate::cache::Kept;
use crate::error::Error;
use crate::handler::Changed;

/// A page of a list.
trait Page {
    type Item;
    fn open(self) -> Opened<Self::Item>;
}

struct Opened<T> {
    items: Vec<T>,
    next: Option<String>,
    ttl_ms: Option<u64>,
}

macro_rules! pages {
    ($($page:ident { $items:ident: $item:ident })+) => {$(
        impl Page for $page {
            type Item = $item;

            fn open(self) -> Opened<$item> {
                Opened { items: self.$items, next: self.next_cursor, ttl_ms: self.ttl_ms }
            }
        }
    )+};
}

pages! {
    ListToolsResult { tools: Tool }
    ListResourcesResult { resources: Resource }
    ListResourceTemplatesResult { resource_templates: ResourceTemplate }
    ListPromptsResult { prompts: Prompt }
}

/// All pages, and for how long they hold: as long as the one that holds the shortest.
struct Whole<T> {
    items: Vec<T>,
    ttl: Option<Duration>,
}

/// Defines the three ways to ask for each list.
macro_rules! lists {
    ($(
        $name:literal: $method:ident -> $page:ident, $item:ident,
        $one:ident, $all:ident, $kept:ident, $place:ident, $announced:expr;
    )+) => {
        impl Client {$(
            #[doc = concat!("Asks for one page of the ", $name, "; `None` is the first.")]
            ///
            /// # Errors
            /// As [`Client::request`].
            ///
            /// # Cancel safety
            /// Dropping the future cancels the request at the server.
            pub async fn $one(&self, cursor: Option<&str>) -> Result<$page, Error> {
                self.page::<$method>(cursor.map(str::to_owned)).await
            }

            #[doc = concat!("Asks for all ", $name, ", page by page.")]
            ///
            /// # Errors
            /// As [`Client::request`]; −32603 when the pages do not end: a cursor comes again, or too many come.
            ///
            /// # Cancel safety
            /// Dropping the future cancels the request at the server.
            pub async fn $all(&self) -> Result<Vec<$item>, Error> {
                Ok(self.whole::<$method>().await?.items)
            }

            #[doc = concat!("Gives all ", $name, ", kept from the last time where the server says when they change.")]
            ///
            /// It is asked again after a change (`listChanged`) and when the time it gave is up (`ttlMs`);
            /// a server that says neither is asked each time.
            ///
            /// # Errors
            #[doc = concat!("As [`Client::", stringify!($all), "`].")]
            ///
            /// # Cancel safety
            /// Dropping the future cancels the request at the server.
            pub async fn $kept(&self) -> Result<Arc<[$item]>, Error> {
                let announced: fn(&Self) -> Option<bool> = $announced;
                self.kept::<$method>(&self.0.lists.$place, announced(self)).await
            }
        )+}
    };
}

lists! {
    "tools": ToolsList -> ListToolsResult, Tool,
        list_tools_page, list_tools, tools, tools,
        |client| client.0.capabilities.tools.as_ref()?.list_changed;
    "resources": ResourcesList -> ListResourcesResult, Resource,
        list_resources_page, list_resources, resources, resources,
        |client| client.0.capabilities.resources.as_ref()?.list_changed;
    "resource templates": ResourcesTemplatesList -> ListResourceTemplatesResult, ResourceTemplate,
        list_resource_templates_page, list_resource_templates, resource_templates, templates,
        |client| client.0.capabilities.resources.as_ref()?.list_changed;
    "prompts": PromptsList -> ListPromptsResult, Prompt,
        list_prompts_page, list_prompts, prompts, prompts,
        |client| client.0.capabilities.prompts.as_ref()?.list_changed;
}

impl Client {
    /// Forgets a list that was kept, as if the server had said that it changed: for whoever filters lists on the way.
    pub fn forget(&self, what: &Changed) {
        self.0.lists.forget(what);
    }

    async fn page<R>(&self, cursor: Option<String>) -> Result<R::Result, Error>
    where
        R: Request<Params = ListParams>,
    {
        let mut params = ListParams::new();
        params.cursor = cursor;
        self.request::<R>(&params).await
    }

    async fn whole<R>(&self) -> Result<Whole<<R::Result as Page>::Item>, Error>
    where
        R: Request<Params = ListParams, Result: Page>,
    {
        let mut whole = Whole { items: Vec::new(), ttl: None };
        let (mut cursor, mut seen) = (None, HashSet::new());
        for number in 0..self.0.max_pages {
            let page = self.page::<R>(cursor.take()).await?.open();
            whole.items.extend(page.items);
            let ttl = page.ttl_ms.map(Duration::from_millis);
            whole.ttl = if number == 0 { ttl } else { whole.ttl.zip(ttl).map(|(a, b)| a.min(b)) };
            let Some(next) = page.next else { return Ok(whole) };
            if !seen.insert(next.clone()) {
                return Err(endless(R::METHOD, &format!("the cursor `{next}` came again")));
            }
            cursor = Some(next);
        }
        Err(endless(R::METHOD, &format!("there are more than {} pages", self.0.max_pages)))
    }

    async fn kept<R>(
        &self,
        place: &Kept<<R::Result as Page>::Item>,
        announced: Option<bool>,
    ) -> Result<Arc<[<R::Result as Page>::Item]>, Error>
    where
        R: Request<Params = ListParams, Result: Page>,
    {
        self.0.lists.catch_up();
        let (kept, generation) = place.look();
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let whole = self.whole::<R>().await?;
        let list: Arc<[_]> = whole.items.into();
        match (whole.ttl, self.0.facts.era, announced) {
            (Some(ttl), ..) => place.keep(generation, &list, Some(ttl)),
            (None, Era::Legacy, Some(true)) => place.keep(generation, &list, None),
            // Nobody would say when it changes.
            _ => {}
        }
        Ok(list)
    }
}

fn endless(method: &str, why: &str) -> Error {
    RpcError::new(ErrorCode::INTERNAL_ERROR, format!("`{method}` does not end: {why}")).into()
}
