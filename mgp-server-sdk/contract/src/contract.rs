//! The parsed definition of a tool, from which this crate derives differences, exports and specifications.

use mgp_types::canonical_hash;
use mgp_types::mcp::{self, ToolIdempotency};
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
    /// Creates a contract from a definition; returns `None` if the definition has no name or no input schema.
    #[must_use]
    pub fn from_definition(definition: Value) -> Option<Self> {
        let name = definition.get("name")?.as_str()?.to_owned();
        let is_schema = |schema: &&Value| schema.is_object();
        let input = definition.get("inputSchema").filter(is_schema)?.clone();
        let output = definition.get("outputSchema").filter(is_schema).cloned();
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
        let given = self.definition.get("annotations").and_then(|hints| hints.get(hint)?.as_bool());
        given.unwrap_or(matches!(hint, "destructiveHint" | "openWorldHint"))
    }

    /// Returns the declared effect of repeated calls: the one in `_meta.idempotency`, or else the one that the MCP
    /// hints declare. Returns `None` if neither declares it.
    #[must_use]
    pub fn idempotency(&self) -> Option<ToolIdempotency> {
        let declared = self.meta("idempotency").and_then(Value::as_str).map(ToolIdempotency::from);
        if let Some(known) = declared.filter(ToolIdempotency::is_known) {
            return Some(known);
        }
        let hints = self.definition.get("annotations");
        let given = |hint| hints.and_then(|hints| hints.get(hint)).and_then(Value::as_bool);
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

    /// Returns a member that MCP does not define (e.g. `required_scopes`): the one in `_meta`, or else the one in the
    /// definition itself.
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
