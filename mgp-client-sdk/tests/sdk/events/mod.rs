//! Tests that events reach subscribers over each transport and in both eras (MGP §13).

mod stories;
mod wire;
