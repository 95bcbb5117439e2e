//! Tests of a server made from a document: its tools, the requests that their calls send, and their results.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mgp_openapi::{Api, Credentials, OpenApiError};
use mgp_types::service::{Fetch, FetchError, FetchRequest, FetchResponse, SharedFetch, mock};
use proptest::prelude::*;
use serde_json::{Value, json};

const PETS: &str = r##"
openapi: 3.0.3
info: {title: Pets, version: "1.2"}
servers: [{url: "https://{place}.example/v1/", variables: {place: {default: pets}}}]
paths:
  /pets/{petId}:
    parameters:
      - {name: petId, in: path, required: true, schema: {type: string}}
    get:
      operationId: getPet
      summary: Returns a pet
      parameters:
        - {name: "fields[]", in: query, schema: {type: array, items: {type: string}}}
        - {name: filter, in: query, style: deepObject, schema: {type: object}}
        - {name: ids, in: query, explode: false, schema: {type: array, items: {type: integer}}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: Authorization, in: header, schema: {type: string}}
    head:
      operationId: keyed
      parameters:
        - {name: key, in: query, required: true, schema: {type: string}}
        - {name: X-Api-Key, in: header, required: true, schema: {type: string}}
        - {name: more, in: query, schema: {type: object}}
        - {name: X-Options, in: header, explode: true, schema: {type: object}}
    delete: {operationId: deletePet, deprecated: true}
  /pets:
    post:
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Pet"}}}}
    put:
      operationId: form
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema: {type: object}
            encoding: {metadata: {style: deepObject, explode: true}, tags: {explode: false}}
  /photos:
    post: {operationId: photo, requestBody: {content: {multipart/form-data: {schema: {}}}}}
  /broken/{x}:
    get: {operationId: broken}
  /matrix{x}:
    get:
      operationId: matrix
      parameters: [{name: x, in: path, required: true, style: matrix, schema: {type: integer}}]
components:
  schemas:
    Pet:
      type: object
      required: [name, id]
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string, nullable: true}
        parent: {$ref: "#/components/schemas/Pet"}
"##;

/// A stub that acts as the API: it records all requests, and answers each with the same response.
struct Stub {
    requests: Arc<Mutex<Vec<FetchRequest>>>,
    response: FetchResponse,
}

#[async_trait]
impl Fetch for Stub {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        self.requests.lock().unwrap().push(request);
        Ok(self.response.clone())
    }
}

fn response(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> FetchResponse {
    let mut response = FetchResponse::new(status, body);
    response.headers.push(("content-type".to_owned(), kind.to_owned()));
    response
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Connects a client to the server made from an API, whose requests the returned stub answers with `response`.
fn connect(
    api: Api,
    address: &str,
    credentials: Credentials,
    response: FetchResponse,
) -> (mock::Client, Arc<Stub>) {
    let stub = Arc::new(Stub { requests: Arc::default(), response });
    let fetch: SharedFetch = Arc::clone(&stub) as SharedFetch;
    let server = api.into_server(address, credentials, &fetch);
    (mock::client(server.into_stack().unwrap()), stub)
}

/// Returns the definition of a tool as a server with these credentials lists it.
async fn listed(tool: &str, credentials: Credentials) -> Value {
    let api = Api::parse(PETS).unwrap();
    let (mut client, _) = connect(api, "https://x.org", credentials, FetchResponse::new(200, ""));
    let params = json!({ "_meta": meta() }).to_string();
    let list: Value = client.request("tools/list", &params).await.unwrap().get().unwrap();
    list["tools"].as_array().unwrap().iter().find(|one| one["name"] == tool).unwrap().clone()
}

/// Calls a tool of the server made from a document; returns the result and the request that was sent.
async fn call(
    tool: &str,
    arguments: Value,
    response: FetchResponse,
) -> (Value, Option<FetchRequest>) {
    let api = Api::parse(PETS).unwrap();
    let address = api.address(None).unwrap();
    let mut credentials = Credentials::default();
    credentials.headers.push(("authorization".to_owned(), "Bearer s3/cret".to_owned()));
    credentials.headers.push(("x-api-key".to_owned(), "own".to_owned()));
    credentials.query.push(("key".to_owned(), "k&y".to_owned()));
    let (mut client, stub) = connect(api, &address, credentials, response);
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta()}).to_string();
    let answer = match client.request("tools/call", &params).await {
        Ok(answer) => answer.as_str().parse().unwrap(),
        Err(error) => json!({"refused": error.message()}),
    };
    let request = stub.requests.lock().unwrap().pop();
    (answer, request)
}

#[test]
fn operations_become_tools_and_the_others_are_named_with_the_reason() {
    let api = Api::parse(PETS).unwrap();
    let names: Vec<_> = api.operations().iter().map(mgp_openapi::Operation::tool_name).collect();
    assert_eq!(names, ["form", "post_pets", "getPet", "deletePet", "keyed"]);
    let left_out: Vec<_> =
        api.left_out().iter().map(|one| (one.operation.as_str(), one.why.as_str())).collect();
    assert_eq!(left_out.len(), 3, "{left_out:?}");
    assert!(
        left_out.iter().any(|(name, why)| *name == "POST /photos" && why.contains("multipart"))
    );
    assert!(left_out.iter().any(|(name, why)| *name == "GET /broken/{x}" && why.contains("{x}")));
    assert!(left_out.iter().any(|(name, why)| *name == "GET /matrix{x}" && why.contains("matrix")));
    let get = api.operations()[2].input_schema();
    assert_eq!(get["required"], json!(["petId"]));
    assert_eq!(get["additionalProperties"], false);
    let names: Vec<_> = get["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["X-Trace", "fields", "filter", "ids", "petId"]);
    let post = api.operations()[1].input_schema();
    assert_eq!(post["properties"]["body"]["$ref"], "#/$defs/Pet");
    assert_eq!(post["$defs"]["Pet"]["required"], json!(["name"]));
    assert_eq!(post["$defs"]["Pet"]["properties"]["name"]["type"], json!(["string", "null"]));

    let some = Api::parse(PETS).unwrap().only(&["get*", "PUT /pets"]).unwrap();
    assert_eq!(some.operations().len(), 2);
    assert!(some.left_out().is_empty(), "{:?}", some.left_out());
    for (pattern, reason) in
        [("none", "fits the patterns"), ("photo", "`POST /photos` is left out")]
    {
        let error = Api::parse(PETS).unwrap().only(&[pattern]).unwrap_err();
        assert!(matches!(error, OpenApiError::NoMatch(_)), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[tokio::test]
async fn methods_give_the_hints_by_which_calls_are_judged() {
    for (name, read_only, destructive) in [
        ("getPet", json!(true), Value::Null),
        ("deletePet", json!(false), json!(true)),
        ("post_pets", json!(false), Value::Null),
    ] {
        let hints = listed(name, Credentials::default()).await["annotations"].take();
        assert_eq!(hints["readOnlyHint"], read_only, "{name}");
        assert_eq!(hints["destructiveHint"], destructive, "{name}");
    }
}

#[tokio::test]
async fn arguments_fill_their_places_and_credentials_go_along() {
    let arguments = json!({
        "petId": "a/b c", "fields": ["x", "y&z"], "filter": {"k": "v"}, "ids": [1, 2], "X-Trace": "t",
    });
    let ok = response(200, "application/json; charset=utf-8", r#"{"id": 7}"#);
    let (result, request) = call("getPet", arguments, ok).await;
    let request = request.unwrap();
    assert_eq!(
        request.url,
        "https://pets.example/v1/pets/a%2Fb%20c?fields%5B%5D=x&fields%5B%5D=y%26z&filter[k]=v&ids=1,2&key=k%26y"
    );
    let header =
        |name: &str| request.headers.iter().find(|(own, _)| own == name).map(|one| &*one.1);
    assert_eq!((header("x-trace"), header("authorization")), (Some("t"), Some("Bearer s3/cret")));
    assert!(header("user-agent").is_some_and(|agent| agent.starts_with("mgp-openapi/")));
    assert!(header("accept").is_some_and(|kinds| kinds.starts_with("application/json")));
    assert_eq!(result["structuredContent"], json!({"id": 7}));
    assert_eq!(result["content"][0]["text"], r#"{"id": 7}"#);

    let body = json!({"body": {"name": null}});
    let (result, request) = call("post_pets", body, FetchResponse::new(204, "")).await;
    let request = request.unwrap();
    assert_eq!((request.method, &*request.body), ("POST", br#"{"name":null}"#.as_slice()));
    assert_eq!(result["content"][0]["text"], "HTTP 204, without a body");
    let body = json!({"body": {"a b": "1&2", "c": [1, 2]}});
    let (_, request) = call("form", body, FetchResponse::new(200, "ok")).await;
    assert_eq!(request.unwrap().body, b"a%20b=1%262&c=1&c=2");
}

#[tokio::test]
async fn no_argument_is_sent_in_the_place_of_a_key_and_no_key_is_an_argument() {
    for name in ["key", "X-Api-Key"] {
        let arguments = json!({"petId": "a", name: "made-up"});
        let (result, request) = call("keyed", arguments, FetchResponse::new(200, "ok")).await;
        assert!(request.is_none() && result["isError"] == true, "{result}");
    }
    let arguments = json!({
        "petId": "a", "more": {"key": "mine", "x": 1}, "X-Options": {"role": "admin", "name": "x"},
    });
    let (_, request) = call("keyed", arguments, FetchResponse::new(200, "ok")).await;
    let request = request.unwrap();
    assert_eq!(request.url, "https://pets.example/v1/pets/a?x=1&key=k%26y");
    let values = |name: &str| -> Vec<&str> {
        request.headers.iter().filter(|(own, _)| own == name).map(|(_, value)| &**value).collect()
    };
    assert_eq!((values("x-api-key"), values("user-agent").len()), (vec!["own"], 1));
    assert_eq!(values("x-options"), ["name=x,role=admin"]);
    let (result, _) = call("keyed", json!({"petId": "a"}), FetchResponse::new(200, "ok")).await;
    assert_ne!(result["isError"], true, "{result}");

    let mut credentials = Credentials::default();
    credentials.headers.push(("x-api-key".to_owned(), "own".to_owned()));
    credentials.query.push(("key".to_owned(), "k".to_owned()));
    let schema = listed("keyed", credentials).await["inputSchema"].take();
    assert_eq!(schema["required"], json!(["petId"]));
    let names: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["X-Options", "more", "petId"]);
}

#[tokio::test]
async fn wrong_arguments_reach_no_api() {
    for (tool, arguments) in [
        ("getPet", json!({})),
        ("getPet", json!({"petId": ".."})),
        ("getPet", json!({"petId": ""})),
        ("getPet", json!({"petId": null})),
        ("getPet", json!({"petId": "a", "pet_id": "b"})),
        ("post_pets", json!({})),
        ("form", json!({"a": "x"})),
    ] {
        let (answer, request) = call(tool, arguments.clone(), FetchResponse::new(200, "ok")).await;
        assert!(request.is_none(), "{arguments}");
        assert!(answer.get("refused").is_some() || answer["isError"] == true, "{answer}");
    }
    let name = json!({"name": "Rex"});
    let (answer, request) = call("post_pets", name, FetchResponse::new(200, "ok")).await;
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("unknown argument `name`") && text.contains("`body`"), "{text}");
    assert!(request.is_none());
}

#[tokio::test]
async fn an_error_that_repeats_the_credentials_does_not_show_them() {
    let echo =
        r#"{"header": "Bearer s3\/cret", "key": "s3/cret", "url": "s3%2Fcret", "why": "invalid"}"#;
    let (result, _) =
        call("getPet", json!({"petId": "a"}), response(401, "application/json", echo)).await;
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(!text.contains("cret") && text.contains("invalid"), "{text}");
}

#[tokio::test]
async fn a_text_is_read_in_its_charset() {
    for (kind, body, expected) in [
        ("text/plain; charset=ISO-8859-1", b"caf\xe9 \x80".as_slice(), "café €"),
        ("text/plain; charset=\"windows-1252\"", b"\x93a\x94".as_slice(), "“a”"),
        ("application/json", b"{\"a\": \"\xff\"}".as_slice(), "{\"a\": \"\u{fffd}\"}"),
        (
            "text/plain; charset=utf-16",
            b"\xff\xfea\0".as_slice(),
            "HTTP 200: 4 bytes of `text/plain`",
        ),
    ] {
        let (result, _) = call("getPet", json!({"petId": "a"}), response(200, kind, body)).await;
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with(expected), "{kind}: {text}");
    }
}

#[tokio::test]
async fn failures_and_other_media_are_results_that_a_model_can_read() {
    let pet = || json!({"petId": "a"});
    let long = "x".repeat(100_000);
    let (result, _) = call("getPet", pet(), response(404, "text/plain", long)).await;
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(result["isError"] == true && text.starts_with("HTTP 404: x") && text.len() < 5_000);
    let mut moved = FetchResponse::new(302, "");
    let to = "http://169.254.169.254/pets/?key=k%26y";
    moved.headers.push(("location".to_owned(), to.to_owned()));
    let (result, _) = call("getPet", pet(), moved).await;
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(result["isError"] == true && text.contains("not followed"), "{result}");
    assert!(text.contains("http://169.254.169.254/pets/") && !text.contains("k%26y"), "{text}");
    let mut busy = response(429, "text/plain", "too many requests");
    busy.headers.push(("retry-after".to_owned(), "30".to_owned()));
    let (result, _) = call("getPet", pet(), busy).await;
    assert_eq!(result["content"][0]["text"], "HTTP 429 (Retry-After: 30): too many requests");
    let (result, _) = call("getPet", pet(), FetchResponse::new(304, "")).await;
    assert_eq!(result["content"][0]["text"], "HTTP 304");
    let mut created = FetchResponse::new(201, "");
    created.headers.push(("location".to_owned(), "/pets/7".to_owned()));
    let (result, _) = call("getPet", pet(), created).await;
    assert_eq!(result["content"][0]["text"], "HTTP 201, without a body; Location: /pets/7");
    let (result, _) = call("getPet", pet(), response(200, "image/png", [0x89, 0x50])).await;
    assert_eq!(result["content"][0]["type"], "image");
    let (result, _) = call("getPet", pet(), response(200, "image/svg+xml", "<svg/>")).await;
    assert_eq!(result["content"][0]["text"], "<svg/>", "hosts show no SVG as an image");
    let (result, _) = call("getPet", pet(), response(200, "application/zip", [0xff, 0xfe])).await;
    assert!(result["content"][0]["text"].as_str().unwrap().contains("2 bytes"), "{result}");
}

#[tokio::test]
async fn members_of_a_form_have_the_style_of_their_encoding_and_override_no_other_member() {
    let body = json!({"body": {
        "amount": 5, "metadata": {"amount": "x"}, "tags": ["a", "b"], "to": {"amount": 1},
    }});
    let (_, request) = call("form", body, FetchResponse::new(200, "ok")).await;
    let body = String::from_utf8(request.unwrap().body).unwrap();
    assert_eq!(body, "amount=5&metadata[amount]=x&tags=a,b&to=%7B%22amount%22%3A1%7D");

    let body = json!({"body": {"metadata": {
        "items": [{"price": "p", "quantity": 1}, {"price": "q"}], "card": {"address": {"city": "X Y"}},
    }}});
    let (_, request) = call("form", body, FetchResponse::new(200, "ok")).await;
    let body = String::from_utf8(request.unwrap().body).unwrap();
    let mut pairs: Vec<_> = body.split('&').collect();
    pairs.sort_unstable();
    assert_eq!(
        pairs,
        [
            "metadata[card][address][city]=X%20Y",
            "metadata[items][0][price]=p",
            "metadata[items][0][quantity]=1",
            "metadata[items][1][price]=q",
        ]
    );

    let nulls = json!({"amount": null, "metadata": {"a": null, "b": ""}, "tags": null});
    let (_, request) = call("form", json!({"body": nulls}), FetchResponse::new(200, "ok")).await;
    assert_eq!(request.unwrap().body, b"metadata[b]=", "what is null is not sent");
}

/// Returns the request of a call to the only tool of a document, which has one operation `POST` with this path.
async fn request_of(path: &str, operation: Value, arguments: Value) -> FetchRequest {
    let text = json!({"openapi": "3.0.3", "paths": {path: {"post": operation}}}).to_string();
    let api = Api::parse(&text).unwrap();
    let tool = api.operations()[0].tool_name().to_owned();
    let response = FetchResponse::new(200, "");
    let (mut client, stub) = connect(api, "https://x.org", Credentials::default(), response);
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta()}).to_string();
    client.request("tools/call", &params).await.unwrap();
    stub.requests.lock().unwrap().pop().unwrap()
}

const OLD_PETS: &str = r##"
swagger: "2.0"
host: pets.example
basePath: /v1
schemes: [http, https]
consumes: [application/json]
parameters: {limit: {name: limit, in: query, type: integer, maximum: 9}}
definitions: {Pet: {type: object, properties: {name: {type: string}}}}
paths:
  /pets/{id}:
    parameters: [{name: id, in: path, required: true, type: string}, {$ref: "#/parameters/limit"}]
    get:
      operationId: get
      parameters:
        - {name: tags, in: query, type: array, items: {type: string}, collectionFormat: multi}
        - {name: ids, in: query, type: array, items: {type: string}}
    put:
      operationId: put
      parameters: [{name: pet, in: body, required: true, schema: {$ref: "#/definitions/Pet"}}]
    post:
      operationId: form
      consumes: [application/x-www-form-urlencoded]
      parameters:
        - {name: name, in: formData, required: true, type: string}
        - {name: tags, in: formData, type: array, items: {type: string}}
    patch:
      operationId: file
      parameters: [{name: photo, in: formData, type: file}]
"##;

#[test]
fn a_document_of_swagger_2_becomes_the_same_tools() {
    let api = Api::parse(OLD_PETS).unwrap();
    assert_eq!(api.address(None).unwrap(), "https://pets.example/v1");
    let schema = |id: &str| {
        let one = api.operations().iter().find(|one| one.tool_name() == id).unwrap();
        one.input_schema().clone()
    };
    let get = schema("get");
    assert_eq!(get["required"], json!(["id"]));
    assert_eq!(get["properties"]["limit"], json!({"type": "integer", "maximum": 9}));
    let put = schema("put");
    assert_eq!(put["required"], json!(["id", "body"]));
    assert_eq!(put["$defs"]["Pet"]["properties"]["name"]["type"], "string");
    assert_eq!(schema("form")["properties"]["body"]["required"], json!(["name"]));
    let [file] = api.left_out() else { panic!("{:?}", api.left_out()) };
    assert!(file.why.contains("multipart"), "{}", file.why);
}

#[tokio::test]
async fn a_path_with_a_fragment_or_a_query_does_not_lose_the_arguments() {
    let query = |name: &str| json!({"name": name, "in": "query", "schema": {}});
    let operation = json!({"parameters": [query("lat"), query("b")]});
    for (path, expected) in [
        ("/#Action=Start", ("https://x.org/", "b=2&lat=1")),
        ("/at?mode=full&lat={lat}", ("https://x.org/at", "b=2&lat=1&mode=full")),
        ("/at?#x={x}", ("https://x.org/at", "b=2&lat=1")),
    ] {
        let request = request_of(path, operation.clone(), json!({"lat": 1, "b": 2})).await;
        let (address, sent) = request.url.split_once('?').unwrap();
        let mut sent: Vec<_> = sent.split('&').collect();
        sent.sort_unstable();
        assert_eq!((address, sent.join("&").as_str()), expected, "{path}");
    }
}

#[tokio::test]
async fn a_body_has_a_media_type_that_its_api_reads() {
    for (kinds, expected) in [
        // The media types that ASP.NET lists for a body.
        (vec!["application/*+json", "application/json", "text/json"], "application/json"),
        (vec!["application/json-patch+json", "application/json"], "application/json"),
        // The media types that Kubernetes lists. JSON Patch is not used, because its bodies are lists of changes.
        (
            vec!["application/json-patch+json", "application/merge-patch+json"],
            "application/merge-patch+json",
        ),
        (vec!["application/*"], "application/json"),
        (vec!["text/*"], "text/plain"),
    ] {
        let content: serde_json::Map<_, _> =
            kinds.into_iter().map(|kind| (kind.to_owned(), json!({"schema": {}}))).collect();
        let operation = json!({"requestBody": {"content": content}});
        let request = request_of("/a", operation, json!({"body": {"x": 1}})).await;
        let kind = request.headers.iter().find(|(name, _)| name == "content-type").unwrap();
        assert_eq!((&*kind.1, &*request.body), (expected, br#"{"x":1}"#.as_slice()));
    }
}

#[test]
fn words_that_are_booleans_in_yaml_1_1_only_are_texts() {
    let text = "
openapi: 3.0.3
paths:
  /points:
    get:
      parameters: [{name: y, in: query, required: true, schema: {enum: [on, off, no]}}]
      requestBody: {content: {application/json: {schema: {required: [x, y]}}}}
";
    let api = Api::parse(text).unwrap();
    let schema = api.operations()[0].input_schema();
    assert_eq!(schema["required"], json!(["y"]));
    assert_eq!(schema["properties"]["y"]["enum"], json!(["on", "off", "no"]));
    assert_eq!(schema["properties"]["body"]["required"], json!(["x", "y"]));
}

#[test]
fn an_operation_with_another_address_than_the_document_is_left_out() {
    let text = r#"
openapi: 3.0.3
servers: [{url: "https://x.org/v1"}]
paths:
  /a:
    get: {operationId: a}
    post: {operationId: b, servers: [{url: "https://{host}/v1/", variables: {host: {default: x.org}}}]}
    put: {operationId: c, servers: [{url: "https://upload.x.org"}]}
  /b:
    servers: [{url: "https://y.org"}]
    get: {operationId: d}
    post: {operationId: e, servers: [{url: "https://z.org"}, {url: "https://x.org/v1"}]}
"#;
    let api = Api::parse(text).unwrap();
    let names: Vec<_> = api.operations().iter().map(mgp_openapi::Operation::tool_name).collect();
    assert_eq!(names, ["a", "b", "e"]);
    let left_out: Vec<_> =
        api.left_out().iter().map(|one| (one.operation.as_str(), one.why.as_str())).collect();
    let [(first, why), (second, _)] = left_out[..] else { panic!("{left_out:?}") };
    assert_eq!((first, second), ("PUT /a", "GET /b"));
    assert!(why.contains("https://upload.x.org"), "{why}");
    let text = text.replace("servers: [{url: \"https://x.org/v1\"}]\npaths", "paths");
    let api = Api::parse(&text).unwrap();
    assert!(api.left_out().is_empty());
    // Without `servers`, the document's host is the address of only those operations that have no own address.
    let error = api.address(Some("https://files.example/api.yml")).unwrap_err().to_string();
    assert!(error.contains("--base-url") && error.contains("https://upload.x.org"), "{error}");
    let address = api.clone().base_url("https://x.org").address(None).unwrap();
    assert_eq!(address, "https://x.org");
    let address = api.only(&["a"]).unwrap().address(Some("https://files.example/api.yml"));
    assert_eq!(address.unwrap(), "https://files.example");
}

/// Returns an API whose document has this address.
fn with(url: &str) -> Api {
    let url = json!(url);
    Api::parse(&format!(
        r#"{{"openapi":"3.1.0","servers":[{{"url":{url}}}],"paths":{{"/a":{{"get":{{}}}}}}}}"#
    ))
    .unwrap()
}

#[test]
fn an_operation_with_the_address_of_the_document_and_an_empty_id_is_a_tool() {
    let text = r#"{"openapi":"3.0.0","servers":[{"url":"//x.org:8443/v1"}],"paths":{"/a":{"get":
        {"operationId":"","servers":[{"url":"https://x.org:8443/v1/"}]}}}}"#;
    assert_eq!(Api::parse(text).unwrap().operations()[0].tool_name(), "get_a");
}

#[test]
fn a_relative_address_is_resolved_against_the_document() {
    for (document, url, expected) in [
        ("https://x.org/docs/api.json", "v1", "https://x.org/docs/v1"),
        ("https://x.org/docs/api.json", "./v1/", "https://x.org/docs/v1"),
        ("https://x.org/docs/api.json", "../v1", "https://x.org/v1"),
        ("https://x.org/docs/api.json", "../../v1", "https://x.org/v1"),
        ("https://x.org/docs/api.json", ".", "https://x.org/docs"),
        ("https://x.org/docs/api.json", "/v1", "https://x.org/v1"),
        ("https://x.org/docs/api.json?at=/a/b", "v1?to=http://y.org", "https://x.org/docs/v1"),
        ("https://x.org:8443/docs/", "v1", "https://x.org:8443/docs/v1"),
        ("https://x.org", "v1", "https://x.org/v1"),
        ("https://x.org/docs/api.json", "", "https://x.org"),
        ("https://x.org/docs/api.json", "//y.org/v1", "https://y.org/v1"),
        ("https://x.org/docs/api.json", "http://y.org/v1", "http://y.org/v1"),
    ] {
        assert_eq!(with(url).address(Some(document)).unwrap(), expected, "{document} {url}");
    }
    for (document, url) in [("x.org/api.json", "v1"), ("https://x.org/", "/{version}")] {
        assert!(with(url).address(Some(document)).is_err(), "{document} {url}");
    }
}

#[test]
fn the_address_comes_from_the_document_or_the_operator() {
    assert_eq!(with("/v2/").address(Some("https://x.org/api.json")).unwrap(), "https://x.org/v2");
    assert_eq!(
        with("https://y.org/").base_url("http://z.org/b").address(None).unwrap(),
        "http://z.org/b"
    );
    for bad in ["/v1", "ftp://x.org", "https://u:p@x.org", "https://{host}/", "https://"] {
        assert!(with(bad).address(None).is_err(), "{bad}");
    }
}

#[test]
fn other_documents_are_refused_in_words() {
    for (text, words) in [
        ("", "not an OpenAPI document"),
        ("swagger: '2.0'", "no operation"),
        ("swagger: 2.0", "no operation"),
        ("swagger: '1.2'", "Swagger 1.2"),
        ("openapi: 3.1\npaths: {}", "no operation"),
        ("openapi: 4.0.0", "not supported"),
        ("{\"openapi\": \"3.1.0\", \"paths\": {}}", "no operation"),
        ("openapi: 3.0.0\npaths: {'/a/{b}': {get: {}}}", "`GET /a/{b}` is left out"),
        ("a: [", "neither JSON nor YAML"),
    ] {
        let error = Api::parse(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    assert!(matches!(Api::parse(&" ".repeat(17 << 20)), Err(OpenApiError::TooLong(_))));
    assert!(Api::parse(&"[".repeat(200_000)).is_err());
    assert!(Api::parse(&format!("openapi: 3.0.0\npaths: {}", "{a: ".repeat(100_000))).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Requests stay on the same host, and below the path of the operation, whatever arguments a caller sends.
    #[test]
    fn no_argument_leaves_the_path_of_its_operation(id in "\\PC{0,12}", field in "\\PC{0,12}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let arguments = json!({"petId": id, "fields": [field]});
        let (_, request) = runtime.block_on(call("getPet", arguments, FetchResponse::new(200, "ok")));
        if let Some(request) = request {
            let rest = request.url.strip_prefix("https://pets.example/v1/pets/").unwrap();
            let (segment, _) = rest.split_once('?').unwrap();
            prop_assert!(!segment.contains(['/', '#', '\\', ' ', '\n']), "{}", request.url);
            prop_assert!(!segment.is_empty() && segment.chars().any(|c| c != '.'));
        }
    }
}
