//! Tests of questions that are open in the inbox and in a form at the same time: equal calls, and answers from both.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use mgp_types::RpcError;

use super::*;
use crate::approval::Approver;

/// An approver with forms: the first form is answered after ten seconds, and all later forms are never answered.
struct Forms {
    answer: GrantDecision,
    asked: AtomicUsize,
}

#[async_trait]
impl Approver for Forms {
    async fn decide(&self, _: &Context, _: Question) -> Result<Decision, RpcError> {
        if self.asked.fetch_add(1, Ordering::Relaxed) > 0 {
            return std::future::pending().await;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok(Decision::new(self.answer, "eve"))
    }

    fn timeout(&self) -> Duration {
        Duration::from_mins(10)
    }
}

#[tokio::test(start_paused = true)]
async fn an_equal_call_whose_form_is_still_open_stays_in_the_inbox_and_gets_its_answer() {
    for answer in [GrantDecision::Approved, GrantDecision::Denied] {
        let world = World::open().await;
        let forms = Forms { answer, asked: AtomicUsize::new(0) };
        let (first, inbox) = (Arc::new(forms), world.inbox.clone());
        let asked = Arc::new(AskedAndKept { first, inbox });
        let ask = || {
            let (asked, cx) = (Arc::clone(&asked), world.cx.clone());
            tokio::spawn(async move { asked.decide(&cx, wipe(&agent("eve"), "all")).await })
        };
        let one = ask();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let other = ask();
        let one = one.await.unwrap().unwrap();
        assert_eq!(one.answer, answer);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let listed = world.inbox.list(&ann()).await.unwrap();
        let closed = listed.iter().find(|request| request.state != RequestState::Open).unwrap();
        assert_eq!(id(&one), closed.id, "the record of the call names its question");
        let mut open = listed.iter().filter(|request| request.state == RequestState::Open);
        let open = open.next().expect("the other call waits in the inbox");
        world.inbox.approve(&ann(), &open.id, None).await.unwrap();
        let decided = other.await.unwrap().unwrap();
        assert_eq!((decided.answer, &*decided.by), (GrantDecision::Approved, "ann"));
    }
}

/// An approver whose form is answered while the opposite answer of an operator is being stored.
struct LateForm {
    answer: GrantDecision,
    inbox: Inbox,
}

#[async_trait]
impl Approver for LateForm {
    async fn decide(&self, _: &Context, _: Question) -> Result<Decision, RpcError> {
        let inbox = self.inbox.clone();
        let open = inbox.list(&ann()).await?.remove(0).id.clone();
        let is_approved = self.answer == GrantDecision::Denied;
        tokio::spawn(async move {
            if is_approved {
                inbox.approve(&ann(), &open, None).await
            } else {
                inbox.deny(&ann(), &open, None).await
            }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(Decision::new(self.answer, "eve"))
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_an_operator_that_is_being_stored_comes_before_that_of_the_form() {
    for (form, operator) in [
        (GrantDecision::Approved, GrantDecision::Denied),
        (GrantDecision::Denied, GrantDecision::Approved),
    ] {
        let store = FaultyStore::default().on_commit(|store, change| {
            let store = store.inner().clone();
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                store.commit(change).await
            })
        });
        let store = Arc::new(store.with_answer_timeout(Duration::from_mins(1)));
        let inbox = Inbox::new(store, Arc::new(MemoryAudit::new()));
        inbox.open().await.unwrap();
        let first = Arc::new(LateForm { answer: form, inbox: inbox.clone() });
        let asked = AskedAndKept { first, inbox };
        let cx = mock::client(Stack::new(Router::new())).cx;
        let decided = asked.decide(&cx, wipe(&agent("eve"), "all")).await.unwrap();
        assert_eq!((decided.answer, &*decided.by), (operator, "ann"));
    }
}
