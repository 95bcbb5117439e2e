//! Lists: one page, all pages, or a cached list (MCP pagination).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mcp::{
    Era, ListParams, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListSkillsResult, ListToolsResult, Prompt, Resource, ResourceTemplate, Skill, Tool,
};
use mgp_types::method::{
    PromptsList, Request, ResourcesList, ResourcesTemplatesList, SkillsList, ToolsList,
};
use mgp_types::service::Reply;
use mgp_types::{ErrorCode, RpcError, clip};

use super::Client;
use crate::cache::CachedList;
use crate::error::Error;
use crate::handler::ServerChange;
use crate::wire::{MAX_LIST_BYTES, page_bytes};

trait Page {
    type Item;
    fn into_content(self) -> PageContent<Self::Item>;
}

struct PageContent<T> {
    items: Vec<T>,
    next: Option<String>,
    ttl_ms: Option<u64>,
}

macro_rules! pages {
    ($($page:ident { $items:ident: $item:ident })+) => {$(
        impl Page for $page {
            type Item = $item;

            fn into_content(self) -> PageContent<$item> {
                PageContent { items: self.$items, next: self.next_cursor, ttl_ms: self.ttl_ms }
            }
        }
    )+};
}

pages! {
    ListToolsResult { tools: Tool }
    ListResourcesResult { resources: Resource }
    ListResourceTemplatesResult { resource_templates: ResourceTemplate }
    ListPromptsResult { prompts: Prompt }
    ListSkillsResult { skills: Skill }
}

/// The items of all pages of a list, with the shortest `ttlMs` of a page if every page has one.
struct AllPages<T> {
    items: Vec<T>,
    ttl: Option<Duration>,
}

/// Defines the three methods of each list: one page, all pages, and the cached list.
macro_rules! lists {
    ($(
        $name:literal: $method:ident -> $page:ident, $item:ident,
        $one:ident, $all:ident, $cached:ident, $cache:ident, $announced:expr;
    )+) => {
        impl Client {$(
            #[doc = concat!("Requests one page of the ", $name, "; `None` is the first.")]
            ///
            /// # Errors
            /// See [`Client::request`].
            ///
            /// # Cancel safety
            /// Dropping the future cancels the request at the server.
            pub async fn $one(&self, cursor: Option<&str>) -> Result<$page, Error> {
                Ok(self.page::<$method>(cursor.map(str::to_owned)).await?.get()?)
            }

            #[doc = concat!("Requests all ", $name, ", page by page.")]
            ///
            /// # Errors
            /// See [`Client::request`]; also code −32603 (internal error) if the pages do not end: a cursor is
            /// repeated, or there are too many pages, or more than 64 MiB.
            ///
            /// # Cancel safety
            /// Dropping the future cancels the request at the server.
            pub async fn $all(&self) -> Result<Vec<$item>, Error> {
                Ok(self.all_pages::<$method>().await?.items)
            }

            #[doc = concat!("Returns all ", $name, ", from the cache if the server reports when they change.")]
            ///
            /// The cached list is dropped after a change (`listChanged`) and when its time to live (`ttlMs`) ends. A
            /// list without `ttlMs` is cached only if a legacy server (up to 2025-11-25) announces its changes over a
            /// permanent connection, i.e. over a pair of streams or HTTP+SSE; otherwise each call requests the list
            /// again.
            ///
            /// # Errors
            #[doc = concat!("See [`Client::", stringify!($all), "`].")]
            ///
            /// # Cancel safety
            /// Dropping the future cancels the request at the server.
            pub async fn $cached(&self) -> Result<Arc<[$item]>, Error> {
                let announced: fn(&Self) -> Option<bool> = $announced;
                self.cached::<$method>(&self.0.lists.$cache, announced(self)).await
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
    /// Requests all skills, page by page (SEP-2640).
    ///
    /// # Errors
    /// See [`Client::list_tools`]; also code −32601 (method not found) from a server without skills.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request at the server.
    pub async fn list_skills(&self) -> Result<Vec<Skill>, Error> {
        Ok(self.all_pages::<SkillsList>().await?.items)
    }

    /// Drops a cached list, as if the server had reported a change. Call this if a layer that filters the list changed.
    pub fn invalidate(&self, what: &ServerChange) {
        self.0.lists.invalidate(what);
    }

    async fn page<R>(&self, cursor: Option<String>) -> Result<Reply, Error>
    where
        R: Request<Params = ListParams>,
    {
        let mut params = ListParams::new();
        params.cursor = cursor;
        self.request_reply::<R>(&params).await
    }

    async fn all_pages<R>(&self) -> Result<AllPages<<R::Result as Page>::Item>, Error>
    where
        R: Request<Params = ListParams, Result: Page>,
    {
        let mut all_pages = AllPages { items: Vec::new(), ttl: None };
        let (mut cursor, mut seen, mut bytes) = (None, HashSet::new(), 0);
        for number in 0..self.0.max_pages {
            let reply = self.page::<R>(cursor.take()).await?;
            bytes += page_bytes(&reply);
            let page = reply.get::<R::Result>()?.into_content();
            all_pages.items.extend(page.items);
            let ttl = page.ttl_ms.map(Duration::from_millis);
            all_pages.ttl =
                if number == 0 { ttl } else { all_pages.ttl.zip(ttl).map(|(a, b)| a.min(b)) };
            let Some(next) = self.0.facts.next_page(page.next) else { return Ok(all_pages) };
            if !seen.insert(next.clone()) {
                return Err(repeated_cursor(R::METHOD, &next));
            }
            if bytes > MAX_LIST_BYTES {
                return Err(endless(R::METHOD, "the pages have more than 64 MiB"));
            }
            cursor = Some(next);
        }
        Err(endless(R::METHOD, &format!("there are more than {} pages", self.0.max_pages)))
    }

    async fn cached<R>(
        &self,
        cache: &CachedList<<R::Result as Page>::Item>,
        announced: Option<bool>,
    ) -> Result<Arc<[<R::Result as Page>::Item]>, Error>
    where
        R: Request<Params = ListParams, Result: Page>,
    {
        self.0.lists.invalidate_if_changed();
        let (cached, generation) = cache.get();
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let all_pages = self.all_pages::<R>().await?;
        let list: Arc<[_]> = all_pages.items.into();
        let is_announced = announced == Some(true) && self.0.has_permanent_connection;
        match (all_pages.ttl, self.0.facts.era) {
            (Some(ttl), _) => cache.insert(generation, &list, Some(ttl)),
            (None, Era::Legacy) if is_announced => cache.insert(generation, &list, None),
            // The client might not learn of a change of this list, so the list is not cached.
            _ => {}
        }
        Ok(list)
    }
}

pub(super) fn endless(method: &str, why: &str) -> Error {
    RpcError::new(ErrorCode::INTERNAL_ERROR, format!("`{method}` does not end: {why}")).into()
}

pub(super) fn repeated_cursor(method: &str, cursor: &str) -> Error {
    endless(method, &format!("the cursor `{}` was repeated", clip(cursor, 120)))
}
