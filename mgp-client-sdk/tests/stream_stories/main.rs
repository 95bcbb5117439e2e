//! Streamed results as stories: over each transport, in each era, directly and behind a hop (MGP §12).

mod cancelled;
mod chunks;
mod foreign;
mod interleavings;
mod paced;
mod progress;
mod stdio;
mod world;
