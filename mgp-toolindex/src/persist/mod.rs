//! Stores the index in a database (MGP §16.4).
//!
//! A separate thread writes each change of a server in order and as a whole; callers do not wait for the disk. After a
//! crash, the file has the state after one of these changes. Several processes can store their servers in one file. If
//! two processes write the same server, the last of them wins; a process sees the changes of other processes when it
//! opens the index again.
//!
//! `tables.rs` has the tables and all SQL statements, `queue.rs` has the changes that the thread must write, and
//! `index_store.rs` has the thread.

mod index_store;
mod queue;
mod rows;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use index_store::IndexStore;
pub(crate) use queue::Change;
pub(crate) use rows::{
    LoadedIndex, LoadedServer, LoadedTool, LoadedVector, NewSegments, NewServer, NewTool,
    NewVector, ServerRow, WriteMode,
};
