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
mod idempotency;
mod limit;
mod ready;
mod retry;
mod rounds;
mod state;
mod structured_errors;
mod supervise;
mod tasks;
mod timeout;
mod transaction;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use catch_panic::{CatchPanic, CatchPanicLayer, panic_error};
pub use drain::{Drain, DrainConfig, DrainLayer, DrainService, ProcessOwner, RemainingCalls};
pub use error::LifecycleError;
pub use fleet::Fleet;
pub use handshake::{
    AcceptsRequiredTask, AcceptsTask, Answerer, ClientOffer, ConnectConfig, ConnectDecision,
    ConnectError, ConnectGate, EraChoice, Handshake, HandshakeLayer, HandshakeState, MgpOffer,
    PermissionFlow, Phase, ProposalLayer, ProposalService, RequestMetaLayer, RequestMetaService,
    ServerOffer, UngrantedPolicy, connect, requires_task, serves_tasks,
};
pub use health::{
    CheckResult, Health, HealthChange, HealthConfig, HealthLayer, HealthMonitor, HealthReason,
    HealthService, HealthSignal, IntoCheckResult, MonitorConfig, MonitorStep, spawn_watched,
};
pub use idempotency::{Idempotency, IdempotencyLayer, IdempotencyLimits, IdempotencyService};
pub use limit::{
    ConcurrencyLimit, ConcurrencyLimitLayer, LimitConfig, Quota, QuotaExceeded, QuotaLayer,
    QuotaService, QuotaUse, RateKey, RateLayer, RateLimit, RateLimited, RateService, RateUse,
    RunningPermit, SizeConfig, SizeLayer, SizeService, TooLarge, never_ran,
};
pub use ready::{Ready, ReadyLayer};
pub use retry::{
    AttemptReport, CircuitConfig, FallbackPolicy, KeyPolicy, RepeatPolicy, Retry, RetryBudget,
    RetryConfig, RetryLayer, ToolRetryInfo,
};
pub use rounds::{RoundsConfig, RoundsLayer, RoundsService};
pub use state::{IllegalTransition, StateHandle, Transition};
pub use structured_errors::{StructuredErrorsLayer, StructuredErrorsService};
pub use supervise::{
    ClientOf, LiveServer, RestState, RestartLimitExceeded, StateReport, SuperviseConfig,
    Supervised, Supervisor, SupervisorAction, SupervisorEvent, supervise,
};
pub use tasks::{TaskTables, TaskTicket, Tasks, TasksConfig, TasksLayer};
pub use timeout::{Timeout, TimeoutLayer, Timeouts};
pub use transaction::{
    CompensationCall, StepTask, TransactionLayer, TransactionService, TransactionTools,
    Transactions,
};
