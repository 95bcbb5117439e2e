//! The extractor that converts the arguments of a call to a type, and the error for invalid arguments (MGP §14.3: code
//! 4000).

use mgp_types::{ErrorCode, Object, RawObject, Recovery, RpcError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{FromCall, ToolRequest};
use crate::tool::{SchemaStyle, schema};
use crate::whole_numbers;

/// The arguments of the tool, deserialized into a type.
///
/// The server refuses invalid arguments before the function runs; the error has code 4000 (invalid arguments) and names
/// the field. Unknown arguments are ignored unless the type has `#[serde(deny_unknown_fields)]`. An integer may be
/// written as `5.0`, which JSON Schema permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Args<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + Send> FromCall for Args<T> {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        whole_numbers::read(request.arguments.as_str())
            .map(Args)
            .map_err(|error| refuse::<T>(request, error))
    }

    fn input_schema(style: SchemaStyle) -> Option<RawObject> {
        Some(schema::arguments_of::<T>(style))
    }
}

/// The reason why the arguments are invalid, and the field that has the mistake.
struct Problem {
    /// The path of the field; empty for the arguments as a whole.
    field: String,
    what: String,
}

/// Returns the error with code 4000 (invalid arguments), which names the wrong field. Deserializes the arguments a
/// second time to find the path of the field. So only invalid calls need the time for this.
#[cold]
fn refuse<T: DeserializeOwned>(request: &ToolRequest, error: serde_json::Error) -> RpcError {
    let text = request.arguments.as_str();
    let changed = whole_numbers::without_zero_fractions(text);
    let mut json = serde_json::Deserializer::from_str(changed.as_deref().unwrap_or(text));
    let (path, error) = match serde_path_to_error::deserialize::<_, T>(&mut json) {
        Ok(_) => (String::new(), error),
        Err(found) => (found.path().to_string(), found.into_inner()),
    };
    let problem = Problem::new(&path, &error);
    let expected = expected(&request.definition.input_schema, &problem.field);
    let tool = &request.definition.name;
    let message = match &*problem.field {
        "" => format!("invalid arguments for `{tool}`: {}", problem.what),
        field => format!("invalid arguments for `{tool}`: `{field}`: {}", problem.what),
    };
    let mut recovery = Recovery::default_for(ErrorCode::INVALID_TOOL_ARGS).unwrap_or_default();
    let details = Object::new().with("field", &problem.field);
    recovery.details = Some(details.with_optional("expected", expected.as_ref()));
    let refusal = RpcError::new(ErrorCode::INVALID_TOOL_ARGS, message);
    refusal.recovery(recovery).because(error)
}

impl Problem {
    fn new(path: &str, error: &serde_json::Error) -> Self {
        let text = error.to_string();
        // Remove the line and column, because the caller does not see the arguments as text with lines.
        let what = text.rfind(" at line ").map_or(&*text, |at| &text[..at]);
        let parent = if path == "." { "" } else { path };
        let missing = quoted(what, "missing field `").filter(|_| error.is_data());
        if let Some(name) = missing {
            return Self { field: join(parent, name), what: "it is missing".to_owned() };
        }
        if let Some(name) = quoted(what, "unknown field `").filter(|_| error.is_data()) {
            let known = what.split_once("`, ").map_or("", |(_, known)| known);
            // Some deserializers include the unknown name at the end of the path; remove it.
            let parent =
                parent.strip_suffix(name).map_or(parent, |rest| rest.trim_end_matches('.'));
            let field = join(parent.trim_end_matches(".?").trim_end_matches('?'), name);
            return Self { field, what: format!("there is no such argument; {known}") };
        }
        Self { field: parent.to_owned(), what: mgp_types::clip(what, 300) }
    }
}

/// Returns the name in backquotes after a prefix at the beginning of a text, e.g. of a serde error; `None` if the text
/// begins otherwise.
fn quoted<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.strip_prefix(prefix)?.split('`').next()
}

fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

/// Returns the schema of the field at a path; `None` if the path is empty, if the tool's schema does not contain the
/// field, or if the schema of the field is large.
fn expected(schema: &RawObject, path: &str) -> Option<Value> {
    let root: Value = schema.get().ok()?;
    let mut at = &root;
    for step in path.split(['.', '[']).filter(|step| !step.is_empty()) {
        at = resolve(&root, at);
        at = match step.strip_suffix(']') {
            Some(_) => at.get("items")?,
            None => at.get("properties")?.get(step)?,
        };
    }
    let found = resolve(&root, at);
    // Omit a large schema, which the caller can read in the list of tools.
    let is_small = found.to_string().len() <= 1000;
    (is_small && !path.is_empty()).then(|| found.clone())
}

fn resolve<'a>(root: &'a Value, at: &'a Value) -> &'a Value {
    let target = at.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
    target.and_then(|pointer| root.pointer(pointer)).unwrap_or(at)
}
