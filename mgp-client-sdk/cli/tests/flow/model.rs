//! A scripted model: it calls what it was listed or told of, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, ToolResult as _};
use mgp_types::mcp::Era;
use serde_json::{Value, json};

use crate::world::World;

/// How a host lets its model call what was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// By its own name.
    ByName,
    /// Only what is listed: by the tool that calls.
    Through,
}

/// What a host offers of MGP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speaks {
    Plain,
    Mgp,
}

/// A model in a host.
pub(crate) struct Model {
    pub(crate) host: Client,
    /// The tools it knows, with the schemas of their arguments.
    knows: BTreeMap<String, Value>,
    /// How often its host was told that the list is another.
    pub(crate) changes: Arc<AtomicUsize>,
    way: Way,
}

impl Model {
    pub(crate) async fn new(world: &World, era: Era, speaks: Speaks, way: Way) -> Self {
        let changes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&changes);
        let builder = Client::builder("host", "1").on_change(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let builder = if speaks == Speaks::Plain { builder.plain() } else { builder };
        let host = world.host("ada", era, builder).await;
        let mut model = Self { host, knows: BTreeMap::new(), changes, way };
        model.look().await;
        model
    }

    /// Reads its list of tools; what it was told of before is forgotten.
    pub(crate) async fn look(&mut self) -> Vec<String> {
        let tools = self.host.list_tools().await.unwrap();
        let entry = |tool: &mgp_types::mcp::Tool| {
            (tool.name.clone(), serde_json::to_value(&tool.input_schema).unwrap())
        };
        self.knows = tools.iter().map(entry).collect();
        self.knows.keys().cloned().collect()
    }

    /// Calls a tool, and gives what it says as a text.
    pub(crate) async fn calls(&mut self, tool: &str, arguments: Value) -> String {
        let schema = self.knows.get(tool).unwrap_or_else(|| panic!("it knows no `{tool}`"));
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for name in &required {
            assert!(!arguments[name.as_str().unwrap()].is_null(), "{tool} needs {name}");
        }
        let is_own = tool.starts_with("mgp_");
        let result = if self.way == Way::Through && !is_own {
            let call = json!({"name": tool, "arguments": arguments});
            self.host.call("mgp_tools_call").args(call).await
        } else {
            self.host.call(tool).args(arguments).await
        };
        let result = result.unwrap();
        assert_ne!(result.is_error, Some(true), "{tool}: {}", result.to_text());
        result.to_text()
    }

    /// Calls one of the tools that tell of tools, and learns what is told.
    pub(crate) async fn learns(&mut self, tool: &str, arguments: Value, told: &str) -> Value {
        let answer: Value = serde_json::from_str(&self.calls(tool, arguments).await).unwrap();
        for tool in answer[told].as_array().unwrap() {
            let name = tool["name"].as_str().unwrap().to_owned();
            self.knows.insert(name, tool["inputSchema"].clone());
        }
        answer
    }
}
