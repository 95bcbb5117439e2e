//! Tests of tool security.

mod annotate;
mod assessment;
mod confirm;
mod monotone;
mod validate;
