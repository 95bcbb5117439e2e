//! Proposal 5 (`transactions`): several calls as the steps of a transaction, which can be undone together.

use serde::{Deserialize, Serialize};

use super::Member;
use crate::mgp::Extension;
use crate::record::{List, open_enum, record};
use crate::{RawObject, Timestamp};

/// The id of the transaction to which a call belongs as a step; the result of the call repeats it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TransactionId(pub String);

impl Member for TransactionId {
    const EXTENSION: Extension = Extension::Transactions;
    const NAME: &'static str = "transaction_id";
}

/// The name of a step in its transaction; the call contains it, and the result repeats it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepId(pub String);

impl Member for StepId {
    const EXTENSION: Extension = Extension::Transactions;
    const NAME: &'static str = "step_id";
}

record! {
    /// The call that undoes a step. The result of the step contains it, or the caller sends it with the step.
    pub struct Compensation {
        /// The tool to call.
        req tool: String,
        /// The arguments of the tool.
        opt arguments: Option<RawObject>,
        /// Another name of `arguments`, which is read and never sent.
        opt parameters: Option<RawObject>,
        /// A description of the call, for a person.
        opt description: Option<String>,
        /// The server of the tool; by default, the server of the step.
        opt server_id: Option<String>,
    }
}

impl Member for Compensation {
    const EXTENSION: Extension = Extension::Transactions;
    const NAME: &'static str = "compensation";
}

open_enum! {
    /// The state of a transaction.
    pub enum TransactionStatus {
        /// The transaction is open: further steps can be added.
        Begun = "begun",
        /// The transaction has ended, and the effects of its steps stay.
        Committed = "committed",
        /// The steps are being undone.
        RollingBack = "rolling_back",
        /// All steps were undone.
        RolledBack = "rolled_back",
        /// Some steps could not be undone; an operator must decide about them.
        PartiallyRolledBack = "partially_rolled_back",
        /// A person has taken care of the steps that were not undone.
        Resolved = "resolved",
    }
}

open_enum! {
    /// The state of a step.
    pub enum StepStatus {
        /// The call is running, was interrupted, or failed after it may have had an effect.
        Started = "started",
        /// The call succeeded.
        Done = "done",
        /// The call had no effect.
        Failed = "failed",
        /// The step was undone.
        Compensated = "compensated",
        /// The step was not undone.
        CompensationFailed = "compensation_failed",
    }
}

record! {
    /// Params of `transaction/begin`.
    pub struct BeginTransactionParams {
        /// The id that the caller chooses; `None` lets the server choose one.
        opt transaction_id: Option<String>,
        /// The seconds after which an inactive transaction is rolled back. Default: 300.
        opt timeout_seconds read rounded: Option<u64>,
        /// A description of the transaction, for a person.
        opt description: Option<String>,
    }

    /// Result of `transaction/begin`.
    pub struct BeginTransactionResult {
        /// The id of the transaction.
        req transaction_id: String,
        /// The state: `begun`.
        req status: TransactionStatus,
    }

    /// Params of `transaction/commit` and `transaction/rollback`.
    pub struct EndTransactionParams {
        /// The id of the transaction.
        req transaction_id: String,
        /// The reason for the commit or rollback; it is recorded.
        opt reason: Option<String>,
    }

    /// Result of `transaction/commit` and `transaction/rollback`.
    pub struct EndTransactionResult {
        /// The id of the transaction.
        req transaction_id: String,
        /// The state of the transaction.
        req status: TransactionStatus,
        /// The steps that were undone or could not be undone, in the order of the attempts.
        list steps_compensated: List<StepResult>,
    }

    /// The outcome of undoing a step.
    pub struct StepResult {
        /// The name of the step.
        req step_id: String,
        /// The state of the step.
        req status: StepStatus,
        /// The reason why the step could not be undone.
        opt error: Option<String>,
    }

    /// A transaction as an operator sees it.
    pub struct TransactionRecord {
        /// The id of the transaction.
        req transaction_id: String,
        /// The agent that began the transaction.
        req agent: String,
        /// The state of the transaction.
        req status: TransactionStatus,
        /// A description in the words of the agent.
        opt description: Option<String>,
        /// The reason for the rollback.
        opt reason: Option<String>,
        /// The time at which the transaction began.
        req began_at: Timestamp,
        /// The steps, in their order.
        list steps: List<StepRecord>,
        /// The note of the operator who closed the transaction.
        opt note: Option<String>,
    }

    /// A step as an operator sees it.
    pub struct StepRecord {
        /// The name of the step.
        req step_id: String,
        /// The id of the server.
        req server_id: String,
        /// The name of the tool.
        req tool: String,
        /// The state of the step.
        req status: StepStatus,
        /// The call that undoes the step, if one is known.
        opt compensation: Option<Compensation>,
        /// The reason why the step was not undone.
        opt error: Option<String>,
    }

    /// Params of `mgp/kernel/transactions`.
    pub struct ListTransactionsParams {
        /// If set, only this transaction is listed.
        opt transaction_id: Option<String>,
        /// `true` to also list ended transactions that no operator needs to decide about.
        opt all: Option<bool>,
    }

    /// Result of `mgp/kernel/transactions`.
    pub struct ListTransactionsResult {
        /// The transactions; those that wait for an operator come first.
        list transactions: List<TransactionRecord>,
    }

    /// Params of `mgp/kernel/transactions/retry` and `mgp/kernel/transactions/resolve`.
    pub struct SettleTransactionParams {
        /// The id of the transaction.
        req transaction_id: String,
        /// The agent that began the transaction; only needed if several agents chose the same id.
        opt agent: Option<String>,
        /// A note on what the operator did, which is recorded.
        opt note: Option<String>,
    }
}
