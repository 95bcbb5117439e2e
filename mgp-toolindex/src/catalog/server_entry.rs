//! Servers and tools to put into an index (MGP §16.4).

use mgp_types::mcp::Tool;
use mgp_types::mgp::{ServerState, ToolSecurity};

/// A server with all of its tools.
///
/// ```
/// use mgp_toolindex::{ServerEntry, ToolEntry};
/// use mgp_types::RawObject;
/// use mgp_types::mcp::Tool;
///
/// let tool = Tool::new("read_file".to_owned(), RawObject::empty());
/// let files = ServerEntry::new("files")
///     .name("Files")
///     .description("The user's files")
///     .tool(ToolEntry::from(tool).categories(["filesystem/read"]));
/// assert_eq!(files.id(), "files");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ServerEntry {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) state: ServerState,
    pub(crate) categories: Vec<String>,
    pub(crate) tools: Vec<ToolEntry>,
}

/// A tool to put into an index, with metadata that is not part of its definition.
#[derive(Clone, Debug)]
#[must_use]
pub struct ToolEntry {
    pub(crate) tool: Tool,
    pub(crate) security: Option<ToolSecurity>,
    pub(crate) categories: Vec<String>,
    pub(crate) keywords: Vec<String>,
}

impl ServerEntry {
    /// Creates a connected server without tools.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: None,
            description: None,
            state: ServerState::Connected,
            categories: Vec::new(),
            tools: Vec::new(),
        }
    }

    /// Sets the display name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the description.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the connection state.
    pub fn state(mut self, state: ServerState) -> Self {
        self.state = state;
        self
    }

    /// Adds categories for tools of the server without categories of their own; `a/b` and `a.b` mean the category `b`
    /// within `a`.
    pub fn categories<C: Into<String>>(mut self, all: impl IntoIterator<Item = C>) -> Self {
        self.categories.extend(all.into_iter().map(Into::into));
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: impl Into<ToolEntry>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Adds tools.
    pub fn tools<T: Into<ToolEntry>>(mut self, all: impl IntoIterator<Item = T>) -> Self {
        self.tools.extend(all.into_iter().map(Into::into));
        self
    }

    /// Returns the id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl ToolEntry {
    /// Sets the security metadata that the kernel decided, including the effective risk.
    ///
    /// Without this metadata, the claims of the server apply; a tool without claims is dangerous.
    pub fn security(mut self, security: ToolSecurity) -> Self {
        self.security = Some(security);
        self
    }

    /// Adds categories; `a/b` and `a.b` mean the category `b` within `a`. A tool without categories gets the categories
    /// of its server, or else a category derived from its words.
    pub fn categories<C: Into<String>>(mut self, all: impl IntoIterator<Item = C>) -> Self {
        self.categories.extend(all.into_iter().map(Into::into));
        self
    }

    /// Adds words that searches use to find the tool although they are not in the definition.
    pub fn keywords<K: Into<String>>(mut self, all: impl IntoIterator<Item = K>) -> Self {
        self.keywords.extend(all.into_iter().map(Into::into));
        self
    }
}

impl From<Tool> for ToolEntry {
    fn from(tool: Tool) -> Self {
        Self { tool, security: None, categories: Vec::new(), keywords: Vec::new() }
    }
}
