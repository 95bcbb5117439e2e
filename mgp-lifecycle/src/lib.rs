//! Handshake, health, drain, supervision, retry, limits, time-outs and tasks for the Model General Protocol, as tower
//! layers (MGP §2, §11, §14).
//!
//! `docs/lifecycle.md` is the guide.

mod catch_panic;
mod drain;
mod error;
mod fleet;
mod handshake;
mod health;
mod limit;
mod ready;
mod retry;
mod rounds;
mod state;
mod supervise;
mod tasks;
mod timeout;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use catch_panic::{CatchPanic, CatchPanicLayer, panicked};
pub use drain::{Drain, DrainConfig, DrainLayer, Draining, Owner, Remaining};
pub use error::Refusal;
pub use fleet::Fleet;
pub use handshake::{
    AcceptsTask, ClientOffer, ConnectConfig, ConnectError, ConnectGate, EraChoice, Handshake,
    HandshakeLayer, MgpOffer, PermissionFlow, Phase, RequestMetaLayer, ServerOffer, Session, Stamp,
    Ungranted, Verdict, connect,
};
pub use health::{
    CheckResult, Health, HealthChange, HealthConfig, HealthLayer, HealthMonitor, HealthReason,
    HealthService, IntoCheckResult, MonitorConfig, Sign, Turn, spawn_watched,
};
pub use limit::{
    Limit, LimitConfig, LimitLayer, Quota, QuotaExceeded, QuotaLayer, QuotaService, QuotaUse, Rate,
    RateKey, RateLayer, RateLimit, RateLimited, Size, SizeConfig, SizeLayer, TooLarge,
};
pub use ready::{Ready, ReadyLayer};
pub use retry::{
    Attempted, CircuitConfig, FallbackPolicy, KnownTool, Repeat, Retry, RetryBudget, RetryConfig,
    RetryLayer,
};
pub use rounds::{RoundsConfig, RoundsLayer, RoundsService};
pub use state::{IllegalTransition, State, Transition};
pub use supervise::{
    Action, ClientOf, Event, LiveServer, Report, Rest, RestartLimitExceeded, SuperviseConfig,
    Supervised, Supervisor, supervise,
};
pub use tasks::{TaskTicket, Tasks, TasksConfig, TasksLayer};
pub use timeout::{Timeout, TimeoutLayer, Timeouts};
