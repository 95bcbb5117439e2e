//! The program of the README, compiled with the other examples.
#![doc = include_str!("../../README.md")]
