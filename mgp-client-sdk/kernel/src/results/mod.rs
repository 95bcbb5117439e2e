//! Long results: a model receives the part of a result that is within its limits, and reads the rest with
//! `mgp_read_more`.

mod chunks;
mod cut_position;
mod form;
mod json_scanner;
mod part;
mod shrink;
mod store;
mod unfit;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_discovery::{Config, ResultLimits};
use mgp_security::{AuditLayer, Governance};
use mgp_server_sdk::ChangeNotifier;
use mgp_types::mcp::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use mgp_types::method::{READ_MORE, tool_spelling};
use mgp_types::mgp::RiskLevel;
use mgp_types::service::{
    Authority, Call, Context, CredentialGrant, OutletItemKind, Principal, Reply, ServerId, Stack,
    TenantId,
};
use mgp_types::{Extras, Payload, RawObject, RpcError, clip};
use serde::Deserialize;
use tower_layer::Layer as _;

pub(crate) use self::form::{malformed, replace_structured, structured_as_text, well_formed};
use self::part::{Limits, Position, Rest, count, count_left, first_part, json_len, next_part};
use self::shrink::{shrink_json, shrink_with_note};
use self::store::RestStore;
pub(crate) use self::unfit::with_text;
use crate::active_config::SharedConfig;
use crate::fleet::FleetContext;
use crate::kernel_hops;
use crate::references::References;
use crate::refusal::is_refusal;

/// The limits of results, and the parts of long results that callers have not received yet. This handle is cheap to
/// clone.
#[derive(Clone)]
pub(crate) struct Results(Arc<ResultsState>);

struct ResultsState {
    config: SharedConfig,
    notifications: ChangeNotifier,
    /// The lowest of all limits, in bytes. A result that is not longer needs no further check.
    lowest: AtomicUsize,
    references: References,
    store: RestStore,
}

/// The maximum length, in bytes, of an error's message and data that the kernel passes on unchanged even if the limits
/// are lower.
const MIN_ERROR_BYTES: usize = 4096;

/// Returns whether the kernel limits results for a caller. Returns `false` for programs of an operator, which read
/// whole results, and for another kernel, which has its own limits.
fn is_limited(cx: &Context) -> bool {
    cx.principal.authority() != Authority::Operator && !kernel_hops::is_from_kernel(cx)
}

impl Results {
    pub(crate) fn new(context: &FleetContext) -> Self {
        let (config, notifications) = (context.config.clone(), context.notifications.clone());
        let state = ResultsState {
            config,
            notifications,
            lowest: AtomicUsize::new(0),
            references: context.references.clone(),
            store: RestStore::default(),
        };
        let this = Self(Arc::new(state));
        this.set(&this.0.config.config());
        this
    }

    /// Replaces the configuration, beginning with the next result.
    pub(crate) fn set(&self, config: &Config) {
        let agents = config.agents.values().map(|agent| agent.results);
        let servers = config.servers.iter().map(|server| server.results);
        let all = agents.chain(servers).chain([config.kernel.results.limits]);
        let lowest = all.filter_map(|limits| limits.lowest()).min();
        self.0.lowest.store(size(lowest), Ordering::Relaxed);
    }

    /// Returns the part of a server's result that the caller receives. If structured content was cut, adds a note to
    /// it, unless the content with the note would not fit the schema of its tool.
    pub(crate) fn limit(
        &self,
        cx: &Context,
        origin: (&ServerId, &str),
        server: impl FnOnce() -> ResultLimits,
        fits: impl Fn(&str) -> bool,
        reply: Reply,
    ) -> Result<Reply, RpcError> {
        let Reply::Complete(body) = &reply else { return Ok(reply) };
        if body.as_raw().as_str().len() <= self.0.lowest.load(Ordering::Relaxed) {
            return Ok(reply);
        }
        if !is_limited(cx) {
            return Ok(reply);
        }
        let limits = self.limits(&cx.principal, &server());
        let result = form::decode(&reply)?;
        let references = &self.0.references;
        let whole = references.apply_to(cx).then(|| result.clone());
        let Some(mut shorter) = self.shorten(cx, result, &limits, fits)? else {
            return Ok(reply);
        };
        if let Some(whole) = whole {
            references.keep_whole(cx, origin, &whole, &mut shorter)?;
        }
        Reply::of(&shorter)
    }

    /// Returns the part of an error that the caller receives. The limits also apply to errors, because a server can put
    /// any data into them.
    pub(crate) fn limit_error(
        &self,
        cx: &Context,
        server: impl FnOnce() -> ResultLimits,
        error: RpcError,
    ) -> RpcError {
        let lowest = self.0.lowest.load(Ordering::Relaxed).max(MIN_ERROR_BYTES);
        if json_len(&error) <= lowest || !is_limited(cx) || is_refusal(&error) {
            return error;
        }
        let limits = self.limits(&cx.principal, &server());
        // Copy only the members that MGP defines, because other members can have any size.
        let message = clip(error.message(), limits.text.max(MIN_ERROR_BYTES));
        let mut shorter = RpcError::new(error.code(), message);
        let most = limits.structured.max(MIN_ERROR_BYTES);
        if let Some(hints) = error.as_recovery().filter(|hints| json_len(hints) <= most) {
            shorter = shorter.recovery(hints.clone());
        }
        let data = error.as_data().and_then(|data| {
            let is_long = data.as_str().len() > most;
            if is_long {
                shrink_json(data.as_str(), most).map(Payload::from_trusted)
            } else {
                Some(data.clone())
            }
        });
        match data {
            Some(data) => shorter.data(data),
            None => shorter,
        }
    }

    /// Limits the chunks of a call in the same way as its result.
    pub(crate) fn limit_chunks(&self, call: &mut Call, server: impl FnOnce() -> ResultLimits) {
        let cx = call.cx();
        if cx.outlet.wants(OutletItemKind::Chunk) && is_limited(cx) {
            let limits = self.limits(&cx.principal, &server());
            chunks::cap(call, limits);
        }
    }

    /// Returns the limits for a server's result to a caller. They combine the general limits, the limits of the agent
    /// and the limits of the server.
    fn limits(&self, principal: &Principal, server: &ResultLimits) -> Limits {
        let config = self.0.config.config();
        let own = config.agent(principal).map(|agent| agent.results).unwrap_or_default();
        let limits = ResultLimits::combine(&config.kernel.results.limits, &own, server);
        let size = |max: Option<u64>| size(max.filter(|max| *max > 0));
        Limits {
            text: size(limits.max_text),
            structured: size(limits.max_structured),
            data: size(limits.max_data),
        }
    }

    /// Returns the shortened result, or `None` if the result is within the limits.
    fn shorten(
        &self,
        cx: &Context,
        mut result: CallToolResult,
        limits: &Limits,
        fits: impl Fn(&str) -> bool,
    ) -> Result<Option<CallToolResult>, RpcError> {
        let structured = result.structured_content.take();
        let whole = structured.clone().filter(|whole| whole.as_str().len() > limits.structured);
        let is_repeated = whole.as_ref().is_some_and(|whole| is_in_content(whole, &result.content));
        let wrapper = wrapper(structured.as_ref(), &result.content, limits);
        let mut part = first_part(result.content, limits);
        result.structured_content = structured;
        if let Some(whole) = whole.as_ref().filter(|_| !is_repeated) {
            part.rest.push(Rest::new(ContentBlock::text(whole.as_str())));
        }
        if part.rest.is_empty() {
            result.content = part.shown;
            let is_shorter = remove_long_members(&mut result, limits) || whole.is_some();
            if let Some(whole) = &whole {
                let shorter = shrink_with_note(whole.as_str(), limits.structured, CUT_NOTE, fits);
                result.structured_content = shorter.map(Payload::from_trusted);
                put_note(&mut result.content, CUT_NOTE);
            }
            return Ok(is_shorter.then_some(result));
        }
        let left = count_left(&part.rest, Position::default());
        let owner = &cx.principal;
        let had_rest = self.0.store.has(owner);
        let keep = self.0.config.config().kernel.results.keep;
        let grant = cx.extensions.get::<CredentialGrant>();
        let id = self.0.store.insert(owner, grant, part.rest, keep)?;
        if !had_rest && id.is_some() {
            // The principal's tool list now contains `mgp_read_more`, so notify the principal's hosts.
            self.0.notifications.tools_changed(|other, _| other == owner);
        }
        let handle = id.map(|id| Position::default().handle(&id));
        let sizes = Sizes { which: "first", shown: count(&part.shown), left };
        result.content = part.shown;
        remove_long_members(&mut result, limits);
        let is_structured = whole.is_some() && wrapper.is_none();
        put_note(&mut result.content, sizes.note(handle.as_deref(), is_structured));
        let is_short = |shorter: &String| shorter.len() <= limits.structured && fits(shorter);
        let shorter = wrapper.map(|name| wrapped(&name, &result.content)).filter(is_short);
        if let Some(shorter) = shorter {
            result.structured_content = Some(Payload::from_trusted(shorter));
        } else if let Some(whole) = &whole {
            let note = format!("[mgp: this content is cut. {}", read_on(handle.as_deref()));
            let shorter = shrink_with_note(whole.as_str(), limits.structured, &note, fits);
            result.structured_content = shorter.map(Payload::from_trusted);
        }
        Ok(Some(result))
    }

    /// Returns the service that answers calls of `mgp_read_more`, and records them in the audit log.
    pub(crate) fn reader(&self, governance: &Governance) -> Stack {
        let results = self.clone();
        let reader = Stack::from_fn(move |call: Call| {
            let results = results.clone();
            async move { results.read_more(&call) }
        });
        let audit = AuditLayer::new(Arc::clone(governance.audit()));
        Stack::new(audit.risk(|_| Some(RiskLevel::Safe)).layer(reader))
    }

    fn read_more(&self, call: &Call) -> Result<Reply, RpcError> {
        #[derive(Deserialize)]
        struct Arguments {
            handle: String,
        }
        let Arguments { handle } = call.tool_arguments().get()?;
        let owner = &call.cx().principal;
        let grant = call.cx().extensions.get::<CredentialGrant>();
        let found = Position::of_handle(&handle)
            .and_then(|(id, from)| Some((id, from, self.0.store.get(owner, grant, id)?)));
        let Some((id, from, rest)) = found else {
            let message =
                "`handle` is unknown or has expired; call the tool again for a new result";
            return Err(RpcError::invalid_params(message));
        };
        let limits = self.limits(owner, &ResultLimits::default());
        let (mut shown, next) = next_part(&rest, from, &limits);
        if let Some(next) = next {
            let left = count_left(&rest, next);
            let sizes = Sizes { which: "next", shown: count(&shown), left };
            put_note(&mut shown, sizes.note(Some(&next.handle(id)), false));
        }
        Reply::of(&CallToolResult::new(shown))
    }

    /// Drops the stored rests of a removed tenant's results.
    pub(crate) fn forget_tenant(&self, tenant: &TenantId) {
        self.0.store.forget_tenant(tenant);
    }

    /// Returns the definition of `mgp_read_more`, if the rest of a long result is stored for the caller.
    pub(crate) fn listed(&self, principal: &Principal) -> Option<Tool> {
        self.0.store.has(principal).then(|| {
            let schema = Payload::from_trusted(READ_MORE_SCHEMA);
            let schema = RawObject::try_from(schema).unwrap_or_default();
            let mut tool = Tool::new(tool_spelling(READ_MORE), schema)
                .description("Reads on in a long result.");
            let hints = tool.annotations.get_or_insert_with(ToolAnnotations::new);
            hints.read_only_hint = Some(true);
            tool
        })
    }
}

const READ_MORE_SCHEMA: &str =
    r#"{"type":"object","properties":{"handle":{"type":"string"}},"required":["handle"]}"#;

/// The note in a result whose structured content was cut, although its other content contains all of it.
const CUT_NOTE: &str =
    "[mgp: the structured content of the result is too long and is cut; all else is complete.]";

fn size(max: Option<u64>) -> usize {
    max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX))
}

/// If the members of a result other than its content are too long, removes them and adds a note. Returns whether it
/// did.
fn remove_long_members(result: &mut CallToolResult, limits: &Limits) -> bool {
    if json_len(&(&result.mgp, &result.meta, &result.extra)) <= limits.structured {
        return false;
    }
    (result.mgp, result.meta, result.extra) = (None, None, Extras::new());
    let note = "[mgp: further members of the result are too long; they are left out.]";
    put_note(&mut result.content, note);
    true
}

/// Returns whether the content of a result repeats its structured content: if a text block is the same JSON value, or
/// if the structured content only wraps a text block or all blocks, e.g. as `{"result": "…"}`.
fn is_in_content(structured: &Payload, content: &[ContentBlock]) -> bool {
    use serde_json::Value;

    let Ok(whole) = structured.get::<Value>() else { return false };
    let wrapped = whole.as_object().filter(|members| members.len() == 1);
    let wrapped = wrapped.and_then(|members| members.values().next());
    let text_of_wrapped = wrapped.and_then(Value::as_str);
    let mut texts = content.iter().filter_map(ContentBlock::as_text);
    let is_in_text = texts.any(|text| {
        text_of_wrapped == Some(text)
            || text.len() * 2 >= structured.as_str().len()
                && serde_json::from_str(text).is_ok_and(|value: Value| value == whole)
    });
    is_in_text
        || wrapped
            .is_some_and(|wrapped| serde_json::to_value(content).ok().as_ref() == Some(wrapped))
}

/// Returns the name of the member with the text if the structured content of a result only wraps a text that is too
/// long, and is the whole other content, e.g. as `{"result": "…"}`.
fn wrapper(
    structured: Option<&Payload>,
    content: &[ContentBlock],
    limits: &Limits,
) -> Option<String> {
    let [block] = content else { return None };
    let long = block.as_text().filter(|text| text.len() > limits.text)?;
    let members: BTreeMap<String, String> = structured?.get().ok()?;
    let (name, text) = members.iter().next().filter(|_| members.len() == 1)?;
    (long == text).then(|| name.clone())
}

/// Returns structured content that wraps the texts of a result under this name. Hosts that show a model only structured
/// content then show it the note and the same part of the result as other hosts do, even if the schema of the tool
/// permits no further members.
fn wrapped(name: &str, content: &[ContentBlock]) -> String {
    let text: String = content.iter().filter_map(ContentBlock::as_text).collect();
    serde_json::json!({ name: text }).to_string()
}

/// Puts a note before the content of a result. Many hosts show a model only the beginning of a long result, so the
/// model would not see a note at the end. The note is a separate line, because some hosts join blocks without a line
/// break.
pub(crate) fn put_note(content: &mut Vec<ContentBlock>, note: impl Into<String>) {
    content.insert(0, ContentBlock::text(note.into() + "\n"));
}

/// Returns the end of a note: the call that returns the next part, or advice if the rest of the result is not stored.
fn read_on(handle: Option<&str>) -> String {
    let name = tool_spelling(READ_MORE);
    match handle {
        Some(handle) => format!(
            r#"Read on: {name} {{"handle":"{handle}"}}, or mgp_tools_call with the name {name}.]"#
        ),
        None => "The rest is too long to be kept: ask the tool for less at a time.]".to_owned(),
    }
}

/// The sizes in the note of a part of a result, in bytes: of its texts, and of its other blocks.
struct Sizes {
    /// The word for the position of the part among the parts that the caller reads: `first` or `next`.
    which: &'static str,
    shown: (usize, usize),
    left: (usize, usize),
}

impl Sizes {
    /// Returns the note that informs the model that the result is longer, and how to read on.
    fn note(&self, handle: Option<&str>, is_structured: bool) -> String {
        let Self { which, shown, left } = self;
        let mut note = format!("[mgp: the result is longer: its {which} ");
        let (text, data) = (shown.0 + left.0, shown.1 + left.1);
        // Ignore the results, because writing to a text cannot fail.
        if text > 0 || left.1 == 0 {
            let _ = write!(note, "{} of {text} bytes of text", shown.0);
        }
        if left.1 > 0 {
            let and = if text > 0 { " and " } else { "" };
            let _ = write!(note, "{and}{} of {data} bytes of images or other data", shown.1);
        }
        note.push_str(" follow");
        if is_structured {
            note.push_str("; its structured content is cut");
        }
        note.push_str(". ");
        note.push_str(&read_on(handle));
        note
    }
}

impl Position {
    /// Returns the handle with which a caller reads on at this position: the id of the stored rest, the block, and the
    /// offset.
    fn handle(self, id: &str) -> String {
        let plain = if self.is_plain { "p" } else { "" };
        format!("{id}.{}.{plain}{}", self.block, self.offset)
    }

    fn of_handle(handle: &str) -> Option<(&str, Self)> {
        let (id, at) = handle.split_once('.')?;
        let (block, offset) = at.split_once('.')?;
        let plain = offset.strip_prefix('p');
        let offset = plain.unwrap_or(offset).parse().ok()?;
        let block = block.parse().ok()?;
        Some((id, Self { block, offset, is_plain: plain.is_some() }))
    }
}
