//! Bytes to calls for the Model General Protocol: framing and the connection driver (MGP §1.4).
//!
//! Applies to: both.

mod connection;
mod duplex;
mod frame;

pub use connection::{Closed, Connection, Limits, Monitor};
pub use duplex::{End, duplex};
