//! Handshake, limits, time-outs, tasks and supervision for the Model General Protocol, as tower layers.
