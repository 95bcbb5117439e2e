//! Tests of the media types and sizes that tools declare (extension `multimodal_signatures`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, TestClient};
use mgp_discovery::Config;
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_types::RawObject;
use mgp_types::mcp::Era;
use mgp_types::mgp::{DiscoverToolsFilter, DiscoverToolsParams, Extension};
use mgp_types::proposal::MediaSignature;

use crate::route::world::{PAIRS, build_with_tools, host, host_of, kernel_with, limit_era, open};

fn media(input: &str, output: &str, max: u64) -> MediaSignature {
    let mut media = MediaSignature::new();
    media.input_types = vec![input.to_owned()].into();
    media.output_types = vec![output.to_owned()].into();
    media.max_input_size_bytes = Some(max);
    media
}

/// A server whose tool `list` accepts images of 1,000 bytes, and counts its runs.
fn counting(runs: &Arc<AtomicUsize>) -> Server {
    let runs = Arc::clone(runs);
    let schema = r#"{"type":"object","properties":
        {"image":{"type":"string","contentEncoding":"base64","contentMediaType":"image/png"}}}"#;
    let list = Tool::new("list", "Describes a picture", move || {
        runs.fetch_add(1, Ordering::SeqCst);
        async { "a cat" }
    });
    let list = list.input_schema(serde_json::from_str::<RawObject>(schema).unwrap()).media(&media(
        "image/png",
        "application/x-caption",
        1_000,
    ));
    let recent = Tool::new("recent", "Describes a sound", || async { "a bark" });
    Server::new("eyes", "1").tool(list).tool(recent).extension(Extension::MultimodalSignatures)
}

/// A server whose tool `list` declares the media types of its input.
pub(crate) fn server() -> Server {
    counting(&Arc::default())
}

async fn look(client: &Client, characters: usize) -> Result<(), i64> {
    let answer = client.call("list").arg("image", "A".repeat(characters)).await;
    answer.map(drop).map_err(|error| i64::from(error.code().0))
}

async fn listed(client: &Client) -> Option<MediaSignature> {
    let tools = client.list_tools().await.unwrap();
    MediaSignature::of(tools.iter().find(|tool| tool.name == "list").unwrap())
}

#[tokio::test]
async fn a_client_reads_media_types_and_input_that_is_too_long_does_not_run_in_both_eras() {
    for era in [Era::Legacy, Era::Modern] {
        let runs = Arc::new(AtomicUsize::new(0));
        let builder = host_of(era).extension(Extension::MultimodalSignatures);
        let client = TestClient::with_builder(limit_era(counting(&runs), era), builder).await;
        let expected = Some(media("image/png", "application/x-caption", 1_000));
        assert_eq!(listed(&client).await, expected, "{era:?}");
        // 1,300 characters of Base64 encode 975 bytes, which is within the limit of 1,000.
        assert_eq!(look(&client, 1_300).await, Ok(()));
        assert_eq!(look(&client, 1_400).await, Err(3001));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        let plain = TestClient::with_builder(limit_era(server(), era), host_of(era)).await;
        assert_eq!(listed(&plain).await, None, "{era:?}");
    }
}

#[tokio::test]
async fn a_kernel_lists_media_types_and_refuses_long_input_before_the_server_in_each_pair_of_eras()
{
    for (above, below) in PAIRS {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let direct = Config::parse("mgp.toml", "[kernel]\nsurface = 'direct'").unwrap();
        let builder = Kernel::builder().config(direct.config).local_with(
            "eyes",
            open(&["list", "recent"]),
            move || limit_era(counting(&counted), below),
        );
        let kernel = build_with_tools(builder, [("eyes", 2)]).await;
        let builder = host_of(above).extension(Extension::MultimodalSignatures);
        let client = host(&kernel, "ada", builder).await;
        let expected = Some(media("image/png", "application/x-caption", 1_000));
        assert_eq!(listed(&client).await, expected, "{above:?} {below:?}");
        assert_eq!(look(&client, 1_300).await, Ok(()));
        assert_eq!(look(&client, 1_400).await, Err(3001));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        let plain = host(&kernel, "bob", host_of(above)).await;
        assert_eq!(listed(&plain).await, None, "{above:?} {below:?}");
    }
}

#[tokio::test]
async fn a_search_finds_tools_by_the_media_types_that_they_declare() {
    let kernel = kernel_with("eyes", open(&["list", "recent"]), 2, server).await;
    let client = host(&kernel, "ada", host_of(Era::Modern)).await;
    let found = async |input: &[&str], output: &[&str]| {
        let mut filter = DiscoverToolsFilter::new();
        filter.input_types = input.iter().map(|kind| (*kind).to_owned()).collect();
        filter.output_types = output.iter().map(|kind| (*kind).to_owned()).collect();
        let mut params = DiscoverToolsParams::new();
        params.query = Some("describe".to_owned());
        params.filter = Some(filter);
        let found = client.mgp().tools_discover(&params).await.unwrap();
        found.tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert_eq!(found(&["image/png"], &[]).await, ["list"]);
    assert_eq!(found(&[], &["application/x-caption"]).await, ["list"]);
    assert_eq!(found(&["image/png"], &["audio/wav"]).await, [""; 0]);
}
