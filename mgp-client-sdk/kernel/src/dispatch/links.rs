//! Adapts the results and chunks of servers to the caller: the URIs of resources, and content blocks that the MCP
//! revision of the host lacks.
//!
//! A host reads a linked resource through the kernel. If the URI would not lead the host to the server of the result,
//! the kernel replaces the URI by one that contains the id of the server. Links and audio become texts for hosts whose
//! revision lacks them.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use mgp_types::mcp::{ContentBlock, ResourceLink, Revision};
use mgp_types::service::{
    BoxFuture, Call, ConsumerGone, Context, OutletItem, OutletItemKind, Reply, Sink,
};
use mgp_types::{Object, Payload, RpcError};

use super::dispatcher::Dispatcher;
use super::names::qualify;
use super::resources::leads_to;
use crate::fleet::{ListKind, ManagedServer};
use crate::server_answer::change_list;

/// The schemes of URIs that clients can also read without the kernel.
const PUBLIC_SCHEMES: [&str; 3] = ["https:", "http:", "data:"];

/// The maximum number of URIs to look up in one result. Each of them may be compared with all entries of all lists.
/// Further URIs are not replaced.
const MAX_URIS: usize = 1_000;

/// The number of bytes for which a long URI counts as one more URI, because it takes longer to compare.
const BYTES_PER_URI: usize = 256;

/// The maximum length in bytes of a URI that is looked up.
const MAX_URI_BYTES: usize = 8 * 1024;

/// The URIs under which a caller sees the resources of one server.
pub(super) struct ResourceLinks<'a> {
    cx: &'a Context,
    server: &'a ManagedServer,
    visible: Vec<Arc<ManagedServer>>,
    /// The number of URIs that may still be looked up.
    left: Cell<usize>,
}

impl<'a> ResourceLinks<'a> {
    /// Returns the URIs under which a caller sees a server's resources. Returns `None` if the caller sees the same URIs
    /// as the server, or cannot read the server's resources.
    pub(super) fn new(
        dispatcher: &Dispatcher,
        cx: &'a Context,
        server: &'a ManagedServer,
    ) -> Option<Self> {
        if !offers_resources(server) {
            return None;
        }
        let visible = dispatcher.visible_servers(cx);
        let is_visible = visible.iter().any(|one| one.id() == server.id());
        let has_others = visible.iter().any(|one| one.id() != server.id() && offers_resources(one));
        let left = Cell::new(MAX_URIS);
        (is_visible && has_others).then_some(Self { cx, server, visible, left })
    }

    /// Returns the URI that replaces the server's own URI of a resource; `None` if the server's URI stays.
    pub(super) fn shown_uri(&self, uri: &str) -> Option<String> {
        if uri.len() > MAX_URI_BYTES {
            return None;
        }
        let is_public = PUBLIC_SCHEMES.iter().any(|scheme| uri.starts_with(*scheme));
        if is_public && !self.server.lists().list(ListKind::Resources).contains(uri) {
            return None;
        }
        self.left.set(self.left.get().checked_sub(1 + uri.len() / BYTES_PER_URI)?);
        let leads_back = leads_to(self.cx, uri, &self.visible, self.server.id());
        (!leads_back).then(|| qualify(ListKind::Resources, self.server.id(), uri))
    }

    /// Replaces the member `uri` of an object; returns `None` if the URI stays as it is.
    fn rename_uri(&self, members: &mut Object) -> Option<()> {
        let uri: String = members.decode("uri").ok()??;
        let shown = self.shown_uri(&uri)?;
        members.encode("uri", &shown).ok()
    }
}

/// Returns a content block with the URI that the caller sees; `None` if the block stays as it is.
fn rename_block(links: &ResourceLinks<'_>, block: &Payload) -> Option<Payload> {
    let mut members: Object = block.get().ok()?;
    let kind: String = members.decode("type").ok()??;
    match kind.as_str() {
        "resource_link" => links.rename_uri(&mut members)?,
        "resource" => {
            let mut resource: Object = members.decode("resource").ok()??;
            links.rename_uri(&mut resource)?;
            members.encode("resource", &resource).ok()?;
        }
        _ => return None,
    }
    Payload::of(&members).ok()
}

/// Returns the text block that a caller receives in place of a block that its MCP revision lacks: a link to a resource
/// before 2025-06-18, or audio before 2025-03-26. Returns `None` if the block stays as it is.
fn block_as_text(revision: &Revision, block: &Payload) -> Option<Payload> {
    let (text, hints) = match block.get::<ContentBlock>().ok()? {
        ContentBlock::ResourceLink(link) => (link_as_text(&link), link.annotations),
        ContentBlock::Audio(audio) if *revision < Revision::V2025_03_26 => {
            let kind = &audio.mime_type;
            let text = format!("[mgp: audio ({kind}), which MCP {revision} cannot transfer]");
            (text, audio.annotations)
        }
        _ => return None,
    };
    let block = ContentBlock::text(text);
    Payload::of(&hints.into_iter().fold(block, ContentBlock::annotations)).ok()
}

fn link_as_text(link: &ResourceLink) -> String {
    let ResourceLink { name, uri, title, mime_type, description, .. } = link;
    let part = |part: &Option<String>, write: fn(&str) -> String| {
        part.as_deref().map(write).unwrap_or_default()
    };
    let title = part(title, |title| format!(", {title}"));
    let kind = part(mime_type, |kind| format!(" ({kind})"));
    let description = part(description, |text| format!("\n{text}"));
    format!("Link to the resource `{name}`{title}{kind}: {uri}{description}")
}

/// A function that returns a changed content block; `None` if the block remains as it is.
type ChangeBlock<'a> = &'a dyn Fn(&Payload) -> Option<Payload>;

/// Changes the content block of a prompt's message; returns `None` if the message remains as it is.
fn in_message(message: &Payload, change: ChangeBlock<'_>) -> Option<Payload> {
    let mut members: Object = message.get().ok()?;
    let changed = change(members.get("content")?)?;
    members.insert("content", changed);
    Payload::of(&members).ok()
}

/// Adapts the result of a tool: replaces the URIs of resources, and puts texts in place of the content blocks that the
/// caller's revision lacks.
///
/// # Errors
/// Returns −32603 (internal error) if the result cannot be written as JSON.
pub(super) fn in_result(
    dispatcher: &Dispatcher,
    cx: &Context,
    server: &ManagedServer,
    reply: Reply,
) -> Result<Reply, RpcError> {
    in_list(dispatcher, cx, server, reply, "content", |block, change| change(block))
}

/// Adapts the messages of a prompt: replaces the URIs of resources, and puts texts in place of the content blocks that
/// the caller's revision lacks.
///
/// # Errors
/// Returns −32603 (internal error) if the result cannot be written as JSON.
pub(super) fn in_prompt(
    dispatcher: &Dispatcher,
    cx: &Context,
    server: &ManagedServer,
    reply: Reply,
) -> Result<Reply, RpcError> {
    in_list(dispatcher, cx, server, reply, "messages", in_message)
}

/// Replaces the URIs in the contents of a resource, except the requested URI. For example, the contents of a folder can
/// be several files, each with its own URI.
///
/// # Errors
/// Returns −32603 (internal error) if the result cannot be written as JSON.
pub(super) fn in_contents(
    links: &ResourceLinks<'_>,
    requested: &str,
    reply: Reply,
) -> Result<Reply, RpcError> {
    change_list(reply, "contents", |contents| {
        let mut members: Object = contents.get().ok()?;
        if members.decode::<String>("uri").ok()?? == requested {
            return None;
        }
        links.rename_uri(&mut members)?;
        Payload::of(&members).ok()
    })
}

/// Replaces the URIs of resources in the chunks that a call sends before its result (MGP §12.4).
pub(super) fn in_chunks(dispatcher: &Dispatcher, call: &mut Call, server: &Arc<ManagedServer>) {
    if !call.cx().outlet.wants(OutletItemKind::Chunk) || !offers_resources(server) {
        return;
    }
    let (dispatcher, server, cx) = (dispatcher.clone(), Arc::clone(server), call.cx().clone());
    let left = AtomicUsize::new(MAX_URIS);
    let outlet = std::mem::take(&mut call.cx_mut().outlet);
    call.cx_mut().outlet =
        outlet.wrap(|inner| Arc::new(LinkedChunks { inner, dispatcher, server, cx, left }));
}

/// A sink for the chunks of a call that replaces the URIs of resources, and passes all items on to another sink.
struct LinkedChunks {
    inner: Arc<dyn Sink>,
    dispatcher: Dispatcher,
    server: Arc<ManagedServer>,
    cx: Context,
    /// The number of further chunks whose URIs may be looked up.
    left: AtomicUsize,
}

impl LinkedChunks {
    /// Returns the content of a chunk with the URI that the caller sees; `None` if the content stays as it is.
    fn renamed(&self, content: &Payload) -> Option<Payload> {
        if !may_have_resources(content) {
            return None;
        }
        let one_less = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).ok()?;
        let links = ResourceLinks::new(&self.dispatcher, &self.cx, &self.server)?;
        rename_block(&links, content)
    }
}

impl Sink for LinkedChunks {
    fn send(&self, mut item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        if let OutletItem::Chunk(chunk) = &mut item
            && let Some(renamed) = self.renamed(&chunk.content)
        {
            chunk.content = renamed;
        }
        self.inner.send(item)
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        self.inner.wants(kind)
    }
}

pub(super) fn offers_resources(server: &ManagedServer) -> bool {
    server.lists().capabilities().is_some_and(|offered| offered.resources.is_some())
}

/// Returns whether JSON might have content blocks with URIs of resources. Few results have any, so most need not be
/// parsed.
fn may_have_resources(json: &Payload) -> bool {
    static KIND: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\"resource"));
    KIND.find(json.as_str().as_bytes()).is_some()
}

/// Replaces content blocks in the elements of a list in a result. `within` changes the block of one element.
fn in_list(
    dispatcher: &Dispatcher,
    cx: &Context,
    server: &ManagedServer,
    mut reply: Reply,
    name: &str,
    within: impl Fn(&Payload, ChangeBlock<'_>) -> Option<Payload>,
) -> Result<Reply, RpcError> {
    let Reply::Complete(body) = &reply else { return Ok(reply) };
    let revision = &cx.caller.revision;
    let has_resources = may_have_resources(body.as_raw());
    let has_unknown = *revision < Revision::V2025_06_18
        && (has_resources || body.as_raw().as_str().contains("\"audio\""));
    if has_resources && let Some(links) = ResourceLinks::new(dispatcher, cx, server) {
        let change = |block: &Payload| rename_block(&links, block);
        reply = change_list(reply, name, |element| within(element, &change))?;
    }
    if has_unknown {
        let change = |block: &Payload| block_as_text(revision, block);
        reply = change_list(reply, name, |element| within(element, &change))?;
    }
    Ok(reply)
}
