//! Tests of event numbers, limits and readers of a stream.

use proptest::prelude::*;

use super::super::config::HttpConfig;
use super::super::event_budget::EventBudget;
use super::*;

fn stream(number: Option<u64>) -> Stream {
    Stream::new(number, budget(1 << 20))
}

/// Returns a budget of `store_bytes`; each of its streams keeps up to 1 KiB.
fn budget(store_bytes: usize) -> Arc<CallerBudget> {
    let second = Duration::from_secs(1);
    let config = HttpConfig {
        store_bytes,
        replay_bytes: 1 << 10,
        stall_timeout: second,
        retry_delay: second,
        ..HttpConfig::default()
    };
    EventBudget::new(&config).without_session()
}

fn read(stream: &Stream, reader: u64) -> Poll<Option<String>> {
    let read = stream.poll_read(reader, &Task::from_waker(Waker::noop()));
    read.map(|piece| piece.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()))
}

#[test]
fn a_stream_without_a_reader_keeps_one_copy_of_a_repeated_notification() {
    let stream = stream(Some(0));
    let push = |text: &str| stream.push_once(|out| out.extend_from_slice(text.as_bytes())).is_ok();
    for _ in 0..100 {
        assert!(push("tools") && push("prompts"));
    }
    let event =
        |number: u32, text: &str| format!("event: message\nid: 0-{number}\ndata: {text}\n\n");
    let reader = stream.attach(None);
    let both = event(0, "tools") + &event(1, "prompts");
    assert_eq!(read(&stream, reader), Poll::Ready(Some(both)));

    // A change after the last read is sent again.
    stream.detach(reader);
    assert!(push("tools"));
    let again = stream.attach(None);
    assert_eq!(read(&stream, again), Poll::Ready(Some(event(2, "tools"))));
}

#[test]
fn a_client_whose_response_was_ended_resumes_for_the_answer() {
    let stream = stream(Some(3));
    assert!(stream.hang_up());
    let first = stream.attach(None);
    let primed = "id: 3-0\nretry: 1000\ndata: \n\n".to_owned();
    assert_eq!(read(&stream, first), Poll::Ready(Some(primed)));
    assert_eq!(read(&stream, first), Poll::Ready(None));
    stream.detach(first);
    let second = stream.attach(Some(0));
    assert_eq!(read(&stream, second), Poll::Pending, "it waits; its response was not ended");
    stream.finish(b"{}".to_vec());
    let answer = "event: message\nid: 3-1\ndata: {}\n\n".to_owned();
    assert_eq!(read(&stream, second), Poll::Ready(Some(answer)));
    assert_eq!(read(&stream, second), Poll::Ready(None));
    assert!(!stream.hang_up(), "the stream has ended");
}

#[test]
fn a_response_that_cannot_be_resumed_is_not_ended_early() {
    let stream = stream(None);
    assert!(!stream.hang_up());
    let reader = stream.attach(None);
    assert_eq!(read(&stream, reader), Poll::Pending);
}

// === Resuming ===

/// Returns the numbers of the events in a text.
fn numbers(text: &str) -> Vec<u64> {
    let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
    ids.map(|id| EventId::parse(id).unwrap().number).collect()
}

fn push_events(stream: &Stream, count: u64) {
    for number in 0..count {
        stream.push(|out| out.extend(number.to_string().bytes())).unwrap();
    }
}

#[track_caller]
fn reads(stream: &Stream, after: Option<u64>, expected: &[u64]) {
    let reader = stream.attach(after);
    match read(stream, reader) {
        Poll::Ready(Some(text)) => assert_eq!(numbers(&text), expected),
        Poll::Pending => assert!(expected.is_empty(), "no events, expected {expected:?}"),
        Poll::Ready(None) => panic!("the stream has ended"),
    }
    stream.detach(reader);
}

#[test]
fn events_are_read_from_behind_the_last() {
    let stream = stream(Some(1));
    push_events(&stream, 3);
    reads(&stream, None, &[0, 1, 2]);
    reads(&stream, None, &[]);
    reads(&stream, Some(0), &[1, 2]);
    reads(&stream, Some(2), &[]);
    // A client claims to have received an event that was never sent. It must still get all later events.
    reads(&stream, Some(u64::MAX), &[]);
    push_events(&stream, 2);
    reads(&stream, None, &[3, 4]);
    reads(&stream, Some(1), &[2, 3, 4]);
    stream.finish(b"{}".to_vec());
    reads(&stream, Some(3), &[4, 5]);
    let reader = stream.attach(Some(5));
    assert_eq!(read(&stream, reader), Poll::Ready(None));
}

#[test]
fn the_oldest_are_dropped_and_the_answer_is_kept() {
    let stream = stream(Some(1));
    push_events(&stream, 100);
    assert!(stream.budget.all.stored_bytes() <= 1 << 10);
    stream.finish(vec![b'x'; 5_000]);
    // The answer alone is longer than the limit for replays, so only the answer is left.
    let reader = stream.attach(Some(0));
    let Poll::Ready(Some(text)) = read(&stream, reader) else { panic!("no events") };
    assert_eq!((numbers(&text), text.len()), (vec![100], stream_event(100, 5_000)));
    assert_eq!(read(&stream, reader), Poll::Ready(None));
    // The event is still kept after it was read, because the connection may have broken before the client received it.
    reads(&stream, Some(99), &[100]);
}

fn stream_event(number: u64, bytes: usize) -> usize {
    format!("event: message\nid: 1-{number}\ndata: \n\n").len() + bytes
}

#[test]
fn read_events_are_kept_up_to_the_limit() {
    let stream = stream(Some(1));
    let reader = stream.attach(None);
    push_events(&stream, 100);
    assert!(stream.budget.all.stored_bytes() > 1 << 10, "there is a reader, so nothing is dropped");
    let Poll::Ready(Some(text)) = read(&stream, reader) else { panic!("no events") };
    assert_eq!(numbers(&text), (0..100).collect::<Vec<_>>());
    let held = stream.budget.all.stored_bytes();
    assert!(held <= 1 << 10 && held > 900, "{held}");
    stream.detach(reader);
    let Poll::Ready(Some(text)) = read(&stream, stream.attach(Some(0))) else {
        panic!("no events")
    };
    let back = numbers(&text);
    assert_eq!(*back.last().unwrap(), 99);
    assert_eq!(back.len() as u64, 100 - back[0], "no gap but at the beginning: {back:?}");
    let budget = Arc::clone(&stream.budget);
    drop(stream);
    assert_eq!(budget.all.stored_bytes(), 0);
}

#[test]
fn nothing_is_kept_if_no_client_can_resume_or_the_budget_is_full() {
    let modern = stream(None);
    push_events(&modern, 100);
    let reader = modern.attach(None);
    let Poll::Ready(Some(text)) = read(&modern, reader) else { panic!("no events") };
    assert_eq!((text.matches("data: ").count(), text.matches("id:").count()), (100, 0));
    assert_eq!(modern.budget.all.stored_bytes(), 0);

    let budget = budget(108);
    let (one, other) = (Stream::new(Some(1), Arc::clone(&budget)), Stream::new(Some(2), budget));
    push_events(&one, 5);
    push_events(&other, 5);
    reads(&one, None, &[2, 3, 4]);
    reads(&one, Some(0), &[]);
    reads(&other, Some(0), &[4]);
}

// === Readers ===

#[test]
fn a_replaced_reader_ends_and_its_detaching_has_no_effect() {
    let stream = stream(Some(1));
    let first = stream.attach(None);
    assert_eq!(read(&stream, first), Poll::Pending);
    let second = stream.attach(None);
    push_events(&stream, 1);
    assert_eq!(read(&stream, first), Poll::Ready(None));
    stream.detach(first);
    assert!(stream.has_reader());
    assert!(matches!(read(&stream, second), Poll::Ready(Some(_))));
    stream.detach(second);
    assert!(!stream.has_reader());
}

#[test]
fn the_priming_event_is_sent_once_and_only_before_any_other() {
    let primed = |stream: &Stream| {
        stream.begin_events(Some(Duration::from_millis(70)));
        stream.begin_events(Some(Duration::from_millis(70)));
        let reader = stream.attach(None);
        match read(stream, reader) {
            Poll::Ready(Some(text)) => text,
            other => format!("{other:?}"),
        }
    };
    let fresh = stream(Some(1));
    assert_eq!(primed(&fresh), "id: 1-0\nretry: 70\ndata: \n\n");
    fresh.finish(b"{}".to_vec());
    reads(&fresh, Some(0), &[1]);

    let pushed = stream(Some(1));
    push_events(&pushed, 1);
    assert_eq!(primed(&pushed), "event: message\nid: 1-0\ndata: 0\n\n");
    let accept_response = stream(Some(1));
    accept_response.finish(b"{}".to_vec());
    assert_eq!(primed(&accept_response), "event: message\nid: 1-0\ndata: {}\n\n");
    assert_eq!(primed(&stream(None)), "Pending");
    let ended = stream(Some(1));
    ended.end();
    assert_eq!(primed(&ended), "Ready(None)");
}

#[test]
fn a_message_on_several_lines_is_one_event() {
    let event = String::from_utf8(stream(Some(1)).encode_event(7, b"{\n}\r{}")).unwrap();
    assert_eq!(event, "event: message\nid: 1-7\ndata: {\ndata: }\ndata: {}\n\n");
    for wrong in ["", "1", "-", "1-", "-1", "1-2-3", "x-1", "1-18446744073709551616", " 1-1"] {
        assert_eq!(EventId::parse(wrong), None, "{wrong}");
    }
}

// === Senders ===

#[tokio::test(start_paused = true)]
async fn senders_wait_for_a_reader_that_is_slow() {
    let stream = stream(Some(1));
    let large = |out: &mut Vec<u8>| out.resize(MAX_UNREAD_BYTES, b'x');
    stream.push(large).unwrap();
    stream.wait_for_room().await.expect("there is no reader, so senders do not wait");
    let reader = stream.attach(None);
    assert_eq!(
        stream.wait_for_room().await,
        Err(ConsumerGone),
        "senders wait no longer than the stall time"
    );
    let (room, _) = tokio::join!(stream.wait_for_room(), async { read(&stream, reader) });
    assert_eq!(room, Ok(()));

    stream.push(large).unwrap();
    // A client that resumes after the last event does not block the sender.
    let (room, _) = tokio::join!(stream.wait_for_room(), async { stream.attach(Some(1)) });
    assert_eq!(room, Ok(()));
    stream.end();
    assert_eq!(stream.wait_for_room().await, Err(ConsumerGone));
    assert_eq!(stream.push(large), Err(ConsumerGone));
}

#[test]
fn a_second_end_has_no_effect() {
    let stream = stream(Some(1));
    stream.finish(b"{}".to_vec());
    stream.finish(b"[]".to_vec());
    let begin = |stream: &Stream| stream.poll_first_output(&Task::from_waker(Waker::noop()));
    assert!(matches!(begin(&stream), Poll::Ready(FirstOutput::Answer(answer)) if answer == b"{}"));
    assert!(matches!(begin(&stream), Poll::Ready(FirstOutput::Nothing)));
}

/// Guards against an earlier fault: output that a tool sent before its response began was dropped if it exceeded the
/// limit for replays.
#[test]
fn a_response_that_has_not_begun_loses_nothing() {
    let stream = stream(Some(1));
    let waits = stream.attach(None);
    push_events(&stream, 1_000);
    let Poll::Ready(Some(text)) = read(&stream, waits) else { panic!("no events") };
    assert_eq!(numbers(&text), (0..1_000).collect::<Vec<_>>());
}

/// Guards against an earlier fault: a handler continued after its modern call had ended, and filled a stream that had
/// no reader.
#[test]
fn a_modern_stream_ends_with_its_reader() {
    let stream = stream(None);
    let reader = stream.attach(None);
    push_events(&stream, 1);
    stream.detach(reader);
    assert!(stream.is_ended());
    assert_eq!(stream.push(|out| out.push(b'x')), Err(ConsumerGone));
}

// === Random operations ===

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Attach(Option<u64>),
    Read,
    Detach,
    Prime,
    HangUp,
    Finish(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..600_usize).prop_map(Step::Push),
        2 => prop::option::of(prop_oneof![0..20_u64, Just(u64::MAX)]).prop_map(Step::Attach),
        3 => Just(Step::Read),
        1 => Just(Step::Detach),
        1 => Just(Step::Prime),
        1 => Just(Step::HangUp),
        1 => (0..3_000_usize).prop_map(Step::Finish),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Checks after random operations that readers miss no event, the counters are correct, and no bytes remain.
    #[test]
    fn readers_and_senders_may_do_anything(
        steps in prop::collection::vec(step(), 0..60), numbered in any::<bool>(),
    ) {
        let stream = stream(numbered.then_some(1));
        let mut reader = 0;
        for step in steps {
            match step {
                Step::Push(bytes) => drop(stream.push(|out| out.resize(bytes, b'x'))),
                Step::Attach(after) => reader = stream.attach(after),
                Step::Read if reader > 0 => {
                    if let Poll::Ready(Some(text)) = read(&stream, reader) {
                        let read = numbers(&text);
                        prop_assert!(read.windows(2).all(|pair| pair[0] + 1 == pair[1]));
                        let lengths = stream.budget.all.stored_bytes();
                        prop_assert!(lengths <= 1 << 10 || stream.state.lock().events.len() == 1);
                    }
                }
                Step::Read => {}
                Step::Detach => stream.detach(reader),
                Step::Prime => stream.begin_events(Some(Duration::ZERO)),
                Step::HangUp => drop(stream.hang_up()),
                Step::Finish(bytes) => stream.finish(vec![b'x'; bytes]),
            }
            let state = stream.state.lock();
            let held: usize = state.events.iter().map(Bytes::len).sum();
            prop_assert_eq!((state.stored_bytes, stream.budget.all.stored_bytes()), (held, held));
            let last = state.first + state.events.len() as u64;
            prop_assert!(state.first <= state.next && state.next <= last);
            let skipped = usize::try_from(state.next - state.first).unwrap();
            let unread: usize = state.events.iter().skip(skipped).map(Bytes::len).sum();
            prop_assert_eq!(state.unread_bytes, unread);
        }
        let budget = Arc::clone(&stream.budget);
        drop(stream);
        prop_assert_eq!(budget.all.stored_bytes(), 0);
    }
}
