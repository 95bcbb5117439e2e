//! The echo tool written with rmcp 3.8.0, the official Rust SDK; benchmarks and interoperability checks start it.
//!
//! - `rmcp-echo stdio|pipes [--tools N] [--rt current|multi]`
//! - `rmcp-echo http ADDR sse|json [--tools N] [--rt current|multi]`
use rmcp::{
    handler::server::{
        router::tool::{ToolRoute, ToolRouter},
        wrapper::Parameters,
    },
    model::{CallToolResult, ContentBlock, Tool},
    tool, tool_handler, tool_router,
    transport::streamable_http_server::{
        session::local::LocalSessionManager, StreamableHttpServerConfig, StreamableHttpService,
    },
    ServerHandler, ServiceExt,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize, JsonSchema)]
struct EchoArgs {
    /// text to echo
    message: String,
}

#[derive(Clone)]
struct Echo {
    tool_router: ToolRouter<Self>,
}

#[tool_router(router = tool_router)]
impl Echo {
    fn new(extra: usize) -> Self {
        let mut r = Self::tool_router();
        for i in 0..extra {
            let schema = serde_json::json!({"type":"object","properties":{
                "path":{"type":"string","description":"Absolute path of the file to operate on"},
                "mode":{"type":"string","enum":["read","write","append"],"description":"How to open the file"},
                "limit":{"type":"integer","minimum":0,"maximum":10000,"description":"Maximum number of lines"}
            },"required":["path"]});
            let t = Tool::new(format!("tool_{i:05}"), format!("Tool number {i}: performs an operation on a file and returns the result as text."),
                Arc::new(schema.as_object().unwrap().clone()));
            r.add_route(ToolRoute::new_dyn(t, |_ctx| {
                Box::pin(async {
                    Ok(CallToolResult::success(vec![ContentBlock::text("ok")]).into())
                })
            }));
        }
        Self { tool_router: r }
    }
    #[tool(description = "Echo the message back")]
    async fn echo(&self, Parameters(a): Parameters<EchoArgs>) -> String {
        a.message
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Echo {}

async fn run(args: Vec<String>) -> Result<(), Box<dyn std::error::Error>> {
    let extra = args
        .iter()
        .position(|a| a == "--tools")
        .map(|i| args[i + 1].parse().unwrap())
        .unwrap_or(0usize);
    let echo = Echo::new(extra);
    match args[1].as_str() {
        "stdio" => {
            echo.serve(rmcp::transport::stdio()).await?.waiting().await?;
        }
        "pipes" => {
            echo.serve(rmcp::transport::io::stdio_pipes()).await?.waiting().await?;
        }
        "http" => {
            let mut cfg = StreamableHttpServerConfig::default();
            match args[3].as_str() {
                "sse" => {}
                "json" => {
                    cfg.legacy_session_mode = false;
                    cfg.json_response = true;
                }
                m => panic!("mode {m}"),
            }
            let svc: StreamableHttpService<Echo, LocalSessionManager> =
                StreamableHttpService::new(move || Ok(echo.clone()), Default::default(), cfg);
            let app = axum::Router::new().nest_service("/mcp", svc);
            let l = tokio::net::TcpListener::bind(&args[2]).await?;
            use axum::serve::ListenerExt;
            axum::serve(
                l.tap_io(|s| {
                    let _ = s.set_nodelay(true);
                }),
                app,
            )
            .await?;
        }
        m => panic!("mode {m}"),
    }
    Ok(())
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let cur = args.windows(2).any(|w| w[0] == "--rt" && w[1] == "current");
    let rt = if cur {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    } else {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()
    }
    .unwrap();
    if let Err(e) = rt.block_on(run(args)) {
        eprintln!("rmcp-echo: {e}");
    }
}
