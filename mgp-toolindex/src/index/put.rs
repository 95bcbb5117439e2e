//! What became of a server's tools (MGP §16.4).
//!
//! Applies to: outbound.

use std::ops::AddAssign;

/// What became of the tools of a server that was put into the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Put {
    /// Tools that are new.
    pub added: usize,
    /// Tools that are indexed anew, because their definition or the texts of their server changed.
    pub changed: usize,
    /// Tools that are no longer listed.
    pub removed: usize,
    /// Tools that are what they were.
    pub unchanged: usize,
    /// Tools that are not in the index.
    pub refused: Vec<RefusedTool>,
}

/// A tool that is not in the index, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tool `{name}` of `{server}` is not indexed: {reason}")]
#[non_exhaustive]
pub struct RefusedTool {
    /// Its server.
    pub server: String,
    /// The beginning of its name.
    pub name: String,
    /// Why.
    pub reason: ToolRefusal,
}

/// Why a tool is not in the index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolRefusal {
    /// Nobody could call it.
    #[error("it has no name")]
    NoName,
    /// No program takes such a name.
    #[error("its name has {length} characters, at most {most} are taken")]
    LongName {
        /// How many it has.
        length: usize,
        /// How many it may have.
        most: usize,
    },
    /// Two tools of a server may not have one name; the first has it.
    #[error("its server lists another tool of the same name before it")]
    SameName,
    /// A definition that fills a context window on its own.
    #[error("its definition has {bytes} bytes, at most {most} are taken")]
    LongDefinition {
        /// How many it has.
        bytes: usize,
        /// How many it may have.
        most: usize,
    },
    /// Most programs could not read it.
    #[error("its definition is nested {depth} levels deep, at most {most} are taken")]
    Deep {
        /// How deep it is.
        depth: usize,
        /// How deep it may be.
        most: usize,
    },
    /// It is no JSON.
    #[error("its definition is no JSON: {0}")]
    NoJson(String),
    /// Its server has more tools than are taken.
    #[error("its server lists more than {0} tools")]
    ServerFull(usize),
    /// The index has as many tools as it takes.
    #[error("the index has {0} tools, which is as many as it takes")]
    Full(usize),
    /// What the database has of it is not what was written.
    #[error("what was kept of it is damaged; it comes back when its server lists it again")]
    Damaged,
    /// The index has as many bytes as it takes.
    #[error("the definitions in the index have {0} bytes, which is as many as it takes")]
    NoRoom(u64),
}

impl AddAssign for Put {
    fn add_assign(&mut self, other: Self) {
        self.added += other.added;
        self.changed += other.changed;
        self.removed += other.removed;
        self.unchanged += other.unchanged;
        self.refused.extend(other.refused);
    }
}
