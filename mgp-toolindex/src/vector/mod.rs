//! The vectors of tools, and the search for the vectors nearest to a query (MGP §16.4).
//!
//! A row has one byte per dimension, and a factor that restores a vector of length one. A query scans all rows: with
//! the vector instructions of current processors this takes less time than maintaining a graph, and it misses no row.

mod kernel;
mod quantise;
mod row_sum;
mod scan;
mod table;
#[cfg(test)]
mod tests;
mod top_rows;

pub(crate) use table::VectorTable;
