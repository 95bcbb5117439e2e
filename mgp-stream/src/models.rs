//! The shared tables under a model checker: laws that hold in every interleaving (`--cfg shuttle`).
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p mgp-stream --lib models
//! ```
//!
//! `SHUTTLE_ITERATIONS` sets the number of interleavings of each model. A failed one prints its schedule, and its
//! seed.

use std::future::poll_fn;
use std::sync::Arc;

use mgp_types::mgp::{CallbackRequestParams, CallbackStatus, CallbackType, SubscribeEventsParams};
use mgp_types::service::{CallKey, Chunk, Context, Peer, Principal, Scope, ScopeKind};
use mgp_types::{Id, Payload};
use shuttle::future::block_on;
use shuttle::thread;

use crate::callback::models::{CallbackAnswer, CallbackTable, Owner};
use crate::cancel::CancelSignal;
use crate::cancel::models::{Cancellation, RunningCalls};
use crate::chunk::{ChunkReceiver, KeptBytes, ReceivedChunk};
use crate::event::{EventDraft, EventHub};

/// Checks a model in many interleavings.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let number = std::env::var("SHUTTLE_ITERATIONS").ok();
    let number = number.and_then(|number| number.parse().ok()).unwrap_or(1_000);
    shuttle::check_pct(model, number, 3);
}

fn context(kind: ScopeKind) -> Context {
    Context::new(Peer::none(), Scope::new(kind), Principal::local())
}

#[test]
fn one_answer_of_a_callback_is_accepted_and_none_behind_a_cancellation() {
    check(|| {
        let table = CallbackTable::default();
        let owner = Owner::of(&context(ScopeKind::Connection));
        let signal = Arc::new(CancelSignal::new(KeptBytes::default()));
        let mut question = CallbackRequestParams::new("", CallbackType::Input);
        let waiting = table.open(owner.clone(), Some(Arc::clone(&signal)), &mut question).unwrap();
        let answer = |text: &'static str| {
            let (table, owner, id) = (table.clone(), owner.clone(), question.callback_id.clone());
            let signal = Arc::clone(&signal);
            thread::spawn(move || {
                let was_cancelled = signal.is_cancelled();
                let response = Payload::of(text).unwrap();
                let status = table.answer(&owner, &id, &response).unwrap();
                assert!(!was_cancelled || status != CallbackStatus::Accepted);
                status == CallbackStatus::Accepted
            })
        };
        let (one, other) = (answer("one"), answer("other"));
        let cancelling = thread::spawn(move || signal.cancel(Cancellation::Silently));
        let (one, other) = (one.join().unwrap(), other.join().unwrap());
        cancelling.join().unwrap();
        assert!(!(one && other), "both were accepted");
        let mut waiting = waiting;
        let given = waiting.answer.try_recv().ok();
        let text = |text: &str| Some(CallbackAnswer::text(text));
        let expected = [(one, text("one")), (other, text("other"))];
        let expected = expected.into_iter().find(|(accepted, _)| *accepted);
        assert_eq!(given, expected.and_then(|(_, answer)| answer));
        drop(waiting);
        assert_eq!(table.len(), 0);
    });
}

#[test]
fn a_cancellation_wakes_its_call_and_no_other() {
    check(|| {
        let calls = RunningCalls::default();
        let scope = Scope::new(ScopeKind::Connection).id();
        let insert = |id: i64| {
            let signal = Arc::new(CancelSignal::new(calls.kept().clone()));
            (calls.insert(scope, Id::Number(id), CallKey::next(), Arc::clone(&signal)), signal)
        };
        let ((running, signal), (other, untouched)) = (insert(1), insert(2));
        let call = thread::spawn(move || {
            // A lost wake-up would be a deadlock, which the checker reports.
            block_on(poll_fn(|task| signal.poll_dropped(task).map(drop)));
            drop(running);
        });
        let ending = thread::spawn(move || drop(other));
        let again = calls.clone();
        let cancelling = thread::spawn(move || {
            for _ in 0..2 {
                if let Some(signal) = again.get(scope, &Id::Number(1)) {
                    signal.cancel(Cancellation::Silently);
                }
            }
        });
        for thread in [call, ending, cancelling] {
            thread.join().unwrap();
        }
        assert!(!untouched.is_cancelled());
        assert_eq!(calls.len(), 0);
    });
}

#[test]
fn calls_with_one_id_are_all_left_alone_or_one_was_alone() {
    check(|| {
        let calls = RunningCalls::default();
        let scope = Scope::new(ScopeKind::Connection).id();
        let run = |calls: RunningCalls| {
            thread::spawn(move || {
                let signal = Arc::new(CancelSignal::new(calls.kept().clone()));
                let running = calls.insert(scope, Id::Number(1), CallKey::next(), signal);
                thread::yield_now();
                drop(running);
            })
        };
        let (one, other) = (run(calls.clone()), run(calls.clone()));
        let seen = calls.get(scope, &Id::Number(1));
        one.join().unwrap();
        other.join().unwrap();
        drop(seen);
        assert_eq!(calls.len(), 0, "an entry is left");
    });
}

#[test]
fn every_subscription_numbers_its_events_without_gaps() {
    check(|| {
        let hub = EventHub::new();
        let cx = context(ScopeKind::Handle);
        let params = SubscribeEventsParams::new(vec!["a.*".to_owned()]);
        let id = block_on(hub.subscribe(&cx, &params)).unwrap().subscription_id;
        let publish = |hub: EventHub, channel: &'static str| {
            thread::spawn(move || {
                for number in 0..2 {
                    drop(hub.publish(EventDraft::new(channel).data(&number).unwrap()));
                }
            })
        };
        let (one, other) = (publish(hub.clone(), "a.one"), publish(hub.clone(), "a.other"));
        let (leaving, principal) = (hub.clone(), cx.principal.clone());
        let second = block_on(hub.subscribe(&cx, &params)).unwrap().subscription_id;
        let ending =
            thread::spawn(move || block_on(leaving.unsubscribe(&principal, second)).removed);
        one.join().unwrap();
        other.join().unwrap();
        assert!(ending.join().unwrap());
        let kept = block_on(hub.replay(&cx, mgp_types::mgp::EventsReplayParams::new(id))).unwrap();
        let kept: Vec<serde_json::Value> =
            kept.events.iter().map(|one| one.get().unwrap()).collect();
        let seqs: Vec<_> = kept.iter().map(|one| one["_mgp"]["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, [1, 2, 3, 4]);
        for channel in ["a.one", "a.other"] {
            let own = kept.iter().filter(|one| one["channel"] == channel);
            assert_eq!(own.map(|one| one["data"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1]);
        }
        assert_eq!(hub.subscriptions(), 1);
    });
}

#[test]
fn chunks_that_arrive_in_any_order_are_delivered_once_and_in_order() {
    check(|| {
        let receiver = Arc::new(ChunkReceiver::default());
        let accept = |indices: [u64; 2]| {
            let receiver = Arc::clone(&receiver);
            thread::spawn(move || {
                let take = |index: u64| {
                    let chunk = Chunk::text(&index.to_string());
                    let received = ReceivedChunk { index: Some(index), chunk, reports_loss: false };
                    let arrival = receiver.accept(received);
                    arrival.next.into_iter().chain(arrival.after).count()
                };
                indices.map(take).iter().sum::<usize>()
            })
        };
        let (one, other) = (accept([0, 2]), accept([1, 3]));
        assert_eq!(one.join().unwrap() + other.join().unwrap(), 4);
        assert_eq!((receiver.dropped(), receiver.arrived()), (0, 4));
    });
}
