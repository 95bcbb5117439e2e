//! A model test of a callback that is answered twice while its time limit ends.

use mgp_types::Payload;
use mgp_types::mgp::{CallbackRequestParams, CallbackStatus, CallbackType};
use mgp_types::service::{Context, Peer, Principal, Scope, ScopeKind};
use shuttle::future::{block_on, spawn};
use tokio::sync::oneshot;

use super::CallbackAnswer;
use super::table::{CallbackTable, Owner};
use crate::model::explore;

const ORDERS: usize = 200;

/// Of two answers to a callback, at most one is accepted. An answer is accepted only if the call that asked gets it.
#[test]
fn two_answers_against_the_end_of_the_time() {
    explore(ORDERS, || {
        let scope = Scope::new(ScopeKind::Connection);
        let owner = Owner::of(&Context::new(Peer::none(), scope, Principal::local()));
        let table = CallbackTable::default();
        let mut question = CallbackRequestParams::new("", CallbackType::Input);
        let mut waiting = table.open(owner.clone(), None, &mut question).unwrap();
        let (expire, expired) = oneshot::channel::<()>();
        let asking = spawn(async move {
            tokio::select! {
                biased;
                answer = &mut waiting.answer => answer.ok(),
                _ = expired => waiting.withdraw(),
            }
        });
        let answering = ["\"one\"", "\"two\""].map(|text| {
            let (table, owner) = (table.clone(), owner.clone());
            let id = question.callback_id.clone();
            let answer = Payload::from_trusted(text);
            spawn(async move {
                let status = table.answer(&owner, &id, &answer).unwrap();
                (status == CallbackStatus::Accepted).then_some(CallbackAnswer::Given(answer))
            })
        });
        let expiring = spawn(async move { drop(expire) });
        block_on(async {
            expiring.await.unwrap();
            let mut accepted = Vec::new();
            for answering in answering {
                accepted.extend(answering.await.unwrap());
            }
            let answer = asking.await.unwrap();
            assert_eq!(accepted, answer.into_iter().collect::<Vec<_>>());
        });
        assert!(table.is_empty(), "nothing is left of the question");
    });
}
