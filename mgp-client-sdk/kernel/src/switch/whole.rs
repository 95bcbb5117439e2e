//! What belongs to servers as a whole: resources, prompts, completion (MCP; DESIGN §5).
//!
//! A caller has what the servers have that it sees as a whole; the gates before each server decide once more.
//!
//! Applies to: inbound.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mgp_types::mcp::{
    CompleteParams, CompleteReference, CompleteResult, Completion, EmptyParams, Era,
    ReadResourceResult,
};
use mgp_types::method::{
    CompletionComplete, PromptsGet, PromptsList, Request, ResourcesList, ResourcesRead,
    ResourcesTemplatesList, RootsListChanged,
};
use mgp_types::service::{Call, Context, Params, Reply, Router, Stack, Target};
use mgp_types::{ErrorCode, Payload, RpcError};

use super::Switch;
use super::names::{Found, Meant, Names, fits, qualify};
use super::page;
use crate::again::Again;
use crate::fleet::{Kind, Node, What};

/// How long a list waits for servers that are asked anew; then it shows what they listed before.
const ASKS: Duration = Duration::from_secs(5);

/// Everything that is answered.
pub(super) fn router(switch: &Switch) -> Router {
    let list = |kind: Kind| {
        let switch = switch.clone();
        Stack::from_fn(move |call| switch.clone().list(kind, call))
    };
    let (read, get, complete) = (switch.clone(), switch.clone(), switch.clone());
    let roots = switch.clone();
    Router::new()
        .route(ResourcesList::METHOD, list(Kind::Resources))
        .route(ResourcesTemplatesList::METHOD, list(Kind::Templates))
        .route(PromptsList::METHOD, list(Kind::Prompts))
        .route(ResourcesRead::METHOD, Stack::from_fn(move |call| read.clone().read(call)))
        .route(PromptsGet::METHOD, Stack::from_fn(move |call| get.clone().get(call)))
        .route(
            CompletionComplete::METHOD,
            Stack::from_fn(move |call| complete.clone().complete(call)),
        )
        .on_notification::<RootsListChanged, _, _>(move |cx, _| {
            roots.tell_roots(&cx);
            async { Ok(()) }
        })
}

impl Switch {
    /// The servers that a caller sees as a whole.
    fn seen(&self, cx: &Context) -> Vec<Arc<Node>> {
        let parts = self.parts();
        let all = parts.fleet.all();
        all.values().filter(|node| parts.seen.sees_server(cx, node.id())).cloned().collect()
    }

    /// The same, each asked anew what it lists where that is not known.
    async fn fresh(&self, cx: &Context, kind: Kind) -> Vec<Arc<Node>> {
        let nodes = self.seen(cx);
        self.met(cx, nodes.iter()).await;
        let asked = join_all(nodes.iter().map(|node| node.refresh(kind)));
        if let Ok(changed) = tokio::time::timeout(ASKS, asked).await {
            let what = if kind == Kind::Prompts { What::Prompts } else { What::Resources };
            for (node, _) in nodes.iter().zip(changed).filter(|(_, changed)| *changed) {
                self.parts().fleet.tell(node, &[what]);
                self.parts().fleet.keep(node);
            }
        }
        nodes
    }

    async fn list(self, kind: Kind, call: Call) -> Result<Reply, RpcError> {
        let nodes = self.fresh(call.cx(), kind).await;
        page::of(kind, &Names::of(kind, &nodes), &call)
    }

    // === Resources ===

    async fn read(self, mut call: Call) -> Result<Reply, RpcError> {
        let Some(Target::Resource(asked)) = call.params().target().cloned() else {
            return Err(RpcError::invalid_params("`uri` must be a string"));
        };
        let (Meant { node, key }, may) = self.resource(call.cx(), &asked).await?;
        let is_renamed = key != *asked;
        let era = call.cx().caller.era;
        if is_renamed {
            call.params_mut().retarget(Target::Resource(key.as_str().into()));
        }
        let mut reply = node.send(call, may).await?;
        if is_renamed && matches!(reply, Reply::Complete(_)) {
            // Whoever asks for a name looks for it in the answer.
            let mut result: ReadResourceResult = reply.get()?;
            for contents in result.contents.iter_mut().filter(|contents| contents.uri == key) {
                contents.uri = asked.to_string();
            }
            reply = Reply::of(&result)?;
        }
        Ok(dated(reply, era))
    }

    /// The resource a URI means.
    async fn resource(&self, cx: &Context, uri: &str) -> Result<(Meant, bool), RpcError> {
        let nodes = self.seen(cx);
        // What is known is not asked for again.
        if let Found::One(meant) = Names::of(Kind::Resources, &nodes).find(uri) {
            return Ok((meant, true));
        }
        let nodes = self.fresh(cx, Kind::Resources).await;
        if let Some(meant) = resource_of(cx, uri, &nodes)? {
            return Ok((meant, true));
        }
        // One that the caller may not read is found too: the gates refuse it, on the record.
        let all: Vec<_> = self.parts().fleet.all().values().cloned().collect();
        if let Found::One(meant) = Names::of(Kind::Resources, &all).find(uri) {
            return Ok((meant, false));
        }
        // Most servers have more than they list.
        match unlisted(cx, uri, &nodes)? {
            Some(meant) => Ok((meant, true)),
            None => Err(unknown_resource(cx, uri)),
        }
    }

    /// The resource that is to be watched: its server, and what that calls it.
    pub(crate) async fn watched(
        &self,
        cx: &Context,
        uri: &str,
    ) -> Result<(Arc<Node>, String), RpcError> {
        let (Meant { node, key }, may) = self.resource(cx, uri).await?;
        if may { Ok((node, key)) } else { Err(unknown_resource(cx, uri)) }
    }

    // === Prompts ===

    async fn get(self, mut call: Call) -> Result<Reply, RpcError> {
        let Some(Target::Prompt(asked)) = call.params().target().cloned() else {
            return Err(RpcError::invalid_params("`name` must be a string"));
        };
        let (Meant { node, key }, may) = self.prompt(call.cx(), &asked).await?;
        if key != *asked {
            call.params_mut().retarget(Target::Prompt(key.as_str().into()));
        }
        node.send(call, may).await
    }

    /// The prompt a name means.
    async fn prompt(&self, cx: &Context, name: &str) -> Result<(Meant, bool), RpcError> {
        let nodes = self.seen(cx);
        if let Found::One(meant) = Names::of(Kind::Prompts, &nodes).find(name) {
            return Ok((meant, true));
        }
        let nodes = self.fresh(cx, Kind::Prompts).await;
        match Names::of(Kind::Prompts, &nodes).find(name) {
            Found::One(meant) => return Ok((meant, true)),
            Found::Many(names) => return Err(ambiguous(cx, "prompt", name, &names)),
            Found::None => {}
        }
        let all: Vec<_> = self.parts().fleet.all().values().cloned().collect();
        match Names::of(Kind::Prompts, &all).find(name) {
            Found::One(meant) => Ok((meant, false)),
            _ => Err(RpcError::invalid_params(format!(
                "unknown prompt `{}`; use a name from `prompts/list`",
                brief(name)
            ))),
        }
    }

    // === Completion ===

    async fn complete(self, mut call: Call) -> Result<Reply, RpcError> {
        let mut params: CompleteParams = call.params().get()?;
        let (Meant { node, key }, may) = match &params.reference {
            CompleteReference::Prompt(prompt) => self.prompt(call.cx(), &prompt.name).await?,
            CompleteReference::Resource(resource) => {
                self.template(call.cx(), &resource.uri).await?
            }
            _ => {
                let message = "unknown `ref.type`; known: ref/prompt, ref/resource";
                return Err(RpcError::invalid_params(message));
            }
        };
        let offered = node.shelf().capabilities();
        if may && offered.is_some_and(|offered| offered.completions.is_none()) {
            // It completes nothing, and that is what it would propose.
            return Reply::of(&CompleteResult::new(Completion::new(Vec::new())));
        }
        let name = match &mut params.reference {
            CompleteReference::Prompt(prompt) => &mut prompt.name,
            CompleteReference::Resource(resource) => &mut resource.uri,
            _ => return node.send(call, may).await,
        };
        if *name != key {
            *name = key;
            *call.params_mut() = Params::of(CompletionComplete::METHOD, &params)?;
        }
        node.send(call, may).await
    }

    /// The template that is completed; the URI of a resource will do too.
    async fn template(&self, cx: &Context, uri: &str) -> Result<(Meant, bool), RpcError> {
        let nodes = self.fresh(cx, Kind::Templates).await;
        match Names::of(Kind::Templates, &nodes).find(uri) {
            Found::One(meant) => Ok((meant, true)),
            Found::Many(names) => Err(ambiguous(cx, "template", uri, &names)),
            Found::None => self.resource(cx, uri).await,
        }
    }

    // === Roots ===

    /// Tells the servers a caller sees that its roots are others now; however often it says so, once at a time.
    pub(super) fn tell_roots(&self, cx: &Context) {
        #[derive(Default)]
        struct Roots;
        let (switch, cx) = (self.clone(), cx.clone());
        let telling = cx.scope.state::<Again<Roots>>();
        // Telling may wait for servers that read slowly.
        telling.ask(move || switch.clone().roots_changed(cx.clone()));
    }

    /// Those of the modern era ask each time.
    async fn roots_changed(self, cx: Context) {
        let clients = self.seen(&cx).into_iter().flat_map(|node| {
            if node.is_isolated() {
                node.present(&cx.principal).into_iter().collect()
            } else {
                node.running()
            }
        });
        let legacy = clients.filter(|client| client.server().era == Era::Legacy);
        let told = legacy.map(|client| async move {
            let call = Call::tell::<RootsListChanged>(&EmptyParams::new(), client.context());
            if let Ok(call) = call {
                // One that is gone asks anew when it is back.
                let _ = mgp_client_sdk::gateway::ungated(&client).send(call).await;
            }
        });
        join_all(told).await;
    }
}

/// The resource a URI means among the servers a caller sees.
fn resource_of(cx: &Context, uri: &str, nodes: &[Arc<Node>]) -> Result<Option<Meant>, RpcError> {
    match Names::of(Kind::Resources, nodes).find(uri) {
        Found::One(meant) => return Ok(Some(meant)),
        Found::Many(names) => return Err(ambiguous(cx, "resource", uri, &names)),
        Found::None => {}
    }
    let nodes: Vec<_> = nodes.iter().filter(|node| node.has_template(uri)).collect();
    only(cx, uri, &nodes)
}

/// The one server that may have a resource nobody lists: it has the kind of its URI, else it is the only one with any.
fn unlisted(cx: &Context, uri: &str, nodes: &[Arc<Node>]) -> Result<Option<Meant>, RpcError> {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let of_scheme: Vec<_> = nodes.iter().filter(|node| node.has_scheme(scheme)).collect();
    if let Some(meant) = only(cx, uri, &of_scheme)? {
        return Ok(Some(meant));
    }
    let offers = |node: &&Arc<Node>| {
        node.shelf().capabilities().is_some_and(|offered| offered.resources.is_some())
    };
    only(cx, uri, &nodes.iter().filter(offers).collect::<Vec<_>>())
}

/// The one server that may have a resource; none of several is asked before it is said which.
fn only(cx: &Context, uri: &str, nodes: &[&Arc<Node>]) -> Result<Option<Meant>, RpcError> {
    match nodes {
        [] => Ok(None),
        [node] => Ok(Some(Meant { node: Arc::clone(node), key: uri.to_owned() })),
        _ => {
            let names = nodes.iter().map(|node| qualify(Kind::Resources, node.id(), uri));
            Err(ambiguous(cx, "resource", uri, &names.collect::<Vec<_>>()))
        }
    }
}

impl Node {
    /// Whether a template of it may have made a URI.
    fn has_template(&self, uri: &str) -> bool {
        let templates = self.shelf().list(Kind::Templates);
        templates.entries().iter().any(|entry| fits(&entry.key, uri))
    }

    /// Whether it lists anything of a scheme.
    fn has_scheme(&self, scheme: &str) -> bool {
        [Kind::Resources, Kind::Templates].into_iter().any(|kind| {
            let list = self.shelf().list(kind);
            let mut keys = list.entries().iter().map(|entry| entry.key.split_once(':'));
            keys.any(|key| key.is_some_and(|(other, _)| other == scheme))
        })
    }
}

/// What a modern caller wants of a resource to be said, where its server is of an older kind.
fn dated(mut reply: Reply, era: Era) -> Reply {
    if era == Era::Modern
        && let Some(body) = reply.as_body_mut()
        && !body.as_raw().as_str().contains("\"ttlMs\"")
    {
        body.insert("ttlMs", Payload::from_trusted("0"));
        body.insert("cacheScope", Payload::from_trusted(r#""private""#));
    }
    reply
}

fn ambiguous(cx: &Context, what: &str, name: &str, names: &[String]) -> RpcError {
    let names: Vec<_> = names.iter().take(8).map(|name| format!("`{}`", brief(name))).collect();
    let message = format!(
        "several servers have the {what} `{}`; use one of {}",
        brief(name),
        names.join(", ")
    );
    let code = if cx.caller.speaks_mgp() {
        ErrorCode::TOOL_NAME_CONFLICT
    } else {
        ErrorCode::INVALID_PARAMS
    };
    RpcError::new(code, message)
}

fn unknown_resource(cx: &Context, uri: &str) -> RpcError {
    #[derive(serde::Serialize)]
    struct Data<'a> {
        uri: &'a str,
    }
    let code = match cx.caller.era {
        _ if cx.caller.speaks_mgp() => ErrorCode::RESOURCE_NOT_FOUND,
        Era::Legacy => ErrorCode::MCP_RESOURCE_NOT_FOUND,
        Era::Modern => ErrorCode::INVALID_PARAMS,
    };
    let message = format!("unknown resource `{}`; use a URI from `resources/list`", brief(uri));
    let error = RpcError::new(code, message);
    match Payload::of(&Data { uri: &brief(uri) }) {
        Ok(data) => error.data(data),
        Err(_) => error,
    }
}

/// What a caller sent is quoted, but not at any length.
fn brief(text: &str) -> String {
    text.chars().take(200).collect()
}
