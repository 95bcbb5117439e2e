//! Looks up whether a decision still waits for a person, if no event reports that it was made.

use mgp_lifecycle::Transactions;
use mgp_security::Definitions;
use mgp_types::proposal::TransactionStatus;
use mgp_types::service::Principal;

/// A definition or transaction that waits for a decision. No event reports the decision.
pub(super) enum Subject {
    /// A changed definition of a tool.
    Definition { server: String, tool: String },
    /// A transaction that could not be undone completely, by its id.
    Transaction(String),
}

/// The definitions and transactions of a kernel. If a field is `None`, all decisions of its kind count as waiting.
#[derive(Clone, Default)]
pub(crate) struct OpenDecisions {
    pub(crate) definitions: Option<Definitions>,
    pub(crate) transactions: Option<Transactions>,
}

impl OpenDecisions {
    /// Returns a function that tests whether a decision still waits. Reads the definitions only once, because each
    /// reading compares all waiting definitions.
    pub(super) fn now(&self) -> impl Fn(&Subject) -> bool {
        // If the definitions cannot be read, treat them as waiting: a needless message is better than a missing one.
        let definitions = self.definitions.as_ref().and_then(|all| all.waiting().ok());
        let list = |all: &Transactions| all.list(Principal::local().tenant().as_str(), false);
        let transactions = self.transactions.as_ref().map(list);
        move |subject: &Subject| match subject {
            Subject::Definition { server, tool } => definitions.as_ref().is_none_or(|waiting| {
                waiting.iter().any(|one| one.server.as_str() == server && one.tool == *tool)
            }),
            Subject::Transaction(id) => transactions.as_ref().is_none_or(|listed| {
                let mut stuck = listed
                    .iter()
                    .filter(|one| one.status == TransactionStatus::PartiallyRolledBack);
                stuck.any(|one| one.transaction_id == *id)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use mgp_security::Policies;
    use mgp_types::Payload;

    use super::*;

    #[tokio::test]
    async fn a_changed_definition_waits_until_an_operator_has_decided() {
        let definitions = Definitions::in_memory(Policies::default());
        definitions.open().await.unwrap();
        for text in ["Reads a file.", "Reads a file. Slowly."] {
            let tool = format!(r#"{{"name":"read","description":"{text}","inputSchema":{{}}}}"#);
            definitions.observe(&"files".into(), &[Payload::parse(tool).unwrap()]).await.unwrap();
        }
        let open = OpenDecisions { definitions: Some(definitions.clone()), transactions: None };
        let definition =
            |tool: &str| Subject::Definition { server: "files".to_owned(), tool: tool.to_owned() };
        let is_open = open.now();
        assert!(is_open(&definition("read")) && !is_open(&definition("write")));
        assert!(is_open(&Subject::Transaction("tx-1".to_owned())), "transactions are not known");

        let waiting = definitions.waiting().unwrap();
        let [one] = &waiting[..] else { panic!("{waiting:?}") };
        let (operator, hash) = (Principal::local().operator(), &one.held.fingerprint);
        definitions.reject(&operator, &one.server, &one.tool, hash, None).await.unwrap();
        assert!(!open.now()(&definition("read")));
    }
}
