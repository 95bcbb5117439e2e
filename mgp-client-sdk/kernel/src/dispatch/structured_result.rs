//! Checks the structured content of a result against the output schema of its tool.
//!
//! In MCP 2025-11-25 and before, an output schema must be of type `object`. In sessions of these revisions, some SDKs,
//! e.g. that of TypeScript, therefore send any other content *wrapped*: as the member `result` of an object. The kernel
//! may have read the definition in a session of one era and the result in a session of the other. So it also accepts a
//! result in the form of the other era, and unwraps it if the caller's tool list has the schema of the inner content.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use mgp_toolindex::{IndexedTool, ToolFeature};
use mgp_types::mcp::{Era, is_of_objects, legacy_output_schema};
use mgp_types::service::{Context, Reply};
use mgp_types::{Object, Payload, RawObject, RpcError};
use serde::{Deserialize, Deserializer};

use crate::fleet::Fleet;
use crate::results::{malformed, replace_structured, structured_as_text, with_text};

/// Refuses a result whose structured content cannot be read, or does not fit the output schema of its tool. The
/// configuration can leave this check to the server. If structured content is not an object, a caller of the legacy era
/// receives it as text.
pub(super) fn check(
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
        let fits = |content: &str| definitions.check_result(&server, tool.name(), content);
        match fits(content.as_str()) {
            Ok(()) => {
                if is_legacy && let Some(inner) = listed_inner(fleet, tool, cx, &content) {
                    return replace_structured(reply, inner);
                }
            }
            Err(refused) => {
                match other_form(tool, &content, is_legacy, |form| fits(form).is_ok()) {
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
pub(super) fn fits_schema(fleet: &Fleet, tool: &IndexedTool, content: &str) -> bool {
    if !tool.may_use(ToolFeature::OutputSchema) {
        return true;
    }
    let definitions = fleet.context().governance.definitions();
    let server = tool.server_id().into();
    definitions.checks_results(&server, tool.name())
        && definitions.check_result(&server, tool.name(), content).is_ok()
}

/// The outcome for structured content that fits the schema of its tool only after it is wrapped or unwrapped, i.e. in
/// the form that sessions of the other era use.
enum OtherForm {
    /// The caller accepts the content as it is: the caller's tool list has a schema that this form fits, or no schema
    /// of the tool.
    AsListed,
    /// The caller's tool list has the schema of the inner content, which this variant contains.
    Wrapped(Payload),
}

/// Returns the outcome for structured content that does not fit the schema of its tool; `None` if wrapping or
/// unwrapping the content does not help.
fn other_form(
    tool: &IndexedTool,
    content: &Payload,
    is_legacy: bool,
    fits: impl Fn(&str) -> bool,
) -> Option<OtherForm> {
    // A schema that requires no member accepts nearly every object, so it does not show whether the content is meant to
    // be wrapped.
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

/// Returns the inner content of a wrapped result that passed the check, if the caller's tool list has the schema of the
/// inner content; otherwise `None`.
///
/// A wrapped result passes if the definition was last read in a legacy session, or if the check is off.
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
    (is_wrapped || requires_other(&listed, "result")).then_some(inner)
}

/// Returns the member `result` of an object without other members.
fn inner_of(content: &Payload) -> Option<Payload> {
    let mut members = content.get::<Object>().ok()?;
    members.remove("result").filter(|_| members.is_empty())
}

/// Returns whether the root of a schema requires a member other than `member`.
fn requires_other(schema: &RawObject, member: &str) -> bool {
    let members = schema.get::<Object>().ok();
    let names = members.and_then(|members| members.decode::<Vec<String>>("required").ok()?);
    names.is_some_and(|names| names.iter().any(|name| name != member))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_other_required_members_show_that_content_is_wrapped() {
        for (required, expected) in [
            (json!(["kids"]), true),
            (json!(["result", "kids"]), true),
            (json!(["result"]), false),
            (json!([]), false),
            (json!(null), false),
        ] {
            let schema = RawObject::of(&json!({ "required": required })).unwrap();
            assert_eq!(requires_other(&schema, "result"), expected, "{required}");
        }
        assert!(!requires_other(&RawObject::empty(), "result"));
    }
}
