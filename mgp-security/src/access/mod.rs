//! Access control: which agent may use which tool (MGP §5).
//!
//! Applies to: both.
