//! Over `mgp serve`.
