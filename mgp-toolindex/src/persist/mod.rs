//! The index in a database: what was put into it outlives the process (MGP §16.4).
//!
//! Each `put` and `remove` is written whole, in the order they came, by a thread of its own;
//! nobody waits for the disk. After a crash the file holds what stood after one of them.
//! Several processes may keep their servers in one file: the last one that writes a server wins,
//! and what others wrote is seen when the index is opened the next time.
//!
//! Applies to: both.

mod keeper;
mod queue;
mod rows;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use keeper::Keeper;
pub(crate) use queue::Change;
pub(crate) use rows::{
    NewServer, NewTool, NewVector, NewWords, News, OldServer, OldTool, OldVector, Opened, ServerRow,
};
