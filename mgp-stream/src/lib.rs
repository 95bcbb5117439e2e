//! Chunks, progress, cancellation and events for the Model General Protocol, as tower layers.
