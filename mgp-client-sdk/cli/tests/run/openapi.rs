//! A test of `mgp openapi` behind a kernel: the operations of an API are found, called and governed as tools.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use flate2::Compression;
use flate2::write::GzEncoder;
use mgp_testkit::{HttpRequest, http_response, serve_http};
use serde_json::{Value, json};

use crate::wire::Wire;
use crate::world::{Host, World, within};

const SECRET: &str = "Bearer of-the-operator";

/// A test API: the requests that it has received, and the OpenAPI document that it serves at `/pets.json`.
#[derive(Clone, Default)]
struct Api(Arc<Mutex<Vec<HttpRequest>>>, Arc<Mutex<Value>>);

impl Api {
    /// Serves at a free port until the test ends; returns the URL.
    fn start(&self) -> String {
        let all = self.clone();
        serve_http(move |request| {
            if request.head.starts_with("get /moved.json ") {
                return http_response(302, "location: /pets.json\r\n", "");
            }
            let (status, answer) = if request.head.contains("/pets/404") {
                (404, json!({"error": "no such pet"}))
            } else if request.head.starts_with("get /pets.json ") {
                (200, all.1.lock().unwrap().clone())
            } else {
                (200, json!({"name": "Rex", "id": 7}))
            };
            all.0.lock().unwrap().push(request.clone());
            http_response(status, "content-type: application/json\r\n", &answer.to_string())
        })
    }

    fn last(&self) -> HttpRequest {
        self.0.lock().unwrap().last().cloned().unwrap()
    }
}

fn document() -> Value {
    let id = json!({"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}});
    let pet =
        json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}});
    json!({
        "openapi": "3.1.0", "info": {"title": "Pets", "version": "1"},
        "servers": [{"url": "https://pets.example/v1"}],
        "paths": {
            "/pets/{id}": {
                "parameters": [id],
                "get": {"operationId": "getPet", "summary": "Returns a pet", "parameters": [
                    {"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                ]},
                "delete": {"operationId": "deletePet", "summary": "Deletes a pet"},
            },
            "/pets": {"post": {
                "operationId": "addPet", "summary": "Adds a pet to the shop",
                "requestBody": {"required": true, "content": {"application/json": {"schema": pet}}},
            }},
        },
    })
}

/// Returns the request that calls the tool `getPet`.
fn get_pet(id: u32) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "getPet", "arguments": {"id": id}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    })
}

fn api_world(url: &str) -> World {
    let world = World::empty();
    let file = world.folder.join("pets.json");
    fs::write(&file, document().to_string()).unwrap();
    world.config(&format!(
        "[[servers]]\nid = \"pets\"\ncommand = '{}'\nargs = [\"openapi\", '{}', \"--base-url\", \"{url}/v2\"]\n\
         env = {{ MGP_HEADER_AUTHORIZATION = \"{SECRET}\" }}\n\
         [servers.mgp]\ndefault_policy = \"opt-out\"\nrisk = {{ addPet = \"safe\" }}\n",
        env!("CARGO_BIN_EXE_mgp"),
        file.display(),
    ));
    world
}

/// Makes a call, approves it as an operator, and returns the question that the operator had to answer.
fn call_approved(host: &mut Host, operator: &mut Wire, tool: &str, sent: &Api) -> String {
    let before = sent.0.lock().unwrap().len();
    thread::scope(|scope| {
        let call = scope.spawn(|| host.call(tool, &json!({"id": 7})));
        let approval = within(|| {
            let all = operator.ask("mgp/kernel/approvals", &json!({})).unwrap();
            all["approvals"].as_array()?.iter().find(|one| one["state"] == "open").cloned()
        });
        assert_eq!(sent.0.lock().unwrap().len(), before);
        operator.ask("mgp/kernel/approvals/approve", &json!({"id": approval["id"]})).unwrap();
        call.join().unwrap().unwrap();
        approval["question"].as_str().unwrap().to_owned()
    })
}

#[test]
fn the_operations_of_an_api_are_tools_and_deleting_waits_for_a_person() {
    let api = Api::default();
    let world = api_world(&api.start());
    let mut host = Host::standalone(&world, &[]);
    within(|| host.ask("tools/list", &json!({})).unwrap()["tools"][0]["name"].as_str().map(|_| ()));
    let mut operator = world.operator();
    let question = call_approved(&mut host, &mut operator, "getPet", &api);
    assert!(question.contains("network.outbound"), "{question}");

    let pet = host.call("getPet", &json!({"id": 7, "fields": ["name", "age & size"]})).unwrap();
    assert!(pet.contains("Rex"), "{pet}");
    let head = api.last().head;
    let line = head.lines().next().unwrap();
    assert_eq!(line, "get /v2/pets/7?fields=name&fields=age%20%26%20size http/1.1");
    assert!(head.contains(&format!("authorization: {}\r", SECRET.to_lowercase())), "{head}");

    host.call("addPet", &json!({"body": {"name": "Rex"}})).unwrap();
    assert_eq!(api.last().value(), json!({"name": "Rex"}));
    let refused = host.call("addPet", &json!({"body": {}})).unwrap_err();
    assert!(refused.to_string().contains("name"), "{refused}");

    let missing = host.call("getPet", &json!({"id": 404})).unwrap_err();
    let text = missing.to_string();
    assert!(text.contains("404") && text.contains("no such pet"), "{text}");
    assert!(!text.contains("of-the-operator"), "{text}");

    let mut search = Command::new(env!("CARGO_BIN_EXE_mgp"));
    search.args(["tools", "search", "put an animal into the shop", "--json", "--state"]);
    let found = search.arg(world.state()).output().unwrap().stdout;
    let found: Value = serde_json::from_slice(&found).unwrap();
    assert_eq!(found[0]["name"], "addPet", "{found}");

    let question = call_approved(&mut host, &mut operator, "deletePet", &api);
    assert!(question.contains("deletePet"), "{question}");
    assert!(api.last().head.starts_with("delete /v2/pets/7 http"));
}

#[test]
fn an_address_in_a_document_does_not_lead_into_this_network() {
    let api = Api::default();
    let world = World::empty();
    let mut pets = document();
    pets["servers"][0]["url"] = json!(api.start());
    let file = world.folder.join("pets.json");
    fs::write(&file, pets.to_string()).unwrap();
    let mgp = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
        command.arg("openapi").arg(&file).args(more).output().unwrap()
    };
    let listed = mgp(&["--list"]);
    let list = String::from_utf8(listed.stdout).unwrap();
    assert!(list.contains("getPet"), "{list}");
    let warning = String::from_utf8(listed.stderr).unwrap();
    assert!(listed.status.success() && warning.contains("--base-url"), "{warning}");

    let refused = mgp(&[]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && error.contains("--base-url"), "{error}");
    assert!(api.0.lock().unwrap().is_empty());

    // A list needs no address.
    pets.as_object_mut().unwrap().remove("servers");
    fs::write(&file, pets.to_string()).unwrap();
    let listed = mgp(&["--list"]);
    let list = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.status.success() && list.contains("getPet"), "{list}");
    assert!(String::from_utf8(listed.stderr).unwrap().contains("set it with `--base-url`"));
    assert!(!mgp(&[]).status.success());
}

#[test]
fn a_variable_that_cannot_be_a_header_is_refused_at_the_start() {
    let world = World::empty();
    let file = world.folder.join("pets.json");
    fs::write(&file, document().to_string()).unwrap();
    for (name, value) in [
        ("MGP_HEADER_X_KEY", "of-the-operator\n"),
        ("MGP_HEADER_HOST", "x.org"),
        ("MGP_HEADER_", "x"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
        let refused = command.arg("openapi").arg(&file).env(name, value).output().unwrap();
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && error.contains(&format!("`{name}`")), "{error}");
        assert!(!error.contains("of-the-operator"), "{error}");
    }
}

#[test]
fn a_redirect_of_a_document_is_not_followed_but_named() {
    let url = Api::default().start();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
    let refused = command.args(["openapi", &format!("{url}/moved.json")]).output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && error.contains("a redirect to `/pets.json`"), "{error}");
}

#[test]
fn a_document_at_a_url_does_not_choose_who_gets_the_key() {
    let (api, thief) = (Api::default(), Api::default());
    let (url, other) = (api.start(), thief.start());
    let source = format!("{url}/pets.json");
    let mgp = |address: &str, is_keyed: bool, more: &[&str]| {
        let mut pets = document();
        pets["servers"][0]["url"] = json!(address);
        *api.1.lock().unwrap() = pets;
        let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
        command.args(["openapi", &source]).args(more).stdin(Stdio::piped());
        command.envs(is_keyed.then_some(("MGP_HEADER_AUTHORIZATION", SECRET)));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        // The program may have ended already.
        let _ = writeln!(input, "{}", get_pet(7));
        let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new());
        drop(input);
        child.wait_with_output().unwrap()
    };
    for (address, is_keyed) in
        [(&*other, true), ("https://pets.example/v1", true), (&*other, false)]
    {
        let refused = mgp(address, is_keyed, &[]);
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && error.contains("--base-url"), "{error}");
    }
    assert!(thief.0.lock().unwrap().is_empty());
    // mgp sends the key only to the address of the document itself, and to an address that the operator sets.
    for (address, more, receiver) in
        [("/v1", vec![], &api), (&*other, vec!["--base-url", &*other], &thief)]
    {
        let served = mgp(address, true, &more);
        assert!(served.status.success(), "{served:?}");
        let head = receiver.last().head;
        assert!(head.contains("/pets/7") && head.contains("of-the-operator"), "{head}");
    }
    let requests = api.0.lock().unwrap();
    assert!(requests.iter().all(|one| one.head.contains("\nuser-agent: mgp")), "{requests:?}");
}

#[test]
fn an_api_that_always_compresses_is_read_up_to_the_limit() {
    let url = serve_http(|request| {
        let body = if request.head.starts_with("get /pets.json ") {
            let mut pets = document();
            pets["servers"][0]["url"] = json!("/v1");
            pets.to_string()
        } else if request.head.contains("/pets/0 ") {
            " ".repeat((8 << 20) + 1)
        } else {
            json!({"name": "Rex"}).to_string()
        };
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(body.as_bytes()).unwrap();
        let body = encoder.finish().unwrap();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\
             connection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        [head.as_bytes(), &body].concat()
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
    command.args(["openapi", &format!("{url}/pets.json")]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut call = |pet: u32| {
        writeln!(input, "{}", get_pet(pet)).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line
    };
    let (read, bomb) = (call(7), call(0));
    assert!(read.contains("Rex"), "{read}");
    assert!(bomb.contains("more than 8388608 bytes when it is decompressed"), "{bomb}");
    drop(input);
    assert!(child.wait().unwrap().success());
}
