//! `#[tool]` and `#[tools]`: attributes that turn functions into tools by generating calls of the builder.
//!
//! Use them through `mgp-server-sdk`, which re-exports them; their expansions name that crate only.

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

/// Turns a function into a tool: `weather` becomes a function without parameters that returns the `Tool`.
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
/// The macro expands to the code below, and to checks of the types that cost nothing at run time.
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
/// A parameter is an **argument** of the tool unless its type is an **extractor**: a type whose last name is one of
/// `Cancelled`, `Context`, `Deadline`, `Grants`, `Logger`, `Outlet`, `Peer`, `Principal`, `SessionInfo`, `Trace`, or
/// `Args<…>`, `State<…>`.
/// `#[extract]` marks a parameter whose type is an extractor of yours (it implements `FromCall`);
/// `#[arg]` marks an argument whose type has one of these names.
///
/// An argument needs `Deserialize + JsonSchema`; `Option<T>` makes it optional.
/// An argument may be borrowed as a whole: `&str` is deserialized as a `String`, `&[T]` as a `Vec<T>`, `&T` as a `T`.
/// The doc comment of an argument is its description. An argument may have
/// - `#[arg(description = "…", default, default = EXPR, rename = "…")]`;
/// - `#[serde(…)]` and `#[schemars(…)]`, which move to the field of the arguments type.
///
/// A function with a parameter `Args<T>` has its arguments in `T` and no others.
///
/// # Execution
/// An `async fn` runs on a task of its own, a plain `fn` on a thread of the blocking pool.
/// `inline` runs it on the connection's task (for functions of microseconds), `blocking` runs an `async fn` on the
/// pool.
///
/// # Options
/// | Option | Meaning |
/// |---|---|
/// | `name = "…"` | the name; by default the function's |
/// | `title = "…"`, `description = "…"` | the display name; the description, in place of the doc comment |
/// | `read_only`, `destructive`, `idempotent`, `open_world` | hints for MCP clients; `= false` negates one |
/// | `inline`, `blocking` | where the function runs |
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

/// Turns the functions with `#[tool]` in an impl block into tools of the type.
///
/// The block stays unchanged, and the type implements `IntoTools`, so that `Server::tool` takes a value of it.
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
/// The expansion, besides the block:
///
/// ```ignore
/// impl IntoTools for Weather {
///     fn into_tools(self) -> Vec<Tool> {
///         let this = Arc::new(self);
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
/// A tool takes `&self`, `self: Arc<Self>`, or no `self`; otherwise it is written as a function with `#[tool]`.
/// `#[tools(prefix = "weather_")]` adds a prefix to each name.
#[proc_macro_attribute]
pub fn tools(options: TokenStream, item: TokenStream) -> TokenStream {
    tools::expand(options.into(), item.into()).into()
}
