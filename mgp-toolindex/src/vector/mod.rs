//! Vectors of tools, and the search for those nearest to a query (MGP §16.4).
//!
//! A row has one byte per dimension and a factor that restores a vector of length one.
//! A query scans all rows: with the vector instructions of today's processors that takes less time than keeping a graph
//! up to date, and it misses nothing.

mod kernel;
mod quantise;
mod row_sum;
mod scan;
mod table;
#[cfg(test)]
mod tests;
mod top_rows;

pub(crate) use table::VectorTable;
