//! The attributes `#[tool]` and `#[tools]`, which convert functions to tools: they generate calls of the builder.
//!
//! Use them through `mgp-server-sdk`, which re-exports them; the generated code refers to that crate only.

mod argument;
mod describe;
mod function;
mod options;
mod path;
mod security;
mod tool;
mod tools;
mod variants;

use proc_macro::TokenStream;

/// Converts a function to a tool: `weather` becomes a function without parameters that returns the `Tool`.
///
/// ```ignore
/// /// Returns the weather.
/// #[tool(read_only, timeout = "5s", security(risk = "safe", side_effects("network")))]
/// async fn weather(
///     /// The city of the forecast.
///     city: String,
///     #[arg(description = "The number of days.", default = 3)] days: u8,
///     cx: Context,
/// ) -> Result<String, ToolError> {
///     Ok(format!("{days} sunny days in {city}"))
/// }
///
/// Server::new("weather", "1.0").tool(weather())
/// ```
///
/// The macro expands to the code below. It also generates checks of the types, which cost nothing at run time.
///
/// ```ignore
/// fn weather() -> Tool {
///     #[derive(Deserialize, JsonSchema)]
///     struct Arguments {
///         /// The city of the forecast.
///         city: String,
///         /// The number of days.
///         #[serde(default = "default_days")]
///         days: u8,
///     }
///     fn default_days() -> u8 {
///         3
///     }
///     async fn weather(city: String, days: u8, cx: Context) -> Result<String, ToolError> {
///         Ok(format!("{days} sunny days in {city}"))
///     }
///     let mut hints = ToolAnnotations::new();
///     hints.read_only_hint = Some(true);
///     Tool::new("weather", "Returns the weather.", |Args(arguments): Args<Arguments>, cx: Context| {
///         weather(arguments.city, arguments.days, cx)
///     })
///     .annotations(hints)
///     .timeout(Duration::from_secs(5))
///     .risk(RiskLevel::Safe)
///     .side_effects([SideEffect::Network])
/// }
/// ```
///
/// # Parameters
/// A parameter is an **argument** of the tool unless its type is an **extractor**. Extractors are the types whose path
/// ends with one of `CallerState`, `Cancelled`, `Context`, `Deadline`, `Grants`, `Logger`, `Outlet`, `Peer`,
/// `Principal`, `RequestMeta`, `ResultStream`, `SessionInfo`, `Trace`, and the types `Args<…>`, `FromCaller<…>`,
/// `Resume<…>` and `State<…>`. `#[extract]` marks a parameter with any other type that implements `FromCall`, e.g. an
/// extractor of your own; `#[arg]` marks an argument whose type has one of these names.
///
/// The type of an argument needs `Deserialize + JsonSchema`; `Option<T>` makes the argument optional. An argument may
/// be borrowed as a whole: `&str` is deserialized as a `String`, `&[T]` as a `Vec<T>`, `&Path` as a `PathBuf`, `&T` as
/// a `T`. The doc comment of an argument is its description. An argument may have
/// - `#[arg(description = "…", default, default = EXPR, rename = "…")]`;
/// - `#[serde(…)]` and `#[schemars(…)]`, which move to the field of the arguments type, e.g.
///   `#[schemars(description = zones())]` for a description that is known only at run time.
///
/// If a function has a parameter `Args<T>`, the fields of `T` are the arguments of the tool, and no other parameter can
/// be an argument.
///
/// # Execution
/// An `async fn` runs on its own task, a plain `fn` on a thread of the blocking pool. `inline` runs the function on the
/// connection's task (for functions that take microseconds), `blocking` runs an `async fn` on the blocking pool.
///
/// # Options
/// | Option | Meaning |
/// |---|---|
/// | `name = "…"` | the name of the tool; by default the name of the function |
/// | `title = "…"`, `description = "…"` | the display name; the description, in place of the doc comment |
/// | `read_only`, `destructive`, `idempotent`, `open_world` | hints for MCP clients; `= false` negates a hint |
/// | `inline`, `blocking` | the task or thread on which the function runs |
/// | `timeout = "5s"` | the time limit of a call, in `ms`, `s`, `m` or `h` |
/// | `task = "optional"` | task support: `forbidden`, `optional`, `required` |
/// | `json` | the result is data, and is wrapped in `Json` |
/// | `output = Type` | the schema of the structured content |
/// | `deny_unknown_fields` | unknown arguments are refused |
/// | `security(…)` | risk, permissions and side effects (MGP §4), see below |
///
/// `security(risk = "safe|moderate|dangerous", permissions("shell.execute", …), side_effects("process", …),
/// validator = "sandbox", code_safety(level = "strict", language = "python", max_code_size_bytes = 10_000,
/// blocked_imports("os", …), blocked_patterns("…", …), allowed_imports("math", …)), confirmation, reversible)`:
/// only `risk` is required; unknown values are compile errors.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(options.into(), item.into()).into()
}

/// Converts the functions with `#[tool]` in an impl block to tools of the type.
///
/// The functions stay unchanged. The type implements `IntoTools`, so that a value of it, or an `Arc` of a value that
/// other parts of the program use too, can be passed to `Server::tool`.
///
/// ```ignore
/// struct Weather { home: String }
///
/// #[tools]
/// impl Weather {
///     /// Returns the weather at home.
///     #[tool(read_only)]
///     async fn home(&self) -> String {
///         format!("sun in {}", self.home)
///     }
/// }
///
/// Server::new("weather", "1.0").tool(Weather { home: "Kyoto".into() })
/// ```
///
/// In addition to the block, the macro expands to:
///
/// ```ignore
/// impl IntoTools for Weather {
///     fn into_tools(self) -> Vec<Tool> {
///         Arc::new(self).shared_tools()
///     }
/// }
///
/// impl SharedTools for Weather {
///     fn shared_tools(self: Arc<Self>) -> Vec<Tool> {
///         let this = self;
///         vec![{
///             let this = Arc::clone(&this);
///             Tool::new("home", "Returns the weather at home.", move || {
///                 let this = Arc::clone(&this);
///                 async move { Self::home(&this).await }
///             })
///             .annotations(hints)
///         }]
///     }
/// }
/// ```
///
/// A tool function takes `&self`, `self: Arc<Self>`, or no `self`; apart from that, it is written like a function with
/// `#[tool]`. `#[tools(prefix = "weather_")]` adds a prefix to each name.
///
/// A type has one such block. For each further block, e.g. in another module, `#[tools(list = forecasts)]` names a
/// method that returns the tools of the block:
///
/// ```ignore
/// #[tools(list = forecasts)]
/// impl Weather {
///     /// Returns the weather of tomorrow.
///     #[tool(read_only)]
///     async fn tomorrow(&self) -> String {
///         format!("rain in {}", self.home)
///     }
/// }
///
/// let weather = Arc::new(Weather { home: "Kyoto".into() });
/// Server::new("weather", "1.0").tool(Arc::clone(&weather).forecasts()).tool(weather)
/// ```
#[proc_macro_attribute]
pub fn tools(options: TokenStream, item: TokenStream) -> TokenStream {
    tools::expand(options.into(), item.into()).into()
}
