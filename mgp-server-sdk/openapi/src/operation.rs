//! One operation of a document: its tool, the tool's arguments, and the parts of a request that the arguments fill.

use std::collections::HashSet;

use mgp_server_sdk::{Args, Tool};
use mgp_types::mcp::{CallToolResult, ToolAnnotations};
use mgp_types::{RawObject, clip};
use serde_json::{Map, Value, json};

use crate::name;
use crate::reference::resolve;
use crate::request::{Body, BodyKind, Parameter, Place, Style};
use crate::schema::Schemas;

/// The maximum length of a tool's description.
const MAX_DESCRIPTION: usize = 1_000;

const MAX_PARAMETERS: usize = 128;

/// Headers that only the connection or the credentials may set, never a caller.
#[rustfmt::skip]
const OWN_HEADERS: &[&str] = &[
    "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type",
    "cookie", "expect", "forwarded", "host", "keep-alive", "origin", "proxy-authorization", "te",
    "trailer", "transfer-encoding", "upgrade", "via",
];

/// An operation of an API; each operation becomes one tool.
#[derive(Clone, Debug)]
pub struct Operation {
    pub(crate) tool: String,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    /// The `operationId` in the document.
    pub(crate) id: Option<String>,
    title: Option<String>,
    description: String,
    is_deprecated: bool,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<Body>,
    pub(crate) schema: Value,
    /// The address of this operation, if the document has no address but the operation has one.
    pub(crate) own_url: Option<String>,
}

impl Operation {
    /// Returns the name of the operation's tool.
    #[must_use]
    pub fn tool_name(&self) -> &str {
        &self.tool
    }

    /// Returns the HTTP method of the operation's requests.
    #[must_use]
    pub fn method(&self) -> &str {
        self.method
    }

    /// Returns the operation's path in the document, e.g. `/pets/{id}`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the JSON Schema of the arguments.
    #[must_use]
    pub fn input_schema(&self) -> &Value {
        &self.schema
    }

    /// Reads an operation of the document; returns the reason as an error if it cannot be offered as a tool.
    pub(crate) fn read(
        root: &Value,
        path: &str,
        item: &Value,
        method: &'static str,
        names: &mut HashSet<String>,
    ) -> Result<Self, String> {
        let own = &item[method.to_ascii_lowercase()];
        let id = own["operationId"].as_str().filter(|id| !id.trim().is_empty()).map(str::to_owned);
        let mut arguments = Arguments::new(root);
        arguments.parameters(&item["parameters"], &own["parameters"])?;
        let body = arguments.body(&own["requestBody"])?;
        let (parameters, schema) = arguments.finish();
        let sent = sent_path(path);
        let (segments, query) = sent.split_once('?').unwrap_or((sent, ""));
        let is_open = |name: &&str, places: &[Place]| {
            !parameters.iter().any(|one| places.contains(&one.place) && one.name == **name)
        };
        let mut missing = placeholders(segments).filter(|name| is_open(name, &[Place::Path]));
        let mut in_query =
            placeholders(query).filter(|name| is_open(name, &[Place::Path, Place::Query]));
        if let Some(missing) = missing.next().or_else(|| in_query.next()) {
            return Err(format!("its path has `{{{missing}}}`, which no parameter describes"));
        }
        let summary = own["summary"].as_str().unwrap_or_default().trim();
        let described = own["description"].as_str().unwrap_or_default().trim();
        let text = match (summary.is_empty(), described.is_empty()) {
            (true, true) => format!("{method} {path}"),
            (true, false) => described.to_owned(),
            (false, true) => summary.to_owned(),
            (false, false) if described.starts_with(summary) => described.to_owned(),
            (false, false) => format!("{}. {described}", summary.trim_end_matches('.')),
        };
        let named = id.clone().unwrap_or_else(|| format!("{} {path}", method.to_ascii_lowercase()));
        Ok(Self {
            tool: name::unique(&named, names),
            method,
            path: path.to_owned(),
            id,
            title: (!summary.is_empty()).then(|| clip(summary, 100)),
            description: clip(&text, MAX_DESCRIPTION),
            is_deprecated: own["deprecated"] == true,
            parameters,
            body,
            schema,
            own_url: None,
        })
    }

    /// Creates the tool for this operation; the function `call` handles its calls.
    pub(crate) fn tool<F, R>(&self, call: F) -> Tool
    where
        F: Fn(Map<String, Value>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<CallToolResult, mgp_server_sdk::ToolError>> + Send + 'static,
    {
        let call = std::sync::Arc::new(call);
        let tool =
            Tool::new(&*self.tool, &*self.description, move |Args(arguments)| call(arguments))
                .annotations(self.annotations());
        let tool = match RawObject::of(&self.schema) {
            Ok(schema) => tool.input_schema(schema),
            Err(_) => tool,
        };
        let tool = if self.is_deprecated {
            tool.define(|tool| {
                let text = tool.description.take().unwrap_or_default();
                tool.description = Some(format!("Deprecated. {text}"));
            })
        } else {
            tool
        };
        match &self.title {
            Some(title) => tool.title(title),
            None => tool,
        }
    }

    /// Returns the hints that follow from the HTTP method (RFC 9110 §9.2).
    fn annotations(&self) -> ToolAnnotations {
        let reads = ["GET", "HEAD", "OPTIONS"].contains(&self.method);
        let mut hints = ToolAnnotations::default();
        hints.read_only_hint = Some(reads);
        hints.open_world_hint = Some(true);
        if !reads {
            hints.idempotent_hint = Some(["PUT", "DELETE"].contains(&self.method));
            // DELETE destroys data. PATCH and POST may destroy data or not, so they get no hint; by the protocol, a
            // tool without the hint counts as destructive.
            hints.destructive_hint = (self.method == "DELETE").then_some(true);
        }
        hints
    }
}

/// Returns a path without its fragment, which only distinguishes operations at the same address, e.g. `/#Action=Start`.
pub(crate) fn sent_path(path: &str) -> &str {
    path.split('#').next().unwrap_or_default()
}

/// Returns the names in braces in the path of an operation, e.g. `id` in `/pets/{id}`.
pub(crate) fn placeholders(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
}

/// A collector of the parameters and the body of one operation, which become the arguments of its tool.
struct Arguments<'a> {
    root: &'a Value,
    schemas: Schemas<'a>,
    used: HashSet<String>,
    parameters: Vec<Parameter>,
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl<'a> Arguments<'a> {
    fn new(root: &'a Value) -> Self {
        Self {
            root,
            schemas: Schemas::new(root),
            used: HashSet::new(),
            parameters: Vec::new(),
            properties: Map::new(),
            required: Vec::new(),
        }
    }

    /// Adds the parameters of the operation, and those of its path. A parameter of the operation replaces one of the
    /// path with the same name and place.
    fn parameters(&mut self, of_path: &'a Value, own: &'a Value) -> Result<(), String> {
        let list = |value: &'a Value| value.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut all: Vec<&'a Value> = Vec::new();
        for value in list(own).iter().chain(list(of_path)) {
            let parameter = resolve(self.root, value).ok_or_else(|| {
                format!(
                    "it refers to `{}`, which is not in the document",
                    value["$ref"].as_str().unwrap_or_default()
                )
            })?;
            let same = |known: &&Value| {
                known["name"] == parameter["name"] && known["in"] == parameter["in"]
            };
            if !all.iter().any(same) {
                all.push(parameter);
            }
            if all.len() > MAX_PARAMETERS {
                return Err(format!("it has more than {MAX_PARAMETERS} parameters"));
            }
        }
        all.into_iter().try_for_each(|parameter| self.parameter(parameter))
    }

    fn parameter(&mut self, parameter: &'a Value) -> Result<(), String> {
        let name = parameter["name"].as_str().ok_or("a parameter has no name")?;
        let place = match parameter["in"].as_str() {
            Some("path") => Place::Path,
            Some("query") => Place::Query,
            Some("header") => Place::Header,
            Some("cookie") => Place::Cookie,
            _ => return Err(format!("the place of its parameter `{name}` is not known")),
        };
        let is_required = parameter["required"] == true || place == Place::Path;
        if place == Place::Header && OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            return Ok(());
        }
        if let (Place::Path, Some(style @ ("label" | "matrix"))) =
            (place, parameter["style"].as_str())
        {
            return Err(format!("the style `{style}` of its parameter `{name}` cannot be sent"));
        }
        let content = parameter["content"].as_object().and_then(|kinds| kinds.iter().next());
        let style = match content {
            Some((media, _)) if BodyKind::read(media) == Some(BodyKind::Json) => Style::Json,
            _ => Style::read(place, parameter),
        };
        let schema = match content {
            Some((_, kind)) => &self.media_type(kind)["schema"],
            None => &parameter["schema"],
        };
        let described = parameter["description"].as_str();
        let argument = self.argument(name, schema, described, is_required);
        self.parameters.push(Parameter { argument, name: name.to_owned(), place, style });
        Ok(())
    }

    /// Adds an argument to the tool's schema, and returns the name that it got there.
    fn argument(
        &mut self,
        name: &str,
        schema: &'a Value,
        described: Option<&str>,
        is_required: bool,
    ) -> String {
        let argument = name::unique(name, &mut self.used);
        let mut read = self.schemas.read(schema);
        if let (Some(text), Some(members)) = (described, read.as_object_mut()) {
            members.insert("description".to_owned(), clip(text.trim(), 400).into());
        }
        self.properties.insert(argument.clone(), read);
        if is_required {
            self.required.push(argument.clone());
        }
        argument
    }

    /// Adds the argument `body` if the operation's requests have a body.
    fn body(&mut self, body: &'a Value) -> Result<Option<Body>, String> {
        let Some(body) = resolve(self.root, body).filter(|body| body.is_object()) else {
            return if body.is_null() {
                Ok(None)
            } else {
                Err("its request body is not in the document".into())
            };
        };
        let kinds = body["content"].as_object();
        let mut kinds: Vec<(&String, &Value)> = kinds.into_iter().flatten().collect();
        kinds.sort_by_key(|(kind, _)| BodyKind::preference(kind));
        let Some(&(name, content)) = kinds.first() else { return Ok(None) };
        let content = self.media_type(content);
        let Some(kind) = BodyKind::read(name) else {
            // Do not offer the operation at all, even if its body is optional: a call without the body would do
            // something else than the caller wants.
            return Err(format!("its request body is `{name}`, which a tool cannot send"));
        };
        let described = body["description"].as_str();
        let is_required = body["required"] == true;
        let argument = self.argument("body", &content["schema"], described, is_required);
        let entries = content["encoding"].as_object().into_iter().flatten();
        let encoding = entries
            .filter(|(_, entry)| entry.get("style").is_some() || entry.get("explode").is_some())
            .map(|(name, entry)| (name.clone(), Style::read(Place::Query, entry)))
            .collect();
        Ok(Some(Body { argument, kind, media: name.clone(), encoding }))
    }

    /// Returns a member of `content`. Since OpenAPI 3.2, it may be a reference.
    fn media_type(&self, member: &'a Value) -> &'a Value {
        resolve(self.root, member).unwrap_or(member)
    }

    fn finish(self) -> (Vec<Parameter>, Value) {
        let mut schema = json!({
            "type": "object", "properties": self.properties, "additionalProperties": false,
        });
        if !self.required.is_empty() {
            schema["required"] = self.required.into();
        }
        let definitions = self.schemas.definitions();
        if !definitions.is_empty() {
            schema["$defs"] = json!(definitions);
        }
        (self.parameters, schema)
    }
}
