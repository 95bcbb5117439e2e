//! The index in a database (MGP §16.4).
//!
//! Each `put` and `remove` is written as a whole, in order, by its own thread; callers do not wait for the disk. After
//! a crash the file has the state after one of them. Several processes may store their servers in one file: the last
//! one that writes a server wins, and the others see it when they open the index the next time.

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
