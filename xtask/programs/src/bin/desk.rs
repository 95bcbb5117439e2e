//! Small servers for tests. `desk terminal` reads and writes files, and `desk data` calculates. `desk things KIND FILE`
//! pretends to make and remove things: each call adds a line to the file. `desk extensions` offers the extensions of
//! MGP that need support by a server.
//!
//! Tests use these servers for the scenarios of MGP §16.5 and §16.6: an agent finds a tool for the user's request, and
//! requests another tool when a later step of the task needs it.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{CallerState, CheckpointLayer, ResultStream, Resume, SessionStates};
use mgp_types::mgp::Extension;
use mgp_types::proposal::MediaSignature;

// === The terminal ===

/// Reads the contents of a file.
#[tool(read_only, security(risk = "safe", permissions("filesystem.read")))]
fn read_file(
    /// The path of the file.
    path: &str,
) -> Result<String, ToolError> {
    fs::read_to_string(path).map_err(|error| ToolError(format!("{path}: {error}")))
}

/// Lists the names of the entries of a folder.
#[tool(read_only, security(risk = "safe", permissions("filesystem.read")))]
fn list_folder(path: &str) -> Result<String, ToolError> {
    let all = fs::read_dir(path).map_err(|error| ToolError(format!("{path}: {error}")))?;
    let names = all.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    Ok(names.join("\n"))
}

/// The rows of a table and the names of its columns.
#[derive(Serialize, JsonSchema)]
struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Parses comma-separated text into rows.
#[tool(inline, read_only)]
fn parse_csv(
    /// The text; its first line names the columns.
    text: &str,
) -> Json<Table> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).map(cells);
    Json(Table { columns: lines.next().unwrap_or_default(), rows: lines.collect() })
}

/// Writes a report in Markdown.
#[tool(idempotent, security(risk = "moderate", permissions("filesystem.write"), reversible))]
fn write_report(
    /// The path of the report.
    path: &str,
    /// The text of the report.
    text: &str,
) -> Result<String, ToolError> {
    fs::write(path, text).map_err(|error| ToolError(format!("{path}: {error}")))?;
    Ok(format!("{} bytes are in {path}", text.len()))
}

// === The data ===

/// The statistics of a column of numbers.
#[derive(Serialize, JsonSchema)]
struct Statistics {
    column: String,
    count: usize,
    mean: f64,
    least: f64,
    most: f64,
}

/// Computes statistics on CSV data: count, mean and extremes of a column.
#[tool(inline, read_only)]
fn analyze_csv(
    /// The table; its first line names the columns.
    csv: &str,
    /// The name of the column; by default the first column with numbers.
    #[arg(default)]
    column: &str,
) -> Result<Json<Statistics>, ToolError> {
    let mut lines = csv.lines().filter(|line| !line.trim().is_empty()).map(cells);
    let names = lines.next().unwrap_or_default();
    let rows: Vec<_> = lines.collect();
    let numbers = |at: usize| -> Vec<f64> {
        rows.iter().filter_map(|row| row.get(at)?.parse().ok()).collect()
    };
    let is_meant = |(at, name): &(usize, &String)| {
        if column.is_empty() { !numbers(*at).is_empty() } else { *name == column }
    };
    let meant = names.iter().enumerate().find(is_meant);
    let (at, name) = meant.ok_or_else(|| ToolError("there is no such column".to_owned()))?;
    let (mut least, mut most, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.0);
    for number in numbers(at) {
        (least, most, sum, count) =
            (least.min(number), most.max(number), sum + number, count + 1.0);
    }
    if count == 0.0 {
        return Err(ToolError(format!("`{name}` has no numbers")));
    }
    let (column, count, mean) = (name.clone(), numbers(at).len(), sum / count);
    Ok(Json(Statistics { column, count, mean, least, most }))
}

fn cells(line: impl AsRef<str>) -> Vec<String> {
    line.as_ref().split(',').map(|cell| cell.trim().to_owned()).collect()
}

// === The things ===

#[derive(Deserialize, JsonSchema)]
struct Thing {
    name: String,
}

/// Returns the tool `make_KIND` or `remove_KIND`, which adds the line `VERB KIND NAME` to a file. The answer of the
/// tool contains the time, so it differs from run to run.
fn on_thing(verb: &'static str, kind: &str, file: &str) -> Tool {
    let (line, file) = (format!("{verb} {kind}"), file.to_owned());
    let name = format!("{verb}_{kind}");
    Tool::new(name, format!("Does `{verb}` with a {kind}"), move |Args(thing): Args<Thing>| {
        let (line, file) = (format!("{line} {}\n", thing.name), file.clone());
        async move {
            // Wait, so that a test can kill this process before or after the effect.
            tokio::time::sleep(Duration::from_millis(2)).await;
            let opened = fs::OpenOptions::new().append(true).create(true).open(&file);
            let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
            written.map_err(|error| ToolError(format!("{file}: {error}")))?;
            tokio::time::sleep(Duration::from_millis(2)).await;
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok::<_, ToolError>(format!("{} at {}", line.trim_end(), time.as_nanos()))
        }
    })
}

// === The extensions that need a server ===

/// Describes an image.
#[tool]
fn look(image: &str) -> String {
    format!("an image of {} bytes", image.len())
}

fn extensions(server: Server) -> Result<Server, RpcError> {
    let count =
        Tool::new("count", "Counts the calls of a session", |state: CallerState| async move {
            let calls = state.load::<u32>()?.unwrap_or_default() + 1;
            state.store(&calls)?;
            Ok::<_, RpcError>(calls.to_string())
        });
    let list = |from: Resume<u64>, stream: ResultStream| async move {
        for row in from.0.unwrap_or(0)..20 {
            stream.send_text(format!("{row}\n")).await?;
            if row == 9 {
                stream.checkpoint(&(row + 1)).await?;
            }
        }
        Ok::<_, RpcError>(())
    };
    let rows = Tool::new("rows", "Streams numbers, with a checkpoint in the middle", list);
    let mut media = MediaSignature::new();
    media.max_input_size_bytes = Some(1000);
    let server = server.tool(count).tool(rows).tool(look().media(&media));
    let server = server.extension(SessionStates::random()?).extension(CheckpointLayer::new()?);
    Ok(server.extension(Extension::MultimodalSignatures))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::new("desk", env!("CARGO_PKG_VERSION"));
    let words: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let server = match words[..] {
        ["things", kind, file] => {
            server.tool(on_thing("make", kind, file)).tool(on_thing("remove", kind, file))
        }
        ["extensions"] => extensions(server)?,
        ["data"] => server.tool(analyze_csv()),
        _ => server.tool(read_file()).tool(list_folder()).tool(parse_csv()).tool(write_report()),
    };
    Ok(server.serve_stdio().await?)
}
