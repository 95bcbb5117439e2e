//! Reads the labelled sets for the checks of the tool index: tools, and queries with the tools that each needs.

use super::super::{Options, shared};
use crate::run::{Context, Failure, Outcome};
use serde::{Deserialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The names of the sets, in the order of the printed tables.
const SETS: [&str; 7] =
    ["metatool", "bfcl", "sealtools", "stabletoolbench", "livemcp", "mcp_large", "mcpm_server"];

/// One labelled set of tools and queries.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) name: &'static str,
    folder: PathBuf,
    pub(super) tools: Vec<Listed>,
    pub(super) queries: Vec<Query>,
}

/// The fields of a tool that the checks use.
#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    pub(super) id: String,
    pub(super) server_id: String,
    pub(super) name: String,
}

/// A query, and the tools that the search must find for it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Query {
    pub(super) id: String,
    #[serde(rename = "query")]
    pub(super) text: String,
    pub(super) relevant: Vec<String>,
    /// Groups of equivalent tools: each group is one need, and any tool of the group satisfies it.
    #[serde(default)]
    pub(super) groups: Vec<Vec<String>>,
    #[serde(default)]
    pub(super) relevant_servers: Vec<String>,
    /// The task to which the query belongs; queries of one task are similar.
    #[serde(default)]
    task: Option<String>,
}

impl Set {
    /// Reads all sets; returns `None` if they are not on this machine.
    pub(super) fn all(options: &Options) -> Outcome<Option<Vec<Self>>> {
        let Some(folder) = options.data.clone().or_else(|| shared("retrieval")) else {
            return Ok(None);
        };
        SETS.iter()
            .map(|name| Self::read(name, folder.join(name)))
            .collect::<Outcome<_>>()
            .map(Some)
    }

    fn read(name: &'static str, folder: PathBuf) -> Outcome<Self> {
        let tools = lines(&folder.join("tools.jsonl"))?;
        let queries: Vec<Query> = lines(&folder.join("queries.public.jsonl"))?;
        if tools.is_empty() || queries.is_empty() {
            return Err(Failure::new(format!("{} is empty", folder.display())));
        }
        Ok(Self { name, folder, tools, queries })
    }

    pub(super) fn tools_file(&self) -> PathBuf {
        self.folder.join("tools.jsonl")
    }

    pub(super) fn queries_file(&self) -> PathBuf {
        self.folder.join("queries.public.jsonl")
    }

    /// Returns the server id of each tool id.
    pub(super) fn servers(&self) -> BTreeMap<String, String> {
        self.tools.iter().map(|tool| (tool.id.clone(), tool.server_id.clone())).collect()
    }
}

impl Query {
    /// Creates a query that needs exactly one tool; the tool's id is also the id of the query.
    pub(super) fn new(tool: &str, text: &str) -> Self {
        Self {
            id: tool.to_owned(),
            text: text.to_owned(),
            relevant: vec![tool.to_owned()],
            groups: Vec::new(),
            relevant_servers: Vec::new(),
            task: None,
        }
    }

    /// Returns a key that is equal for related queries: the task, or else the text.
    pub(super) fn key(&self) -> String {
        self.task.clone().unwrap_or_else(|| self.text.to_lowercase())
    }
}

/// Reads a file with a JSON value per line.
pub(super) fn lines<T: DeserializeOwned>(file: &Path) -> Outcome<Vec<T>> {
    let text = fs::read_to_string(file).context(file.display())?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).context(file.display())).collect()
}
