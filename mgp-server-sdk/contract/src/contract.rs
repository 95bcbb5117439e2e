//! The parsed definition of a tool, from which this crate derives differences, exports and specifications.

use mgp_types::mcp::{self, ToolIdempotency, differ_only_in_order, differ_only_in_wrapping};
use mgp_types::{Payload, canonical_hash};
use semver::Version;
use serde_json::{Value, json};

/// The definition of a tool, with its schemas parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Contract {
    /// The name of the tool.
    pub name: String,
    /// The JSON Schema of the arguments.
    pub input: Value,
    /// The JSON Schema of the structured content, if the tool has one.
    pub output: Option<Value>,
    /// The whole definition, including the members that have no field in this type.
    pub definition: Value,
    /// `true` if the definition is complete; `false` if it was read from a specification in Markdown, which contains
    /// only some parts of a definition.
    pub(crate) is_whole: bool,
}

impl Contract {
    /// Creates a contract from a definition; returns `None` if the definition has no name or no input schema. A schema
    /// that is an empty list counts as an empty object, because PHP writes it in this way.
    #[must_use]
    pub fn from_definition(definition: Value) -> Option<Self> {
        let name = definition.get("name")?.as_str()?.to_owned();
        let schema = |name: &str| match definition.get(name)? {
            Value::Array(elements) if elements.is_empty() => Some(json!({})),
            schema => Some(schema.clone()).filter(Value::is_object),
        };
        let (input, output) = (schema("inputSchema")?, schema("outputSchema"));
        Some(Self { name, input, output, definition, is_whole: true })
    }

    /// Returns the text of a member of the definition; an empty text if the member is absent or not a text.
    #[must_use]
    pub fn text(&self, member: &str) -> &str {
        self.definition.get(member).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the description of the tool; an empty text if it has none.
    #[must_use]
    pub fn description(&self) -> &str {
        self.text("description")
    }

    /// Returns a member of the definition's `_meta`.
    #[must_use]
    pub fn meta(&self, member: &str) -> Option<&Value> {
        self.definition.get("_meta")?.get(member)
    }

    /// Returns the version in `_meta.version`, if it is a semantic version.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        Version::parse(self.meta("version")?.as_str()?).ok()
    }

    /// Returns whether the tool is deprecated: `_meta.deprecated` is an object or `true`.
    #[must_use]
    pub fn is_deprecated(&self) -> bool {
        self.meta("deprecated").is_some_and(|member| member.is_object() || *member == true)
    }

    /// Returns the value of a hint in the annotations or, if it is absent, the default that MCP defines.
    #[must_use]
    pub fn hint(&self, hint: &str) -> bool {
        let given = self.definition.get("annotations").and_then(|hints| flag(hints.get(hint)?));
        given.unwrap_or(matches!(hint, "destructiveHint" | "openWorldHint"))
    }

    /// Returns the declared effect of repeated calls, from `_meta.idempotency` or else from the MCP hints. Returns
    /// `None` if neither declares it.
    #[must_use]
    pub fn idempotency(&self) -> Option<ToolIdempotency> {
        let declared = self.meta("idempotency").and_then(Value::as_str).map(ToolIdempotency::from);
        if let Some(known) = declared.filter(ToolIdempotency::is_known) {
            return Some(known);
        }
        let hints = self.definition.get("annotations");
        let given = |hint| hints.and_then(|hints| hints.get(hint)).and_then(flag);
        match (given("idempotentHint"), given("readOnlyHint")) {
            (Some(true), _) | (None, Some(true)) => Some(ToolIdempotency::Yes),
            (Some(false), _) => Some(ToolIdempotency::No),
            _ => None,
        }
    }

    /// Returns the security metadata: the member `security` of the definition, or else its copy in `_meta`.
    #[must_use]
    pub fn security(&self) -> Option<&Value> {
        let copy = || self.meta(mcp::key::MGP)?.get("security");
        self.definition.get("security").or_else(copy)
    }

    /// Returns a member that MCP does not define (e.g. `required_scopes`), from `_meta` or else from the definition
    /// itself.
    pub(crate) fn meta_or_member(&self, name: &str) -> Option<&Value> {
        self.meta(name).or_else(|| self.definition.get(name))
    }

    /// Returns the hash of the definition in canonical form, in hexadecimal digits.
    #[must_use]
    pub fn hash(&self) -> String {
        let text = self.definition.to_string();
        canonical_hash(&text)
            .unwrap_or_else(|_| mgp_types::Sha256Hash::digest(text.as_bytes()))
            .to_string()
    }

    /// Returns whether two definitions are the same. They may differ in the form of the output schema, which depends on
    /// the era of MCP, or in the order of words that a server writes from an unordered set.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let is_changed_in_form = || {
            let [one, other] = [self, other].map(|tool| Payload::of(&tool.definition));
            let (Ok(one), Ok(other)) = (one, other) else { return false };
            differ_only_in_wrapping(&one, &other) || differ_only_in_order(&one, &other)
        };
        self.hash() == other.hash() || is_changed_in_form()
    }

    /// Creates a contract from its parts, e.g. from those that a specification in Markdown contains.
    pub(crate) fn from_parts(
        name: &str,
        description: &str,
        input: Value,
        output: Option<Value>,
    ) -> Self {
        let mut definition =
            json!({ "name": name, "description": description, "inputSchema": input });
        if let Some(output) = &output {
            definition["outputSchema"] = output.clone();
        }
        Self { name: name.to_owned(), input, output, definition, is_whole: false }
    }
}

/// Returns the value of a hint, which some servers write as `0` or `1`.
fn flag(value: &Value) -> Option<bool> {
    value.as_bool().or_else(|| value.as_u64().map(|number| number != 0))
}
