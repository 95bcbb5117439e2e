//! A client whose server is started, watched and started again (MGP §11.5).
//!
//! The gates of the client are put once and outlive each connection; what belongs to one connection stands behind them:
//!
//! ```text
//! trace ─▶ retry ─▶ wait ─▶ address ─▶ the user's gates ─▶ ready ─▶ present ─▶ stamp ─▶ … ─▶ peer
//!                                      └──────── one for all incarnations ───┘  └─ one for each ─┘
//! ```
//!
//! So a call that is made again reaches the server that was started meanwhile, and refusals while there is none
//! are checked and recorded as any call is. It waits for the next one before the gates see it, so that nothing they
//! decided is taken back, and no server replaced by another, between their word and the call.
//!
//! Applies to: outbound.

mod handle;
mod record;
mod road;
mod start;
mod watch;

pub use handle::SupervisedClient;
pub use start::ServerTarget;
