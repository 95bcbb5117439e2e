//! Tests of tool security: assessments, confirmations, validators and annotations.

mod annotate;
mod assessment;
mod confirm;
mod monotone;
mod validate;
