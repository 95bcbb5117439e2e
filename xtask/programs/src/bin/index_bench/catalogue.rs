//! Catalogues of any size, made from copies of a real catalogue (MGP §16).
//!
//! The first copy is the catalogue itself. In each further copy, words are replaced by words of the same kind, so that
//! texts keep their lengths. Within one copy of a server, a word always gets the same replacement, so the tools of the
//! server still describe one product. Each copy uses different replacements, so that the vocabulary grows as in real
//! catalogues.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use mgp_toolindex::ServerEntry;
use mgp_types::mcp::Tool;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Failure;
use super::built_in;
use super::dice::Dice;
use super::words::{Swap, Words};

/// A catalogue of servers, from which copies are made.
pub(crate) struct Catalogue {
    servers: Vec<Server>,
    words: Words,
}

pub(crate) struct Server {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) categories: Vec<String>,
    pub(crate) tools: Vec<Definition>,
}

pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
}

/// A line of a catalogue file.
#[derive(Deserialize)]
struct Line {
    server_id: String,
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default, rename = "inputSchema")]
    schema: Option<Value>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    server_name: Option<String>,
    #[serde(default)]
    server_description: Option<String>,
}

impl Catalogue {
    /// Reads a catalogue file with one tool per line; without a file, generates a catalogue.
    pub(crate) fn new(file: Option<&Path>, seed: u64) -> Result<Self, Failure> {
        let mut servers = match file {
            Some(file) => read(file)?,
            None => built_in::servers(seed, built_in::SERVERS),
        };
        // Shuffles the servers: neighbours in a file are similar, but the first N servers must represent the whole
        // catalogue.
        Dice::new(seed).shuffle(&mut servers);
        let words = Words::of(&servers);
        Ok(Self { servers, words })
    }

    /// Returns servers that have the given number of tools in total.
    pub(crate) fn servers(&self, tools: usize, seed: u64) -> impl Iterator<Item = Server> {
        let mut left = tools;
        let servers = move |copy| self.servers.iter().enumerate().map(move |one| (copy, one));
        let copies = (0..).flat_map(servers);
        copies.map_while(move |(copy, (number, server))| {
            let count = server.tools.len().min(left);
            left -= count;
            (count > 0).then(|| {
                let swap = self.words.swap(copy, seed, &server.id);
                let mut copied = server.copied(&swap, count);
                if copy > 0 {
                    // Appends the numbers of the copy and the server, because replaced words can make two ids equal.
                    copied.id = format!("{}.{copy}.{number}", swap.text(&server.id));
                }
                copied
            })
        })
    }
}

impl Server {
    /// Returns a copy of the server with replaced words and only the first `count` tools.
    fn copied(&self, swap: &Swap<'_>, count: usize) -> Self {
        let mut names = BTreeSet::new();
        let tools = self.tools[..count].iter().enumerate().map(|(number, tool)| {
            let mut name = swap.text(&tool.name);
            // Makes each name unique, because replaced words can make two names equal.
            while !names.insert(name.clone()) {
                // Ignores the result, because writing to a string cannot fail.
                let _ = write!(name, "_{number}");
            }
            let description = swap.text(&tool.description);
            Definition { name, description, schema: schema(&tool.schema, swap) }
        });
        Self {
            tools: tools.collect(),
            id: self.id.clone(),
            name: swap.text(&self.name),
            description: swap.text(&self.description),
            categories: self.categories.clone(),
        }
    }

    /// Returns the index entry of the server, and the total length of its tool definitions in bytes.
    pub(crate) fn entry(self) -> (ServerEntry, u64) {
        let mut text = 0;
        let tools = self.tools.into_iter().map(|tool| {
            let (tool, length) = definition(&tool.name, &tool.description, &tool.schema);
            text += length;
            tool
        });
        let tools: Vec<_> = tools.collect();
        let entry = ServerEntry::new(self.id)
            .name(self.name)
            .description(self.description)
            .categories(self.categories)
            .tools(tools);
        (entry, text)
    }
}

/// Returns a tool definition and the length of its JSON text.
pub(crate) fn definition(name: &str, description: &str, schema: &Value) -> (Tool, u64) {
    let tool = json!({"name": name, "description": description, "inputSchema": schema}).to_string();
    let length = tool.len() as u64;
    (serde_json::from_str(&tool).expect("it has what a tool must have"), length)
}

fn read(file: &Path) -> Result<Vec<Server>, Failure> {
    let mut servers: BTreeMap<String, Server> = BTreeMap::new();
    // Reads the file line by line. If it were read as one large block, the allocator would later keep more of the
    // memory that the benchmark frees, and the benchmark would count this memory as memory of the index.
    for line in BufReader::new(File::open(file)?).lines() {
        let line: Line = serde_json::from_str(&line?)?;
        let server = servers.entry(line.server_id.clone()).or_insert_with(|| Server {
            name: line.server_name.unwrap_or_default(),
            description: line.server_description.unwrap_or_default(),
            categories: line.categories,
            id: line.server_id,
            tools: Vec::new(),
        });
        let schema = line.schema.filter(Value::is_object).unwrap_or_else(|| json!({}));
        server.tools.push(Definition { name: line.name, description: line.description, schema });
    }
    Ok(servers.into_values().collect())
}

/// Returns a copy of a JSON schema with replaced words in property names, titles and descriptions.
fn schema(value: &Value, swap: &Swap<'_>) -> Value {
    let Value::Object(members) = value else { return value.clone() };
    let swapped = members.iter().map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("description" | "title", Value::String(text)) => Value::String(swap.text(text)),
            ("properties", Value::Object(properties)) => {
                let renamed =
                    properties.iter().map(|(name, one)| (swap.text(name), schema(one, swap)));
                Value::Object(renamed.collect::<Map<_, _>>())
            }
            ("required", Value::Array(names)) => {
                let renamed = names.iter().map(|name| match name {
                    Value::String(name) => Value::String(swap.text(name)),
                    other => other.clone(),
                });
                Value::Array(renamed.collect())
            }
            (_, other) => schema(other, swap),
        };
        (key.clone(), value)
    });
    Value::Object(swapped.collect())
}
