//! Changes the definition of a listed tool so that the caller's host accepts it.

use mgp_types::mcp::{Era, TaskSupport, Tool, key, legacy_output_schema};
use mgp_types::mgp::{Extension, RiskLevel};
use mgp_types::service::Context;
use mgp_types::{Lenient, Object, Payload, RawObject, RpcError};

use crate::proposals::media;

/// Adapts a definition to the era and the extensions of its caller, and corrects members that hosts refuse.
pub(super) fn fit(cx: &Context, tool: &mut Tool) -> Result<(), RpcError> {
    if cx.caller.era == Era::Legacy {
        tool.output_schema = tool.output_schema.take().and_then(legacy_output_schema);
    }
    fit_input_schema(tool);
    fit_output_schema(tool);
    media::fit(cx, tool);
    correct_hints(tool);
    fit_task_support(tool);
    put_security(tool, cx.caller.has(Extension::ToolSecurity))
}

/// Corrects an input schema that has no type, a type other than `object`, no properties (which OpenAI requires),
/// required names that are not a list, or a property whose schema is not an object. Because of one such schema, model
/// providers, or hosts built with the official SDKs, would refuse the list with the tools of all servers.
fn fit_input_schema(tool: &mut Tool) {
    let Ok(mut schema) = tool.input_schema.get::<Object>() else { return };
    let mut is_changed = fit_members(&mut schema);
    if schema.get("type").is_none_or(|kind| kind.as_str() != r#""object""#) {
        schema.insert("type", Payload::from_trusted(r#""object""#));
        is_changed = true;
    }
    if schema.get("properties").is_none() {
        schema.insert("properties", Payload::empty_object());
        is_changed = true;
    }
    if is_changed && let Ok(fitted) = RawObject::of(&schema) {
        tool.input_schema = fitted;
    }
}

/// Corrects the members of an output schema that would make hosts refuse the whole list.
fn fit_output_schema(tool: &mut Tool) {
    let Some(Ok(mut schema)) = tool.output_schema.as_ref().map(RawObject::get::<Object>) else {
        return;
    };
    if fit_members(&mut schema)
        && let Ok(fitted) = RawObject::of(&schema)
    {
        tool.output_schema = Some(fitted);
    }
}

/// Removes required names that are not a list, and corrects the properties. Returns whether anything has changed.
fn fit_members(schema: &mut Object) -> bool {
    let mut is_changed = false;
    if schema.get("required").is_some_and(|names| !names.as_str().starts_with('[')) {
        schema.remove("required");
        is_changed = true;
    }
    if let Some(properties) = schema.get("properties").and_then(fit_properties) {
        schema.insert("properties", properties);
        is_changed = true;
    }
    is_changed
}

/// Returns the properties of a schema, with an object in place of each schema that is not one: `{"not":{}}` for
/// `false`, `{}` for any other. Returns `None` if all schemas are objects.
fn fit_properties(properties: &Payload) -> Option<Payload> {
    let Ok(properties) = properties.get::<Object>() else { return Some(Payload::empty_object()) };
    let is_fit = |schema: &Payload| schema.as_str().starts_with('{');
    if properties.iter().all(|(_, schema)| is_fit(schema)) {
        return None;
    }
    let fit = |schema: &Payload| match schema.as_str() {
        _ if is_fit(schema) => schema.clone(),
        "false" => Payload::from_trusted(r#"{"not":{}}"#),
        _ => Payload::empty_object(),
    };
    let fitted: Object = properties.iter().map(|(name, schema)| (name, fit(schema))).collect();
    Payload::of(&fitted).ok()
}

/// If the kernel has assessed a tool as dangerous, corrects the server's hints that the tool is harmless: because of
/// these hints, hosts would call the tool without asking their user.
fn correct_hints(tool: &mut Tool) {
    let security = tool.security.as_ref().and_then(Lenient::valid);
    let risk = security.and_then(|security| security.effective_risk_level.as_ref());
    if risk.is_some_and(|risk| *risk >= RiskLevel::Dangerous)
        && let Some(hints) = &mut tool.annotations
    {
        // Do not add an absent hint: without it, hosts already assume that the tool may destroy data.
        hints.read_only_hint = hints.read_only_hint.map(|_| false);
        hints.destructive_hint = hints.destructive_hint.map(|_| true);
    }
}

/// If a tool runs only as a task, declares in its definition that hosts may also call it without a task: hosts without
/// tasks refuse to call a tool that requires a task. For a call without a task, the kernel waits for the task of the
/// server.
fn fit_task_support(tool: &mut Tool) {
    if let Some(execution) = &mut tool.execution
        && execution.task_support == Some(TaskSupport::Required)
    {
        execution.task_support = Some(TaskSupport::Optional);
    }
}

/// Puts the security metadata into a definition twice, as `security` and in `_meta`, or removes both copies (MGP §4.2).
fn put_security(tool: &mut Tool, is_shown: bool) -> Result<(), RpcError> {
    const SECURITY: &str = "security";
    let mut mirror: Object =
        tool.meta.as_ref().and_then(|meta| meta.get(key::MGP)?.get().ok()).unwrap_or_default();
    match tool.security.take().filter(|_| is_shown) {
        Some(security) => {
            mirror.insert(SECURITY, Payload::of(&security)?);
            tool.security = Some(security);
        }
        // Continue and write `_meta` back, because the server's own copy of the metadata was just removed from it.
        None if mirror.remove(SECURITY).is_some() => {}
        None => return Ok(()),
    }
    let meta = tool.meta.get_or_insert_default();
    if mirror.is_empty() {
        meta.remove(key::MGP);
    } else {
        meta.insert(key::MGP, Payload::of(&mirror)?);
    }
    if meta.is_empty() {
        tool.meta = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_that_hosts_refuse_together_with_the_list_is_corrected() {
        for (schema, expected) in [
            ("{}", r#"{"type":"object","properties":{}}"#),
            (r#"{"type":"object"}"#, r#"{"type":"object","properties":{}}"#),
            (
                r#"{"type":"object","required":["a"],"properties":{}}"#,
                r#"{"type":"object","required":["a"],"properties":{}}"#,
            ),
            (r#"{"type":null,"required":null}"#, r#"{"type":"object","properties":{}}"#),
            (r#"{"oneOf":[{}]}"#, r#"{"oneOf":[{}],"type":"object","properties":{}}"#),
            (
                r#"{"type":"object","properties":{"a":null,"b":true,"c":false,"d":{"x":1}}}"#,
                r#"{"type":"object","properties":{"a":{},"b":{},"c":{"not":{}},"d":{"x":1}}}"#,
            ),
            (r#"{"type":"object","properties":null}"#, r#"{"type":"object","properties":{}}"#),
        ] {
            let mut tool = Tool::new("t", serde_json::from_str::<RawObject>(schema).unwrap());
            fit_input_schema(&mut tool);
            assert_eq!(tool.input_schema.as_payload().as_str(), expected);
        }
        let mut tool = Tool::new("t", RawObject::empty());
        let schema = r#"{"type":"object","properties":{"a":null},"required":null}"#;
        tool.output_schema = Some(serde_json::from_str(schema).unwrap());
        fit_output_schema(&mut tool);
        let expected = r#"{"type":"object","properties":{"a":{}}}"#;
        assert_eq!(tool.output_schema.unwrap().as_payload().as_str(), expected);
    }
}
