//! `tools/call`: passes a call to the server that has the tool, after all checks for that server.
//!
//! Applies to: inbound.

use std::future::Future;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use mgp_client_sdk::Hop;
use mgp_toolindex::{IndexedTool, MetaTool, ToolFeature, UseOutcome};
use mgp_types::mcp::{CallToolParams, Era, is_of_objects, legacy_output_schema};
use mgp_types::method::{READ_MORE, find_kernel_tool};
use mgp_types::service::{Call, Context, Params, Reply, Visibility as _, is_tool_error};
use mgp_types::{ErrorCode, Object, Payload, RpcError};
use serde::{Deserialize, Deserializer};

use super::delegation;
use super::dispatcher::{Dispatcher, DispatcherParts};
use super::find_tool::{CallAddress, ResolvedTool, find_unread, resolve_tool};
use super::links;
use super::output_schema;
use super::result_members;
use super::surface;
use super::tasks;
use crate::caller_view::is_for_pages_only;
use crate::events::PublishedCall;
use crate::fleet::{Fleet, ManagedServer};
use crate::metrics::{self, MeasuredCall};
use crate::proposals::session_state::OpenSession;
use crate::results::{malformed, replace_structured, structured_as_text, with_text};

/// Turns a call of `mgp_tools_call` that names a kernel method or `mgp_read_more` into a direct call of that tool.
pub(crate) fn unwrap_kernel_tool(call: &mut Call) {
    if call.tool().and_then(|tool| MetaTool::of(tool.name)) == Some(MetaTool::Call)
        && let Ok(named) = call.tool_arguments().get::<CallToolParams>()
        // A nested `mgp_tools_call` is not unwrapped, because it is neither a method nor `mgp_read_more`.
        && find_kernel_tool(&named.name)
            .is_some_and(|tool| tool.method.is_some() || tool.name == READ_MORE)
    {
        let arguments = named.arguments.unwrap_or_default().into();
        *call.params_mut() = Params::tool(&named.name, &arguments);
    }
}

/// Passes a call to the server that has the tool.
pub(crate) fn call(
    dispatcher: Dispatcher,
    mut call: Call,
) -> impl Future<Output = Result<Reply, RpcError>> + Send {
    // Read the address before the call is rewritten for the server: the address is meant only for this kernel, so it is
    // lost then.
    let read = CallAddress::read(&call).map(|address| {
        let resolved = resolve_tool(&dispatcher, &mut call, &address);
        (address, resolved)
    });
    async move {
        let (address, resolved) = read?;
        // Find the session first, so that an expired session handle makes the call fail before the tool runs.
        dispatcher.parts().sessions.find(call.cx(), address.session_handle.as_deref())?;
        let resolved = match resolved {
            Err(error) if error.code() == ErrorCode::TOOL_NOT_FOUND => {
                // Box this rare future, so that the future of all other calls remains small.
                Box::pin(find_unread(&dispatcher, &mut call, &address, error)).await
            }
            resolved => resolved,
        };
        let (tool, is_visible) = match resolved? {
            ResolvedTool::Visible(tool) => (tool, true),
            ResolvedTool::Found(tool) => (tool, false),
            ResolvedTool::Held(server) => return server.send(call, false).await,
        };
        delegation::apply(&mut call, &address.on_behalf_of);
        let DispatcherParts { fleet, view, metrics, .. } = dispatcher.parts();
        let server = fleet.get(tool.server_id()).ok_or_else(|| server_removed(&tool))?;
        let sees = is_visible || view.sees(call.cx(), Some(server.id()), tool.name()).is_ok();
        // The credentials of this request may permit less than those that began a parked call.
        let is_lost = Hop::is_continued(call.cx()) && !view.may_call(call.cx(), &tool);
        let has_access = sees && !is_lost;
        let references = &fleet.context().references;
        if references.apply_to(call.cx()) {
            // Attach the data before the security checks, so that these see the arguments that the server will receive.
            let extensions = server.extensions(call.cx());
            Box::pin(references.attach(&mut call, view, extensions, &tool)).await?;
        }
        let forwarded = ForwardedCall {
            dispatcher: &dispatcher,
            address: &address,
            server: &server,
            tool: &tool,
            has_access,
        };
        let session = forwarded.begin(&mut call)?;
        let cx = call.cx().clone();
        let published = fleet.context().events.call(&cx, server.id(), tool.name());
        let measured = metrics.begin(&cx, server.id(), tool.name(), published.earlier());
        let answer = if tasks::may_be_required(&server, &tool, &cx) {
            Box::pin(tasks::call_as_required(&server, &tool, call, has_access)).await
        } else {
            server.send(call, has_access).await
        };
        forwarded.finish(&cx, session, measured, published, answer).await
    }
}

/// A call that is about to be forwarded, with its tool and its server.
struct ForwardedCall<'a> {
    dispatcher: &'a Dispatcher,
    address: &'a CallAddress,
    server: &'a Arc<ManagedServer>,
    tool: &'a IndexedTool,
    has_access: bool,
}

impl ForwardedCall<'_> {
    /// Prepares the call for the server, and opens its session if it has one.
    fn begin(&self, call: &mut Call) -> Result<Option<OpenSession>, RpcError> {
        let DispatcherParts { results, metrics, .. } = self.dispatcher.parts();
        let session = result_members::begin(self.dispatcher, call, self.tool, self.has_access)?;
        metrics.identify(call);
        results.limit_chunks(call, || self.server.config().results);
        // Replace links in chunks before the limits of chunks apply, as in results.
        links::in_chunks(self.dispatcher, call, self.server);
        Ok(session)
    }

    /// Checks the answer of the server, records the use of the tool, and limits the result. If the answer is a question
    /// to the caller, nothing is recorded, because the call continues in its next round.
    async fn finish(
        &self,
        cx: &Context,
        session: Option<OpenSession>,
        measured: Option<MeasuredCall<'_>>,
        published: PublishedCall<'_>,
        answer: Result<Reply, RpcError>,
    ) -> Result<Reply, RpcError> {
        let Self { dispatcher, address, server, tool, has_access } = *self;
        let DispatcherParts { fleet, results, .. } = dispatcher.parts();
        let answer = answer.and_then(crate::results::well_formed);
        let answer = answer.and_then(|reply| check_result(fleet, tool, cx, reply));
        let goes_on = matches!(&answer, Ok(Reply::InputRequired(_)));
        // This value is used only if the call has ended, not if it waits for the caller's answer to a question.
        let is_success =
            matches!(&answer, Ok(reply) if !reply.as_body().is_some_and(is_tool_error));
        if goes_on {
            if let Some(measured) = measured {
                measured.suspend();
            }
        } else if measured.is_some() || answer.is_err() {
            metrics::end(cx, server.id(), tool.name(), measured, &answer);
        }
        published.end(&answer, is_success).await;
        if has_access && !goes_on {
            record_use(dispatcher, cx, address, tool, is_success);
        }
        let limits = || server.config().results;
        let answer = result_members::finish(dispatcher, cx, server, tool, session, answer);
        match answer.and_then(|reply| links::in_result(dispatcher, cx, server, reply)) {
            Ok(reply) => {
                let fits = |content: &str| fits_schema(fleet, tool, content);
                results.limit(cx, (server.id(), tool.name()), limits, fits, reply)
            }
            Err(error) => {
                let error = result_members::add_hints(cx, server, error);
                Err(results.limit_error(cx, limits, error))
            }
        }
    }
}

/// Records the use of a tool in the caller's session and in the history of the index.
fn record_use(
    dispatcher: &Dispatcher,
    cx: &Context,
    address: &CallAddress,
    tool: &IndexedTool,
    is_success: bool,
) {
    // Record nothing for a tool that only pages use, because it must not take the place of a tool that a model uses.
    if is_for_pages_only(tool) {
        return;
    }
    let DispatcherParts { fleet, view, meta_tools, search, .. } = dispatcher.parts();
    let outcome = if is_success { UseOutcome::Answered } else { UseOutcome::Failed };
    let recorded = search.record_call(cx, address.session_handle.as_deref(), tool, outcome);
    // Ignore an error, which occurs only if the session handle has expired during the call.
    if recorded.unwrap_or_default() {
        surface::notify_session_changed(fleet.context(), view, meta_tools, cx);
    }
}

/// Refuses a result whose structured content does not fit the output schema of its tool, or cannot be read for the
/// check, unless the configuration leaves the check to the server. A caller of the legacy era receives structured
/// content that is not an object as text.
fn check_result(
    fleet: &Fleet,
    tool: &IndexedTool,
    cx: &Context,
    reply: Reply,
) -> Result<Reply, RpcError> {
    /// Deserializes a member to `Some` even if its value is `null`, so that only an absent member becomes `None`.
    fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Payload>, D::Error> {
        Payload::deserialize(value).map(Some)
    }
    #[derive(Deserialize)]
    struct Structured {
        #[serde(default, rename = "isError")]
        is_error: Option<bool>,
        #[serde(default, rename = "structuredContent", deserialize_with = "present")]
        content: Option<Payload>,
    }
    static NAME: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\"structuredContent\""));
    let Some(body) = reply.as_body() else { return Ok(reply) };
    let is_legacy = cx.caller.era == Era::Legacy;
    // Parse only the results of the few tools that declare an output schema, or that a legacy caller might not accept.
    let may_not_fit = is_legacy && NAME.find(body.as_raw().as_str().as_bytes()).is_some();
    if !tool.may_use(ToolFeature::OutputSchema) && !may_not_fit {
        return Ok(reply);
    }
    let definitions = fleet.context().governance.definitions();
    let server = tool.server_id().into();
    let read: Structured = match body.as_raw().get() {
        Ok(read) => read,
        Err(error) if definitions.checks_results(&server, tool.name()) => {
            return Err(malformed(&error));
        }
        Err(_) => return Ok(reply),
    };
    let Structured { is_error, content: Some(content) } = read else { return Ok(reply) };
    if is_error != Some(true) && !content.is_null() {
        let check = |content: &str| definitions.check_result(&server, tool.name(), content);
        match check(content.as_str()) {
            Ok(()) => {
                if is_legacy && let Some(inner) = listed_inner(fleet, tool, cx, &content) {
                    return replace_structured(reply, inner);
                }
            }
            Err(refused) => {
                match other_form(tool, &content, is_legacy, |form| check(form).is_ok()) {
                    None => return Err(with_text(&refused.into(), &reply)),
                    Some(OtherForm::AsListed) => {}
                    Some(OtherForm::Wrapped(inner)) => return replace_structured(reply, inner),
                }
            }
        }
    }
    let fits = !is_legacy || content.as_str().starts_with('{');
    if fits { Ok(reply) } else { structured_as_text(reply) }
}

/// Returns whether structured content fits the output schema of its tool; `false` if the configuration leaves this
/// check to the server.
fn fits_schema(fleet: &Fleet, tool: &IndexedTool, content: &str) -> bool {
    if !tool.may_use(ToolFeature::OutputSchema) {
        return true;
    }
    let definitions = fleet.context().governance.definitions();
    let server = tool.server_id().into();
    definitions.checks_results(&server, tool.name())
        && definitions.check_result(&server, tool.name(), content).is_ok()
}

/// The outcome for structured content that fits its tool's schema only in the form of sessions of the other era.
enum OtherForm {
    /// The caller accepts the content, because the list for it has the schema of this form, or none.
    AsListed,
    /// The list for the caller has the schema of this inner content.
    Wrapped(Payload),
}

/// Returns the outcome for structured content that fits its tool's schema only in the form of sessions of the other
/// era: the definition of the tool can come from such a session. Some SDKs, e.g. that of TypeScript, send legacy peers
/// content whose schema is not of type `object` as the member `result` of an object.
fn other_form(
    tool: &IndexedTool,
    content: &Payload,
    is_legacy: bool,
    fits: impl Fn(&str) -> bool,
) -> Option<OtherForm> {
    // A schema that requires no member accepts nearly everything within an object.
    if !fits("{}") && fits(&format!(r#"{{"result":{}}}"#, content.as_str())) {
        return Some(OtherForm::AsListed);
    }
    let inner = inner_of(content).filter(|_| is_legacy)?;
    let schema = tool.tool().ok()?.output_schema.filter(|schema| !is_of_objects(schema))?;
    fits(inner.as_str()).then(|| match legacy_output_schema(schema) {
        Some(_) => OtherForm::Wrapped(inner),
        None => OtherForm::AsListed,
    })
}

/// Returns the inner content of a legacy session's result if its form does not fit the caller's list although the
/// result was not refused: the definition was last read in such a session, or this result was not checked.
fn listed_inner(
    fleet: &Fleet,
    tool: &IndexedTool,
    cx: &Context,
    content: &Payload,
) -> Option<Payload> {
    let server = fleet.get(tool.server_id()).filter(|server| server.uses_legacy_session(cx))?;
    let inner = inner_of(content).filter(|inner| inner.as_str().starts_with('{'))?;
    let schema = tool.tool().ok()?.output_schema.filter(|schema| !is_of_objects(schema))?;
    let listed = legacy_output_schema(schema)?;
    let known = fleet.context().governance.definitions().definition(Some(server.id()), tool.name());
    let known = known.as_ref().and_then(|known| known.output_schema.as_ref());
    let is_wrapped = known.is_some_and(|known| is_of_objects(known) && *known != listed);
    (is_wrapped || output_schema::requires_other(&listed, "result")).then_some(inner)
}

/// Returns the member `result` of an object without other members.
fn inner_of(content: &Payload) -> Option<Payload> {
    let mut members = content.get::<Object>().ok()?;
    members.remove("result").filter(|_| members.is_empty())
}

fn server_removed(tool: &IndexedTool) -> RpcError {
    let server = tool.server_id();
    let message = format!("the server `{server}` was removed; find another tool");
    RpcError::new(ErrorCode::TOOL_NOT_FOUND, message)
}
