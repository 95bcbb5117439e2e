//! Tests of reading a log while it is written: from a given number on, and with queries.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use super::super::query::file_of;
use super::super::segments::Segment;
use super::*;
use crate::audit::EventSource as _;
use crate::{AuditQuery, LogFiles};

/// Writes 200 events to a log with many files, and internal records between the events.
async fn sample(folder: &Folder) -> AuditLog {
    let config = folder.config().segment_bytes(8000).checkpoint_every(7);
    let log = AuditLog::open(config, None).await.unwrap();
    for id in 0..100 {
        log.record(event(&format!("user-{}", id % 3))).await.unwrap();
        let tool = if id % 2 == 0 { "even" } else { "odd" };
        call(&log, tool, RiskLevel::Dangerous).await;
    }
    log.flush().await.unwrap();
    log
}

fn seqs(events: &[AuditEvent]) -> Vec<u64> {
    events.iter().map(|event| event.mgp.as_ref().unwrap().seq.unwrap()).collect()
}

#[tokio::test]
async fn event_numbers_have_no_gaps_despite_internal_records() {
    let folder = Folder::new();
    let log = sample(&folder).await;
    assert!(folder.segments().len() > 5);
    assert_eq!(*log.newest().borrow(), 200);
    for after in [0, 1, 7, 42, 111, 199, 200, 999] {
        let expected: Vec<u64> = (after + 1..=200).take(9).collect();
        assert_eq!(seqs(&log.after(after, 9).await.unwrap()), expected, "after {after}");
    }
    log.close().await.unwrap();
    let log = folder.open().await;
    assert_eq!(seqs(&log.after(0, 1000).await.unwrap()), (1..=200).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_query_finds_matching_events_in_either_order_page_by_page() {
    let folder = Folder::new();
    let log = sample(&folder).await;
    let all = |query: AuditQuery| {
        let log = log.clone();
        async move {
            let (mut found, mut next) = (Vec::new(), None);
            loop {
                let query = query.clone();
                let query = match next {
                    Some(after) => query.after(after),
                    None => query,
                };
                let page = log.query(query).await.unwrap();
                found.extend(seqs(&page.events));
                next = page.next;
                if next.is_none() {
                    return found;
                }
            }
        }
    };
    let tools: Vec<u64> = (1..=200).filter(|seq| seq % 2 == 0).collect();
    let odd: Vec<u64> = tools.iter().copied().filter(|seq| seq % 4 == 0).collect();
    let backwards = |seqs: &[u64]| seqs.iter().rev().copied().collect::<Vec<_>>();
    assert_eq!(all(AuditQuery::new().agent("agent.one").limit(7)).await, tools);
    assert_eq!(
        all(AuditQuery::new().server("files").newest_first().limit(1)).await,
        backwards(&tools)
    );
    assert_eq!(all(AuditQuery::new().tool("odd").newest_first().limit(6)).await, backwards(&odd));
    assert_eq!(all(AuditQuery::new().tool("files.odd")).await, odd, "with the id of its server");
    assert_eq!(all(AuditQuery::new().tool("file.odd")).await, Vec::<u64>::new());
    assert_eq!(all(AuditQuery::new().trace("trace-1").tool("odd")).await, odd);
    assert_eq!(all(AuditQuery::new().result("SUCCESS").tool("odd")).await, odd);
    assert_eq!(all(AuditQuery::new().result("DENIED")).await, Vec::<u64>::new());
    assert_eq!(all(AuditQuery::new().event_type("ACCESS_GRANTED").agent("user-2")).await.len(), 33);
    assert_eq!(
        all(AuditQuery::new().newest_first().limit(33)).await,
        backwards(&(1..=200).collect::<Vec<_>>())
    );
    assert_eq!(all(AuditQuery::new().tool("none").newest_first()).await, Vec::<u64>::new());
    let hour = Duration::from_hours(1);
    let now = SystemTime::now();
    assert_eq!(all(AuditQuery::new().since(now - hour).until(now + hour)).await, tools);
    assert_eq!(all(AuditQuery::new().until(now - hour).tool("odd")).await, Vec::<u64>::new());
    assert_eq!(all(AuditQuery::new().limit(0)).await, Vec::<u64>::new());
}

#[test]
fn a_search_in_a_log_of_many_files_opens_few_of_them() {
    let segment = |first: u64| Segment { first, path: first.to_string().into() };
    let segments: Vec<_> = (0..1000).map(segment).collect();
    for (from, expected) in [(1, 0), (10, 0), (11, 1), (5_000, 499), (5_050, 499), (20_000, 999)] {
        let opened = Cell::new(0);
        let first = |path: &Path| {
            opened.set(opened.get() + 1);
            let file: u64 = path.to_str().unwrap().parse().unwrap();
            // Ten of the files have no readable line.
            Ok((!(500..510).contains(&file)).then_some(file * 10))
        };
        assert_eq!(file_of(&segments, from, first).unwrap(), expected, "from {from}");
        assert!(opened.get() < 40, "{} files were opened", opened.get());
    }
}

#[tokio::test]
async fn an_incomplete_line_is_not_read() {
    let folder = Folder::new();
    let log = sample(&folder).await;
    let path = folder.segments().pop().unwrap();
    let mut text = fs::read(&path).unwrap();
    text.extend_from_slice(br#"{"seq":9999,"no":201,"event":{"#);
    fs::write(&path, text).unwrap();
    assert_eq!(seqs(&log.after(198, 9).await.unwrap()), [199, 200]);
    let page = log.query(AuditQuery::new().newest_first().limit(2)).await.unwrap();
    assert_eq!(seqs(&page.events), [200, 199]);
}

#[tokio::test]
async fn a_damaged_log_is_not_read() {
    let (folder, log) = Folder::with_log().await;
    for id in ["a", "b", "c"] {
        log.record(event(id)).await.unwrap();
    }
    let path = folder.segments().remove(0);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"seq\":2", "\"sec\":2", 1)).unwrap();
    let files = LogFiles::new(&folder.dir, "audit", Some(&folder.head())).unwrap();
    let readable = files.clone().skip_unreadable();
    let orders = [(AuditQuery::new(), [1, 3]), (AuditQuery::new().newest_first(), [3, 1])];
    for (query, found) in &orders {
        assert!(log.query(query.clone()).await.is_err());
        assert!(files.query(query.clone()).await.is_err());
        let page = readable.query(query.clone()).await.unwrap();
        assert_eq!(seqs(&page.events), found);
    }
    // A record whose number is too high does not hide the records after it.
    fs::write(&path, text.replacen("\"seq\":2", "\"seq\":99", 1)).unwrap();
    for (query, found) in orders {
        assert_eq!(seqs(&readable.query(query).await.unwrap().events), found);
    }
    // An unreadable line at the beginning of a file does not hide the file from later pages.
    fs::write(&path, text.replacen("\"seq\":1", "\"sec\":1", 1)).unwrap();
    let page = readable.query(AuditQuery::new().newest_first().after(3)).await.unwrap();
    assert_eq!(seqs(&page.events), [2]);
}

#[tokio::test]
async fn a_query_looks_at_a_bounded_part_and_can_go_on() {
    let folder = Folder::new();
    let log = AuditLog::open(folder.config().checkpoint_every(u64::MAX), None).await.unwrap();
    for _ in 0..20_000 {
        let ticket = log.begin(start("read", Some(RiskLevel::Safe), None));
        ticket.await.unwrap().finish(AuditOutcome::Success);
        if *log.newest().borrow() % 512 == 0 {
            tokio::task::yield_now().await;
        }
    }
    log.flush().await.unwrap();
    let page = log.query(AuditQuery::new().tool("none")).await.unwrap();
    assert_eq!((page.events.len(), page.next), (0, Some(16_384)));
    let page = log.query(AuditQuery::new().tool("none").after(16_384)).await.unwrap();
    assert_eq!((page.events.len(), page.next), (0, None));
    let page = log.query(AuditQuery::new().tool("none").newest_first()).await.unwrap();
    assert_eq!(page.next, Some(20_000 - 16_384 + 1));
}
