//! Reads the configurations of other hosts (MGP §15.2).
//!
//! Applies to: both.
