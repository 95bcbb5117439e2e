//! Numbers, bounds and readers of a stream.
//!
//! Applies to: inbound.

use proptest::prelude::*;

use super::*;

fn stream(number: Option<u64>) -> Stream {
    let second = Duration::from_secs(1);
    Stream::new(number, Arc::new(Store::new(1 << 20, 1 << 10, second, second)))
}

fn read(stream: &Stream, reader: u64) -> Poll<Option<String>> {
    let read = stream.poll_read(reader, &Task::from_waker(Waker::noop()));
    read.map(|piece| piece.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()))
}

#[test]
fn who_is_hung_up_on_comes_back_for_the_answer() {
    let stream = stream(Some(3));
    assert!(stream.hang_up());
    let first = stream.attach(None);
    let primed = "id: 3-0\nretry: 1000\ndata: \n\n".to_owned();
    assert_eq!(read(&stream, first), Poll::Ready(Some(primed)));
    assert_eq!(read(&stream, first), Poll::Ready(None));
    stream.detach(first);
    let second = stream.attach(Some(0));
    assert_eq!(read(&stream, second), Poll::Pending, "it waits, it was not hung up on");
    stream.finish(b"{}".to_vec());
    let answer = "event: message\nid: 3-1\ndata: {}\n\n".to_owned();
    assert_eq!(read(&stream, second), Poll::Ready(Some(answer)));
    assert_eq!(read(&stream, second), Poll::Ready(None));
    assert!(!stream.hang_up(), "it has ended");
}

#[test]
fn nobody_is_hung_up_on_who_cannot_come_back() {
    let stream = stream(None);
    assert!(!stream.hang_up());
    let reader = stream.attach(None);
    assert_eq!(read(&stream, reader), Poll::Pending);
}

// === What a client comes back for ===

/// The numbers of the events in a text.
fn numbers(text: &str) -> Vec<u64> {
    let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
    ids.map(|id| EventId::parse(id).unwrap().number).collect()
}

fn tell(stream: &Stream, count: u64) {
    for number in 0..count {
        stream.push(|out| out.extend(number.to_string().bytes())).unwrap();
    }
}

#[track_caller]
fn reads(stream: &Stream, after: Option<u64>, expected: &[u64]) {
    let reader = stream.attach(after);
    match read(stream, reader) {
        Poll::Ready(Some(text)) => assert_eq!(numbers(&text), expected),
        Poll::Pending => assert!(expected.is_empty(), "nothing came of {expected:?}"),
        Poll::Ready(None) => panic!("it has ended"),
    }
    stream.detach(reader);
}

#[test]
fn events_are_read_from_behind_the_last() {
    let stream = stream(Some(1));
    tell(&stream, 3);
    reads(&stream, None, &[0, 1, 2]);
    reads(&stream, None, &[]);
    reads(&stream, Some(0), &[1, 2]);
    reads(&stream, Some(2), &[]);
    // An event that is still to come has not been seen: nothing is skipped for who claims it.
    reads(&stream, Some(u64::MAX), &[]);
    tell(&stream, 2);
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
    tell(&stream, 100);
    assert!(stream.store.held() <= 1 << 10);
    stream.finish(vec![b'x'; 5_000]);
    // It alone is longer than what may be kept.
    let reader = stream.attach(Some(0));
    let Poll::Ready(Some(text)) = read(&stream, reader) else { panic!("nothing came") };
    assert_eq!((numbers(&text), text.len()), (vec![100], stream_event(100, 5_000)));
    assert_eq!(read(&stream, reader), Poll::Ready(None));
    // The connection may have been cut in the middle of it.
    reads(&stream, Some(99), &[100]);
}

fn stream_event(number: u64, bytes: usize) -> usize {
    format!("event: message\nid: 1-{number}\ndata: \n\n").len() + bytes
}

#[test]
fn what_was_read_is_kept_up_to_the_bound() {
    let stream = stream(Some(1));
    let reader = stream.attach(None);
    tell(&stream, 100);
    assert!(stream.store.held() > 1 << 10, "somebody reads, so nothing is dropped");
    let Poll::Ready(Some(text)) = read(&stream, reader) else { panic!("nothing came") };
    assert_eq!(numbers(&text), (0..100).collect::<Vec<_>>());
    let kept = stream.store.held();
    assert!(kept <= 1 << 10 && kept > 900, "{kept}");
    stream.detach(reader);
    let Poll::Ready(Some(text)) = read(&stream, stream.attach(Some(0))) else {
        panic!("nothing came")
    };
    let back = numbers(&text);
    assert_eq!(*back.last().unwrap(), 99);
    assert_eq!(back.len() as u64, 100 - back[0], "no hole but at the beginning: {back:?}");
    let store = Arc::clone(&stream.store);
    drop(stream);
    assert_eq!(store.held(), 0);
}

#[test]
fn nothing_is_kept_where_nobody_can_come_back_or_the_store_is_full() {
    let modern = stream(None);
    tell(&modern, 100);
    let reader = modern.attach(None);
    let Poll::Ready(Some(text)) = read(&modern, reader) else { panic!("nothing came") };
    assert_eq!((text.matches("data: ").count(), text.matches("id:").count()), (100, 0));
    assert_eq!(modern.store.held(), 0);

    let second = Duration::from_secs(1);
    let store = Arc::new(Store::new(100, 1 << 10, second, second));
    let (one, other) = (Stream::new(Some(1), Arc::clone(&store)), Stream::new(Some(2), store));
    tell(&one, 5);
    tell(&other, 5);
    reads(&one, None, &[2, 3, 4]);
    reads(&one, Some(0), &[]);
    reads(&other, Some(0), &[4]);
}

// === Readers ===

#[test]
fn reader_that_was_replaced_ends_and_its_leaving_means_nothing() {
    let stream = stream(Some(1));
    let first = stream.attach(None);
    assert_eq!(read(&stream, first), Poll::Pending);
    let second = stream.attach(None);
    tell(&stream, 1);
    assert_eq!(read(&stream, first), Poll::Ready(None));
    stream.detach(first);
    assert!(stream.is_read());
    assert!(matches!(read(&stream, second), Poll::Ready(Some(_))));
    stream.detach(second);
    assert!(!stream.is_read());
}

#[test]
fn priming_is_told_once_and_only_before_anything_else() {
    let primed = |stream: &Stream| {
        stream.as_events(Some(Duration::from_millis(70)));
        stream.as_events(Some(Duration::from_millis(70)));
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

    let told = stream(Some(1));
    tell(&told, 1);
    assert_eq!(primed(&told), "event: message\nid: 1-0\ndata: 0\n\n");
    let answered = stream(Some(1));
    answered.finish(b"{}".to_vec());
    assert_eq!(primed(&answered), "event: message\nid: 1-0\ndata: {}\n\n");
    assert_eq!(primed(&stream(None)), "Pending");
    let ended = stream(Some(1));
    ended.end();
    assert_eq!(primed(&ended), "Ready(None)");
}

#[test]
fn message_on_several_lines_is_one_event() {
    let event = String::from_utf8(stream(Some(1)).event(7, b"{\n}\r{}")).unwrap();
    assert_eq!(event, "event: message\nid: 1-7\ndata: {\ndata: }\ndata: {}\n\n");
    for wrong in ["", "1", "-", "1-", "-1", "1-2-3", "x-1", "1-18446744073709551616", " 1-1"] {
        assert_eq!(EventId::parse(wrong), None, "{wrong}");
    }
}

// === Senders ===

#[tokio::test(start_paused = true)]
async fn senders_wait_for_a_reader_that_is_slow() {
    let stream = stream(Some(1));
    let large = |out: &mut Vec<u8>| out.resize(HIGH, b'x');
    stream.push(large).unwrap();
    stream.room().await.expect("nobody reads, so nobody waits");
    let reader = stream.attach(None);
    assert_eq!(stream.room().await, Err(Gone), "it waits no longer than it may");
    let (room, _) = tokio::join!(stream.room(), async { read(&stream, reader) });
    assert_eq!(room, Ok(()));

    stream.push(large).unwrap();
    // Who comes back and has it already is in nobody's way.
    let (room, _) = tokio::join!(stream.room(), async { stream.attach(Some(1)) });
    assert_eq!(room, Ok(()));
    stream.end();
    assert_eq!(stream.room().await, Err(Gone));
    assert_eq!(stream.push(large), Err(Gone));
}

#[test]
fn what_comes_after_the_end_is_nothing() {
    let stream = stream(Some(1));
    stream.finish(b"{}".to_vec());
    stream.finish(b"[]".to_vec());
    let begin = |stream: &Stream| stream.poll_begin(&Task::from_waker(Waker::noop()));
    assert!(matches!(begin(&stream), Poll::Ready(Begin::Answer(answer)) if answer == b"{}"));
    assert!(matches!(begin(&stream), Poll::Ready(Begin::Nothing)));
}

/// What a tool said at once, before its response began, was dropped above the bound of what is kept.
#[test]
fn response_that_will_read_loses_nothing() {
    let stream = stream(Some(1));
    let waits = stream.attach(None);
    tell(&stream, 1_000);
    let Poll::Ready(Some(text)) = read(&stream, waits) else { panic!("nothing came") };
    assert_eq!(numbers(&text), (0..1_000).collect::<Vec<_>>());
}

/// A handler that outlived its modern call went on to fill a stream that nobody reads.
#[test]
fn modern_stream_ends_with_its_reader() {
    let stream = stream(None);
    let reader = stream.attach(None);
    tell(&stream, 1);
    stream.detach(reader);
    assert!(stream.is_ended());
    assert_eq!(stream.push(|out| out.push(b'x')), Err(Gone));
}

// === Anything, in any order ===

#[derive(Clone, Debug)]
enum Step {
    Tell(usize),
    Attach(Option<u64>),
    Read,
    Detach,
    Prime,
    HangUp,
    Finish(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..600_usize).prop_map(Step::Tell),
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

    /// What is read has no hole inside, the counts are right, and nothing is left.
    #[test]
    fn readers_and_senders_may_do_anything(
        steps in prop::collection::vec(step(), 0..60), numbered in any::<bool>(),
    ) {
        let stream = stream(numbered.then_some(1));
        let mut reader = 0;
        for step in steps {
            match step {
                Step::Tell(bytes) => drop(stream.push(|out| out.resize(bytes, b'x'))),
                Step::Attach(after) => reader = stream.attach(after),
                Step::Read if reader > 0 => {
                    if let Poll::Ready(Some(text)) = read(&stream, reader) {
                        let read = numbers(&text);
                        prop_assert!(read.windows(2).all(|pair| pair[0] + 1 == pair[1]));
                        let lengths = stream.store.held();
                        prop_assert!(lengths <= 1 << 10 || stream.state().events.len() == 1);
                    }
                }
                Step::Read => {}
                Step::Detach => stream.detach(reader),
                Step::Prime => stream.as_events(Some(Duration::ZERO)),
                Step::HangUp => drop(stream.hang_up()),
                Step::Finish(bytes) => stream.finish(vec![b'x'; bytes]),
            }
            let state = stream.state();
            let held: usize = state.events.iter().map(Bytes::len).sum();
            prop_assert_eq!((state.held, stream.store.held()), (held, held));
            let last = state.first + state.events.len() as u64;
            prop_assert!(state.first <= state.next && state.next <= last);
            let skipped = usize::try_from(state.next - state.first).unwrap();
            let unread: usize = state.events.iter().skip(skipped).map(Bytes::len).sum();
            prop_assert_eq!(state.unread, unread);
        }
        let store = Arc::clone(&stream.store);
        drop(stream);
        prop_assert_eq!(store.held(), 0);
    }
}
