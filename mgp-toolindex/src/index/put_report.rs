//! The result of adding or replacing a server in the index (MGP §16.4).

use std::ops::AddAssign;

/// The result of adding or replacing a server: the numbers of its tools that were added, changed, removed and left
/// unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PutReport {
    /// The number of new tools.
    pub added: usize,
    /// The number of tools that were indexed again, because their definition or their server's texts changed.
    pub changed: usize,
    /// The number of tools that the server no longer lists.
    pub removed: usize,
    /// The number of unchanged tools.
    pub unchanged: usize,
    /// The tools that were refused, each with the reason.
    pub refused: Vec<RefusedTool>,
}

/// A tool that was not added to the index, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tool `{name}` of `{server}` is not indexed: {reason}")]
#[non_exhaustive]
pub struct RefusedTool {
    /// The id of the server.
    pub server: String,
    /// The beginning of the tool's name.
    pub name: String,
    /// The reason why it was refused.
    pub reason: ToolRefusal,
}

/// The reason why a tool is not in the index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolRefusal {
    /// The tool has no name.
    #[error("it has no name")]
    NoName,
    /// The name is so long that other programs might not accept it.
    #[error("its name has {length} characters, at most {most} are allowed")]
    LongName {
        /// The number of characters in the name.
        length: usize,
        /// The maximum number of characters.
        most: usize,
    },
    /// The server lists two tools of the same name; the first tool is used.
    #[error("its server lists another tool of the same name before it")]
    SameName,
    /// The definition is so large that it would fill a context window.
    #[error("its definition has {bytes} bytes, at most {most} are allowed")]
    LongDefinition {
        /// The number of bytes in the definition.
        bytes: usize,
        /// The maximum number of bytes.
        most: usize,
    },
    /// The definition is nested so deeply that most programs could not parse it.
    #[error("its definition is nested {depth} levels deep, at most {most} are allowed")]
    Deep {
        /// The nesting depth of the definition.
        depth: usize,
        /// The maximum nesting depth.
        most: usize,
    },
    /// The definition cannot be written as JSON.
    #[error("its definition is not valid JSON: {0}")]
    InvalidJson(String),
    /// The server has too many tools.
    #[error("its server lists more than {0} tools")]
    ServerFull(usize),
    /// The index has the maximum number of tools.
    #[error("the index is full with {0} tools")]
    Full(usize),
    /// The stored definition differs from its hash.
    #[error("its stored definition is damaged; it is restored when its server lists it again")]
    Damaged,
    /// The definitions in the index have reached their maximum total size in bytes.
    #[error("the index is full with {0} bytes of definitions")]
    NoRoom(u64),
}

impl AddAssign for PutReport {
    fn add_assign(&mut self, other: Self) {
        self.added += other.added;
        self.changed += other.changed;
        self.removed += other.removed;
        self.unchanged += other.unchanged;
        self.refused.extend(other.refused);
    }
}
