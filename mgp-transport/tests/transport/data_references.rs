//! Tests of data references over HTTP: expiry, tampering, ranges, resumption, checksums, and foreign addresses.

#![cfg(feature = "http")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mgp_testkit::{http_response, serve_http, unused_address};
use mgp_transport::http::{
    GuardedFetch, OriginFault, ReferenceData, ReferenceError, ReferenceReader, ReferenceServer,
    ReferenceSettings, RemoteReference,
};
use mgp_types::service::{Fetch, FetchError, FetchRequest};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const MINUTE: Duration = Duration::from_mins(1);

fn local() -> Arc<GuardedFetch> {
    Arc::new(GuardedFetch::for_server("http://127.0.0.1/").unwrap())
}

fn sample(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

async fn served(data: ReferenceData, size: Option<u64>) -> (ReferenceServer, String) {
    let server = ReferenceServer::start(ReferenceSettings::default()).await.unwrap();
    let id = server.insert(data, "text/csv", size, MINUTE).unwrap();
    let url = server.url(&id, MINUTE).unwrap();
    (server, url)
}

#[tokio::test]
async fn a_range_is_a_part_of_the_same_bytes() {
    let whole = sample(1000);
    // The second server passes on data whose size it does not know.
    let (_server, first) = served(ReferenceData::Bytes(whole.clone().into()), None).await;
    let remote = RemoteReference { url: first.clone(), fetch: local() };
    let (_second, second) = served(ReferenceData::Remote(remote), None).await;
    for (url, (range, status, expected)) in [&first, &second].into_iter().flat_map(|url| {
        [
            (None, 200, &whole[..]),
            (Some("bytes=0-"), 206, &whole[..]),
            (Some("bytes=990-"), 206, &whole[990..]),
            (Some("bytes=10-19"), 206, &whole[10..20]),
            (Some("bytes=1000-"), 416, &[]),
        ]
        .map(|case| (url, case))
    }) {
        let mut request = FetchRequest::get(url);
        if let Some(range) = range {
            request = request.header("range", range);
        }
        let answer = local().fetch(request).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (status, expected), "{range:?}");
        if status == 206 {
            assert!(answer.header("content-range").unwrap().ends_with("/1000"), "{range:?}");
        }
    }
}

/// Regression test: the computed end of this range exceeded the largest number, which is a panic in a debug build.
#[tokio::test]
async fn a_range_at_the_largest_position_is_survived() {
    let (_server, url) = served(ReferenceData::File("unopened".into()), None).await;
    let largest = u64::MAX;
    let mut request = FetchRequest::get(&url).header("range", format!("bytes={largest}-{largest}"));
    request.method = "HEAD";
    assert_eq!(local().fetch(request).await.unwrap().status, 206);
}

#[tokio::test]
async fn an_expired_or_changed_url_is_forbidden() {
    let (server, url) = served(ReferenceData::Bytes("data".into()), Some(4)).await;
    let status =
        |url: String| async move { local().fetch(FetchRequest::get(url)).await.unwrap().status };
    assert_eq!(status(url.clone()).await, 200);
    let changed =
        format!("{}{}", &url[..url.len() - 1], if url.ends_with('0') { '1' } else { '0' });
    assert_eq!(status(changed).await, 403);
    assert_eq!(status(format!("{}/references/", server.base_url())).await, 403);

    let id = server.insert(ReferenceData::Bytes("x".into()), "text/plain", None, MINUTE).unwrap();
    let expiring = server.url(&id, Duration::ZERO).unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(status(expiring).await, 403);
    let url = server.url(&id, MINUTE).unwrap();
    server.remove(&id);
    assert_eq!(status(url).await, 410);
}

#[tokio::test]
async fn a_reference_can_be_kept_without_an_end() {
    let server = ReferenceServer::start(ReferenceSettings::default()).await.unwrap();
    let data = ReferenceData::Bytes("data".into());
    let id = server.insert(data, "text/plain", Some(4), Duration::MAX).unwrap();
    let url = server.url(&id, Duration::MAX).unwrap();
    assert_eq!(local().fetch(FetchRequest::get(url)).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_file_passes_a_second_server_and_its_checksum_is_compared() {
    let folder = mgp_testkit::temp_dir();
    let path = folder.path().join("rows.csv");
    let whole = sample(5 << 20);
    std::fs::write(&path, &whole).unwrap();
    let size = Some(whole.len() as u64);
    let (_origin, url) = served(ReferenceData::File(path), size).await;
    let remote = RemoteReference { url, fetch: local() };
    let (_broker, url) = served(ReferenceData::Remote(remote), size).await;

    let sha256 = Sha256::digest(&whole).to_vec();
    let reader = || ReferenceReader::new(&url, local());
    let read = reader().expect(size, Some(sha256.clone())).read_to_end().await.unwrap();
    assert!(read == whole);
    let wrong = reader().expect(size, Some(vec![0; 32])).read_to_end().await.unwrap_err();
    assert!(matches!(wrong, ReferenceError::Checksum), "{wrong}");
    let longer = reader().expect(Some(10), Some(sha256)).read_to_end().await.unwrap_err();
    assert!(matches!(longer, ReferenceError::Size { expected: 10, .. }), "{longer}");
    let bounded = reader().max_bytes(1 << 20).read_to_end().await.unwrap_err();
    assert!(matches!(bounded, ReferenceError::TooLarge(_)), "{bounded}");
}

#[tokio::test]
async fn data_of_another_size_than_its_server_named_are_refused() {
    let (_origin, url) = served(ReferenceData::Bytes(sample(1000).into()), Some(1000)).await;
    for (named, status) in [(5, 502), (2000, 502), (1000, 200)] {
        let remote = RemoteReference { url: url.clone(), fetch: local() };
        let (_broker, url) = served(ReferenceData::Remote(remote), Some(named)).await;
        let answer = local().fetch(FetchRequest::get(&url)).await.unwrap();
        assert_eq!(answer.status, status, "{named}");
    }
}

#[tokio::test]
async fn a_reader_gets_the_fault_for_which_a_second_server_cannot_read_the_data() {
    let (origin, url) = served(ReferenceData::Bytes(sample(10).into()), Some(10)).await;
    let stopped = unused_address();
    let (public, inner) = (Arc::new(GuardedFetch::new().unwrap()), url.clone());
    for (url, fetch, size, expected) in [
        (format!("{}/references/x", origin.base_url()), local(), 10, OriginFault::Refused),
        (format!("http://{stopped}/references/x"), local(), 10, OriginFault::Unreachable),
        (inner, public, 10, OriginFault::Forbidden),
        (url, local(), 11, OriginFault::Size),
    ] {
        let remote = RemoteReference { url, fetch };
        let (_second, url) = served(ReferenceData::Remote(remote), Some(size)).await;
        let remote = RemoteReference { url: url.clone(), fetch: local() };
        let (_third, through) = served(ReferenceData::Remote(remote), Some(size)).await;
        for url in [url, through] {
            let error = ReferenceReader::new(&url, local()).read_to_end().await.unwrap_err();
            let is_expected = matches!(error, ReferenceError::Origin(fault) if fault == expected);
            assert!(is_expected, "{expected:?}: {error}");
            let answer = local().fetch(FetchRequest::get(&url)).await.unwrap();
            assert_eq!(answer.status, 502);
            assert_eq!(String::from_utf8_lossy(&answer.body), error.to_string());
        }
    }
}

/// Starts a server that serves `whole`, and breaks each connection after `piece` bytes. Returns its URL and a counter
/// of its connections.
async fn breaking(whole: Vec<u8>, piece: usize) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/references/x", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..read]).to_lowercase();
            let from =
                request.split_once("range: bytes=").and_then(|(_, rest)| rest.split_once('-'));
            let from: usize = from.map_or(0, |(from, _)| from.parse().unwrap());
            let left = whole.len() - from;
            let status = if from == 0 { "200 OK" } else { "206 Partial Content" };
            let head = format!(
                "HTTP/1.1 {status}\r\nMgp-Reference: 1\r\nContent-Length: {left}\r\n\
                 Content-Range: bytes {from}-{}/{}\r\n\r\n",
                whole.len() - 1,
                whole.len()
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&whole[from..(from + piece).min(whole.len())]).await.unwrap();
        }
    });
    (url, connections)
}

#[tokio::test]
async fn a_broken_read_goes_on_where_it_stopped() {
    let whole = sample(100_000);
    let (url, connections) = breaking(whole.clone(), 30_000).await;
    let sha256 = Sha256::digest(&whole).to_vec();
    let reader = ReferenceReader::new(&url, local()).expect(Some(100_000), Some(sha256));
    assert!(reader.read_to_end().await.unwrap() == whole);
    assert_eq!(connections.load(Ordering::Relaxed), 4);

    let (url, connections) = breaking(whole, 0).await;
    let error = ReferenceReader::new(&url, local()).read_to_end().await.unwrap_err();
    assert!(matches!(error, ReferenceError::Interrupted(_)), "{error}");
    assert_eq!(connections.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn other_services_of_this_machine_and_internal_addresses_are_not_read() {
    let service = serve_http(|_| http_response(200, "", "secret"));
    let url = format!("{service}/latest/meta-data");
    let public = Arc::new(GuardedFetch::new().unwrap());
    let error = ReferenceReader::new(&url, Arc::clone(&public)).read_to_end().await.unwrap_err();
    assert!(matches!(error, ReferenceError::Fetch(FetchError::Forbidden { .. })), "{error}");
    let error = ReferenceReader::new(&url, local()).read_to_end().await.unwrap_err();
    assert!(matches!(error, ReferenceError::Foreign), "{error}");
    for url in
        ["https://169.254.169.254/x", "https://10.0.0.1/x", "https://[::1]/x", "file:///etc/passwd"]
    {
        let reader = ReferenceReader::new(url, Arc::clone(&public));
        let error = reader.read_to_end().await.unwrap_err();
        assert!(
            matches!(error, ReferenceError::Fetch(FetchError::Forbidden { .. })),
            "{url} {error}"
        );
    }
}

#[tokio::test]
async fn references_are_bounded_in_number_and_bytes() {
    let mut settings = ReferenceSettings::default();
    (settings.max_references, settings.max_bytes) = (2, 10);
    let server = ReferenceServer::start(settings).await.unwrap();
    let insert = |text: &'static str, ttl| {
        server.insert(ReferenceData::Bytes(text.into()), "text/plain", None, ttl)
    };
    insert("12345678", MINUTE).unwrap();
    assert!(matches!(insert("123", MINUTE), Err(ReferenceError::Full)), "too many bytes");
    insert("1", Duration::ZERO).unwrap();
    insert("2", MINUTE).unwrap();
    assert!(matches!(insert("", MINUTE), Err(ReferenceError::Full)), "too many references");
}
