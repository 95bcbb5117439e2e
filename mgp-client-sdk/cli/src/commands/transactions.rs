//! The command `mgp transactions`: shows the transactions of agents, and settles those that could not be rolled back.

use std::collections::BTreeSet;

use clap::Subcommand;
use mgp_client_sdk::Client;
use mgp_types::ErrorCode;
use mgp_types::method::{KernelTransactions, KernelTransactionsResolve, KernelTransactionsRetry};
use mgp_types::proposal::{
    ListTransactionsParams, SettleTransactionParams, StepRecord, TransactionRecord,
    TransactionStatus,
};
use serde::Serialize;

use crate::args::Global;
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::output::{Cell, Output, Render, print};
use crate::state_option::shell_word_or;

/// `mgp transactions`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Transactions {
    /// List the open transactions; those that could not be rolled back completely come first
    Ls {
        /// Also list transactions that have ended
        #[arg(long)]
        all: bool,
    },
    /// Show a transaction with its steps and what undoes them
    Show {
        /// Id of the transaction
        id: String,
        /// Agent that began the transaction, if several agents chose the same id
        #[arg(long)]
        agent: Option<String>,
    },
    /// Try again to undo the steps of a transaction that were not undone
    #[command(after_help = "Example:\n  mgp transactions retry order-7")]
    Retry {
        /// Id of the transaction
        id: String,
        /// Agent that began the transaction, if several agents chose the same id
        #[arg(long)]
        agent: Option<String>,
    },
    /// Record that you took care of the steps that were not undone
    #[command(
        after_help = "Example:\n  mgp transactions resolve order-7 --note 'ticket deleted by hand'"
    )]
    Resolve {
        /// Id of the transaction
        id: String,
        /// Note for the record about what was done
        #[arg(long)]
        note: Option<String>,
        /// Agent that began the transaction, if several agents chose the same id
        #[arg(long)]
        agent: Option<String>,
    },
}

/// Transactions.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TransactionList(Vec<TransactionRecord>);

impl Render for TransactionList {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.line("no open transactions");
        }
        let rows = self.0.iter().map(|one| {
            [
                Cell::from(one.transaction_id.as_str()),
                one.agent.as_str().into(),
                one.status.as_str().into(),
                one.steps.len().to_string().as_str().into(),
                (&one.began_at).into(),
            ]
        });
        out.table(["ID", "AGENT", "STATE", "STEPS", "BEGAN"], rows);
    }
}

/// A transaction with its steps.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WholeTransaction(TransactionRecord);

impl Render for WholeTransaction {
    fn render(&self, out: &mut Output) {
        let Self(one) = self;
        out.line(format!("{}: {} (agent {})", one.transaction_id, one.status, one.agent));
        for text in [&one.description, &one.reason, &one.note].into_iter().flatten() {
            out.line(format!("  {text}"));
        }
        let rows = one.steps.iter().map(|step| {
            [
                Cell::from(step.step_id.as_str()),
                format!("{}.{}", step.server_id, step.tool).as_str().into(),
                step.status.as_str().into(),
                Some(undo(step)).filter(|undo| !undo.is_empty()).as_deref().into(),
            ]
        });
        out.table(["STEP", "TOOL", "STATE", "UNDONE BY"], rows);
        for step in &one.steps {
            if let Some(error) = &step.error {
                out.line(format!("{}: {error}", step.step_id));
            }
        }
        if one.status == TransactionStatus::PartiallyRolledBack {
            let id = shell_word_or("ID", &one.transaction_id);
            out.hint(format!(
                "answer the steps that wait for an approval (`mgp approvals ls`), then run `mgp transactions retry {id}`; \
                 or undo them by hand, then run `mgp transactions resolve {id}`"
            ));
        }
    }
}

fn undo(step: &StepRecord) -> String {
    let Some(compensation) = &step.compensation else { return String::new() };
    let arguments =
        compensation.arguments.as_ref().map(|arguments| arguments.as_payload().as_str());
    let server = compensation.server_id.as_deref().unwrap_or(&step.server_id);
    format!("{server}.{} {}", compensation.tool, arguments.unwrap_or("{}"))
}

pub(crate) async fn run(global: &Global, transactions: &Transactions) -> CliResult {
    match transactions {
        Transactions::Ls { all } => {
            let mut params = ListTransactionsParams::new();
            params.all = Some(*all);
            print(global, &TransactionList(list(global, &params).await?))
        }
        Transactions::Show { id, agent } => {
            let mut params = ListTransactionsParams::new();
            params.transaction_id = Some(id.clone());
            let found = list(global, &params).await?;
            print(global, &WholeTransaction(choose(found, id, agent.as_deref())?))
        }
        Transactions::Retry { id, agent } => {
            let mut params = SettleTransactionParams::new(id.as_str());
            params.agent.clone_from(agent);
            let client = control::connect_to_change(global).await?;
            let tried = client.request::<KernelTransactionsRetry>(&params).await;
            client.close().await;
            print(global, &WholeTransaction(tried?))
        }
        Transactions::Resolve { id, note, agent } => {
            let mut params = SettleTransactionParams::new(id.as_str());
            (params.agent, params.note) = (agent.clone(), note.clone());
            let client = control::connect_to_change(global).await?;
            let settled = client.request::<KernelTransactionsResolve>(&params).await;
            client.close().await;
            print(global, &WholeTransaction(settled?))
        }
    }
}

async fn list(
    global: &Global,
    params: &ListTransactionsParams,
) -> CliResult<Vec<TransactionRecord>> {
    let client = control::connect(global).await?;
    let found = client.request::<KernelTransactions>(params).await;
    client.close().await;
    Ok(found?.transactions.into_iter().collect())
}

/// Returns the transactions that could not be rolled back completely and wait for an operator; an empty list if the
/// kernel does not keep transactions.
pub(crate) async fn stuck(client: &Client) -> CliResult<Vec<TransactionRecord>> {
    let found = match client.request::<KernelTransactions>(&ListTransactionsParams::new()).await {
        Err(error) if error.code() == ErrorCode::METHOD_NOT_FOUND => return Ok(Vec::new()),
        found => found?.transactions,
    };
    let is_stuck = |one: &TransactionRecord| one.status == TransactionStatus::PartiallyRolledBack;
    Ok(found.into_iter().filter(is_stuck).collect())
}

/// Returns the transaction of an agent; fails if several agents chose the id and no agent is named.
fn choose(
    mut found: Vec<TransactionRecord>,
    id: &str,
    agent: Option<&str>,
) -> CliResult<TransactionRecord> {
    found.retain(|one| agent.is_none_or(|agent| one.agent.as_str() == agent));
    let agents: BTreeSet<&str> = found.iter().map(|one| one.agent.as_str()).collect();
    if agents.len() > 1 {
        let agents = agents.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Failure::failed(format!(
            "several agents chose the id `{id}`: {agents}; name one with --agent"
        )));
    }
    // Take the first transaction, because the kernel lists transactions that wait for a person first.
    let first = found.into_iter().next();
    let unknown = || format!("no transaction has the id `{id}`; see `mgp transactions ls`");
    first.ok_or_else(|| Failure::failed(unknown()))
}

#[cfg(test)]
mod tests {
    use mgp_types::Timestamp;

    use super::*;

    #[test]
    fn a_transaction_that_waits_for_a_person_is_shown_with_the_next_commands() {
        let shown = |status: TransactionStatus| {
            let record = TransactionRecord::new("order-7", "ada", status, Timestamp::now());
            let mut out = Output::default();
            WholeTransaction(record).render(&mut out);
            out.text().to_owned()
        };
        let stuck = shown(TransactionStatus::PartiallyRolledBack);
        for command in ["mgp approvals ls", "transactions retry", "transactions resolve"] {
            assert!(stuck.contains(command), "{stuck}");
        }
        assert!(!shown(TransactionStatus::Committed).contains("mgp"));
    }

    #[test]
    fn a_transaction_of_one_agent_does_not_hide_that_of_another() {
        let record = |agent: &str, status: TransactionStatus| {
            TransactionRecord::new("order-7", agent, status, Timestamp::now())
        };
        let found = || {
            vec![
                record("ada", TransactionStatus::PartiallyRolledBack),
                record("bob", TransactionStatus::Committed),
            ]
        };
        let refused = choose(found(), "order-7", None).unwrap_err().to_string();
        assert!(refused.contains("ada, bob; name one with --agent"), "{refused}");
        assert_eq!(choose(found(), "order-7", Some("ada")).unwrap().agent, "ada");
        let refused = choose(found(), "order-7", Some("eve")).unwrap_err().to_string();
        assert!(refused.contains("`order-7`; see `mgp transactions ls`"), "{refused}");
    }
}
