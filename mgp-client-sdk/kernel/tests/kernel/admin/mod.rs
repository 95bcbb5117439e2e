//! Tests of the methods for operators, `mgp/kernel/*`: their effects, and that the kernel refuses all other callers.

mod approvals;
mod decisions;
mod refused;
mod servers;
mod world;
