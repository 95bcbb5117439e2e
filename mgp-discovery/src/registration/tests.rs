//! Tests of registrations.
//!
//! Applies to: inbound.
