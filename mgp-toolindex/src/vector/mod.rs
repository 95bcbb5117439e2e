//! The vectors of tools, and the search for the vectors nearest to a query (MGP §16.4).
//!
//! A vector is stored as a row of one byte per dimension, with a factor that restores the length one. A query scans all
//! rows. With the vector instructions of current processors, this takes less time than maintaining a graph of
//! neighbours, and misses no row.

mod kernel;
mod quantise;
mod row_sum;
mod scan;
mod table;
#[cfg(test)]
mod tests;
mod top_rows;

pub(crate) use table::VectorTable;
