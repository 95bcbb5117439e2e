//! Vectors of tools, and the search for those nearest to a question (MGP §16.4).
//!
//! A row is one byte a dimension and a factor that makes it a vector of length one again.
//! All rows are looked at for every question: with the instructions of today's processors that takes
//! less time than a graph would need to be kept up to date, and it misses nothing.
//!
//! Applies to: both.

mod best;
mod kernel;
mod number;
mod scan;
mod sum;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use table::VectorTable;
