//! Tests of binary data that is sent over HTTP as parts of a body: the tool receives the same arguments as if the data
//! were sent in Base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mgp_security::auth::ApiKeys;
use mgp_server_sdk::prelude::*;
use mgp_types::mgp::Extension;
use serde_json::json;

use super::caller::{Caller, result_text};
use super::wire::Response;
use super::world::World;

#[derive(Deserialize, JsonSchema)]
struct Look {
    image: String,
}

/// Starts a server with a tool that returns its argument unchanged.
async fn open(with_extension: bool) -> World {
    let look = Tool::new("look", "Returns an image", |Args(look): Args<Look>| async { look.image });
    let mut server = Server::new("eyes", "1").tool(look);
    if with_extension {
        server = server.extension(Extension::MultimodalSignatures);
    }
    World::of(server.http("127.0.0.1:0").no_auth(), ApiKeys::new()).await
}

/// Calls the tool with an image in Base64.
async fn as_json(caller: &Caller, image: &[u8]) -> Response {
    caller.call(1, "look", json!({ "image": STANDARD.encode(image) })).await
}

/// Calls the tool with an image that is a part of the body.
async fn as_parts(caller: &Caller, image: &[u8]) -> Response {
    let params = json!({ "name": "look", "arguments": { "image": "cid:photo" } });
    let message = caller.message(1, "tools/call", params);
    let mut body = format!(
        "--b\r\nContent-Type: application/json\r\n\r\n{message}\r\n\
         --b\r\nContent-Type: image/png\r\nContent-ID: <photo>\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(image);
    body.extend_from_slice(b"\r\n--b--\r\n");
    let kind = "multipart/related; boundary=b; type=\"application/json\"";
    caller.post_as(kind, &message, &body).await
}

#[tokio::test]
async fn an_upload_in_parts_equals_base64_byte_for_byte_in_both_eras() {
    let world = open(true).await;
    // The data contains all byte values, and bytes that look like the end of a part.
    let mut image: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    image.extend_from_slice(b"\r\n--a\r\n\r\n--");
    for caller in
        [Caller::legacy(&world, json!({}), None).await, Caller::modern(&world, json!({}), None)]
    {
        for image in [&image[..], b"", b"\xff"] {
            let expected = as_json(&caller, image).await.message().await;
            assert_eq!(result_text(&expected), STANDARD.encode(image));
            assert_eq!(as_parts(&caller, image).await.message().await, expected);
        }
    }
}

#[tokio::test]
async fn a_server_without_the_extension_takes_no_parts() {
    let world = open(false).await;
    let caller = Caller::modern(&world, json!({}), None);
    assert_eq!(as_json(&caller, b"x").await.status, 200);
    assert_eq!(as_parts(&caller, b"x").await.status, 415);
}
