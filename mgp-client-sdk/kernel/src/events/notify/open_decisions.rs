//! Looks up whether a decision still waits for a person. Needed for decisions that no event reports as made.

use mgp_lifecycle::Transactions;
use mgp_security::Definitions;
use mgp_types::proposal::TransactionStatus;
use mgp_types::service::Principal;

/// The thing that waits for a decision, if no event reports the decision.
pub(super) enum Subject {
    /// A changed definition of a tool.
    Definition { server: String, tool: String },
    /// A transaction that could not be undone completely, by its id.
    Transaction(String),
}

/// The definitions and the transactions of a kernel. If one of the two is missing, each subject of that kind counts as
/// waiting.
#[derive(Clone, Default)]
pub(crate) struct OpenDecisions {
    pub(crate) definitions: Option<Definitions>,
    pub(crate) transactions: Option<Transactions>,
}

impl OpenDecisions {
    /// Returns a function that tests whether a subject waits for a decision now. The definitions are read only once,
    /// because each read compares all of those that wait.
    pub(super) fn now(&self) -> impl Fn(&Subject) -> bool {
        // If the definitions cannot be read, a needless message is better than a missing one.
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
