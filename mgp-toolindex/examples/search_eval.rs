//! Runs labelled queries against an index and writes the results for a scorer (MGP §16).
//!
//! `search_eval --tools T.jsonl --queries Q.jsonl --strategy S --k 20 --out RUN.jsonl [--embedder static|none|fastembed
//! --model DIR] [--history H.jsonl [--learn-from subject|tenant]]` writes a line `{"id": …, "ranked": [ids]}` for each
//! query. The last line of the standard output is JSON with the time to build the index, the time of a query, and two
//! counts of tokens (o200k). The first count is of all definitions; the second is of what a model reads with context
//! level L3, i.e. the tools of that level and the answer to a query, at the 95th percentile of the queries. The JSON
//! also has the number of budget violations: answers above the discovery reserve, and sessions above the budget.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::sync::Arc;

use mgp_toolindex::{
    AllTools, Embedder, History, HistoryConfig, HistoryScope, MetaTools, Query, ServerEntry,
    Sessions, TokenCounter, ToolEntry, ToolIndex, default_budget, listed_tools, render_results,
};
use mgp_types::mcp::Tool;
use mgp_types::mgp::{ContextLevel, SearchStrategy};
use mgp_types::service::{Context, Peer, Principal, Scope, ScopeKind};
use serde_json::{Value, json};
use tokio::time::Instant;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    let mut builder = ToolIndex::builder();
    builder = match options.embedder()? {
        Some(embedder) => builder.embedder(embedder),
        None => builder.without_embedder(),
    };
    let history = History::with_config(HistoryConfig::new().scope(options.scope()?));
    if options.of("history").is_some() {
        builder = builder.history(history.clone());
    }
    let index = builder.build();
    let began = Instant::now();
    let mut catalogue = Catalogue::default();
    for line in lines(options.need("tools")?)? {
        catalogue.add(&line?)?;
    }
    let ids = catalogue.put(&index)?;
    // Wait until all tools have vectors, because a sentence encoder computes them in the background.
    tokio::runtime::Builder::new_current_thread().build()?.block_on(index.embedded())?;
    let build = began.elapsed();
    if let Some(path) = options.of("history") {
        learn(&history, path, &ids)?;
    }
    let strategy = options.strategy()?;
    let k: usize = options.of("k").unwrap_or("20").parse()?;
    let queries = lines(options.need("queries")?)?.collect::<Result<Vec<_>, _>>()?;
    let mut out = BufWriter::new(File::create(options.need("out")?)?);
    let ask = |text: &str| {
        let mut query = Query::new(text).limit(k).principal(&Principal::local());
        if let Some(strategy) = &strategy {
            query = query.strategy(strategy.clone());
        }
        index.search(&query, &AllTools)
    };
    // Search once before measuring, because the first query might load the lexicon.
    ask("read a file")?;
    let (memory, began) = (rss(), Instant::now());
    if let Some(first) = queries.first() {
        ask(text(first, "query"))?;
    }
    let first = began.elapsed();
    let first_kb = rss().zip(memory).map(|(after, before)| after.saturating_sub(before));
    // Do not measure the first queries, because they run with cold caches.
    for query in queries.iter().take(50) {
        ask(text(query, "query"))?;
    }
    let mut times = Vec::with_capacity(queries.len());
    for query in &queries {
        let began = Instant::now();
        let found = ask(text(query, "query"))?;
        times.push(began.elapsed());
        let ranked: Vec<&str> = found.hits.iter().map(|hit| &*ids[&hit.tool.tool_id()]).collect();
        serde_json::to_writer(&mut out, &json!({ "id": query["id"], "ranked": ranked }))?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    times.sort_unstable();
    let rss = rss();
    let costs = Costs::of(&index, &queries, strategy.as_ref())?;
    let summary = json!({
        "build_ms": build.as_millis(),
        "rss_kb": rss,
        "first_us": first.as_micros(),
        "first_kb": first_kb,
        "p50_us": at(&times, 50).as_micros(),
        "p99_us": at(&times, 99).as_micros(),
        "tools": ids.len(),
        "tokens_all": costs.all,
        "tokens_found_p95": costs.found,
        "budget_violations": costs.violations,
    });
    writeln!(std::io::stdout(), "{summary}")?;
    Ok(())
}

/// Records calls from which the index learns. Each line of the file has a query and its relevant tools, and is treated
/// as if the caller had called these tools after the query. The caller is the `subject` of the line, or the local user
/// if the line has no subject.
fn learn(history: &History, path: &str, ids: &HashMap<String, String>) -> Result<(), Failure> {
    // Enter a runtime, in which the index learns in the background, as in a server. Otherwise each recorded call would
    // wait until the index has learned from it.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let _entered = runtime.enter();
    let tools: HashMap<&str, &str> = ids.iter().map(|(tool, id)| (&**id, &**tool)).collect();
    let me = Principal::local();
    for line in lines(path)? {
        let line = line?;
        let relevant = line["relevant"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let caller = match line["subject"].as_str() {
            Some(subject) => Principal::new(me.tenant().clone(), subject),
            None => me.clone(),
        };
        for tool in relevant.filter_map(|id| tools.get(id)) {
            history.record(&caller, text(&line, "query"), tool);
        }
    }
    history.settle();
    Ok(())
}

/// The context costs in tokens, and the number of budget violations.
struct Costs {
    /// The tokens of all definitions, i.e. the cost for a host that lists every tool.
    all: u64,
    /// The tokens of the tools listed at [`ContextLevel::Hybrid`] (L3) and of the answer to a query: the 95th percentile
    /// of all queries.
    found: u64,
    /// The number of answers above the discovery reserve, and of sessions above the budget.
    violations: usize,
}

impl Costs {
    fn of(
        index: &ToolIndex,
        queries: &[Value],
        strategy: Option<&SearchStrategy>,
    ) -> Result<Self, Failure> {
        let (sessions, budget, me) = (Sessions::new(), default_budget(), Principal::local());
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), me.clone());
        let session = sessions.open(&cx, None)?;
        let listed = |level: &ContextLevel| -> Result<Vec<String>, Failure> {
            let view = sessions.view(&me, None, index, &AllTools);
            let tools = listed_tools(level, &MetaTools::new(), index, &AllTools, &view);
            Ok(tools.iter().map(serde_json::to_string).collect::<Result<_, _>>()?)
        };
        let all = sum(&TokenCounter::count_all(&listed(&ContextLevel::Standard)?).0);
        let always = sum(&TokenCounter::count_all(&listed(&ContextLevel::Hybrid)?).0);
        let mut answers = Vec::with_capacity(queries.len());
        let mut violations = 0;
        for query in queries {
            let mut asked = Query::new(text(query, "query")).principal(&me);
            if let Some(strategy) = strategy {
                asked = asked.strategy(strategy.clone());
            }
            let found = index.search(&asked, &AllTools)?;
            answers.push(serde_json::to_string(&render_results(&found, &budget))?);
            // Simulate that the model calls the first result.
            if let Some(hit) = found.hits.first() {
                sessions.record_use(&session, &hit.tool);
            }
            let view = sessions.view(&me, Some(&session), index, &AllTools);
            violations += usize::from(view.total_tokens > view.max_tokens);
        }
        let (answers, _) = TokenCounter::count_all(&answers);
        violations +=
            answers.iter().filter(|cost| u64::from(**cost) > budget.discovery_reserve).count();
        let mut found: Vec<u64> = answers.iter().map(|cost| always + u64::from(*cost)).collect();
        found.sort_unstable();
        Ok(Self { all, found: at(&found, 95), violations })
    }
}

fn sum(counts: &[u32]) -> u64 {
    counts.iter().map(|count| u64::from(*count)).sum()
}

/// The command-line options, by name.
struct Options(HashMap<String, String>);

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut all = HashMap::new();
        while let Some(word) = words.next() {
            let name =
                word.strip_prefix("--").ok_or_else(|| format!("`{word}` is not an option"))?;
            let value = words.next().ok_or_else(|| format!("--{name} needs a value"))?;
            all.insert(name.to_owned(), value);
        }
        Ok(Self(all))
    }

    fn of(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn need(&self, name: &str) -> Result<&str, Failure> {
        Ok(self.of(name).ok_or_else(|| format!("--{name} is missing"))?)
    }

    fn strategy(&self) -> Result<Option<SearchStrategy>, Failure> {
        Ok(match self.of("strategy").unwrap_or("hybrid") {
            "hybrid" => Some(SearchStrategy::Hybrid),
            "keyword" => Some(SearchStrategy::Keyword),
            "semantic" => Some(SearchStrategy::Semantic),
            "category" => Some(SearchStrategy::Category),
            other => {
                return Err(format!(
                    "unknown strategy `{other}`; known: hybrid, keyword, semantic, category"
                )
                .into());
            }
        })
    }

    fn scope(&self) -> Result<HistoryScope, Failure> {
        match self.of("learn-from").unwrap_or("subject") {
            "subject" => Ok(HistoryScope::Subject),
            "tenant" => Ok(HistoryScope::Tenant),
            other => Err(format!("unknown scope `{other}`; known: subject, tenant").into()),
        }
    }

    fn embedder(&self) -> Result<Option<Arc<dyn Embedder>>, Failure> {
        match self.of("embedder").unwrap_or("static") {
            "none" => Ok(None),
            #[cfg(feature = "static-table")]
            "static" => Ok(Some(Arc::new(mgp_toolindex::StaticTable::new()))),
            #[cfg(feature = "fastembed")]
            "fastembed" => Ok(Some(Arc::new(mgp_toolindex::Sentences::open(self.need("model")?)?))),
            other => Err(format!(
                "the embedder `{other}` is not compiled in; its feature is `fastembed` or `static-table`"
            )
            .into()),
        }
    }
}

/// The servers and tools in the file that the option `--tools` names.
#[derive(Default)]
struct Catalogue {
    servers: HashMap<String, ServerEntry>,
    order: Vec<String>,
    /// Maps each tool id of the index to the tool's id in the file.
    ids: HashMap<String, String>,
}

impl Catalogue {
    fn add(&mut self, line: &Value) -> Result<(), Failure> {
        let (id, name) = (text(line, "id"), text(line, "name"));
        // The names of tools are unique within a server. If a server of the file has two tools with the same name, the
        // second tool is put into a copy of the server with another id and the same description.
        let server_id = text(line, "server_id");
        let mut server = server_id.to_owned();
        let mut number = 1;
        while self.ids.contains_key(&format!("{server}.{name}")) {
            number += 1;
            server = format!("{server_id}#{number}");
        }
        self.ids.insert(format!("{server}.{name}"), id.to_owned());
        let mut definition = json!({ "name": name, "inputSchema": { "type": "object" } });
        for member in ["description", "inputSchema"] {
            if let Some(value) = line.get(member).filter(|value| !value.is_null()) {
                definition[member] = value.clone();
            }
        }
        let tool: Tool = serde_json::from_value(definition)?;
        let categories = line["categories"].as_array().into_iter().flatten();
        let categories = categories.filter_map(Value::as_str);
        let entry = self.servers.remove(&server).unwrap_or_else(|| {
            self.order.push(server.clone());
            let mut entry = ServerEntry::new(&server);
            match line["server_name"].as_str() {
                Some(name) => entry = entry.name(name),
                None if number > 1 => entry = entry.name(server_id),
                None => {}
            }
            if let Some(description) = line["server_description"].as_str() {
                entry = entry.description(description);
            }
            entry
        });
        self.servers.insert(server, entry.tool(ToolEntry::from(tool).categories(categories)));
        Ok(())
    }

    fn put(mut self, index: &ToolIndex) -> Result<HashMap<String, String>, Failure> {
        let servers =
            self.order.iter().filter_map(|id| self.servers.remove(id)).collect::<Vec<_>>();
        let put = index.put_all(servers)?;
        match put.refused.first() {
            Some(refused) => Err(refused.to_string().into()),
            None => Ok(self.ids),
        }
    }
}

fn lines(path: &str) -> Result<impl Iterator<Item = Result<Value, Failure>> + use<>, Failure> {
    let file = File::open(path).map_err(|error| format!("{path} cannot be read: {error}"))?;
    let lines = BufReader::new(file).lines();
    Ok(lines.map(|line| Ok(serde_json::from_str(&line?)?)))
}

fn text<'a>(line: &'a Value, member: &str) -> &'a str {
    line[member].as_str().unwrap_or_default()
}

fn at<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or_default()
}

/// Returns the resident memory of this process in kilobytes; `None` if the system has no `/proc`.
fn rss() -> Option<u64> {
    Some(mgp_testkit::process_memory(std::process::id(), "VmRSS")? >> 10)
}
