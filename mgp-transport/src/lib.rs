//! Bytes to calls.
