//! `#[tool]` and `#[tools]`: functions become tools by writing what one would write with the builder.
//!
//! Use them through `mgp-server-sdk`, which re-exports them; what they write names that crate only.
//!
//! Applies to: inbound.

mod argument;
mod describe;
mod duration;
mod function;
mod options;
mod path;
mod security;
mod tool;
mod tools;
mod words;

use proc_macro::TokenStream;

/// Turns a function into a tool: `weather` becomes a function without parameters that makes the `Tool`.
///
/// ```ignore
/// /// Tells the weather.
/// #[tool(read_only, timeout = "5s", security(risk = "safe", side_effects("network")))]
/// async fn weather(
///     /// The city to look at.
///     city: String,
///     #[arg(description = "How many days.", default = 3)] days: u8,
///     cx: Context,
/// ) -> Result<String, ToolError> {
///     Ok(format!("{days} sunny days in {city}"))
/// }
///
/// Server::new("weather", "1.0").tool(weather())
/// ```
///
/// It writes what follows, and checks of the types that leave nothing behind; to do without the macro, write it yourself.
///
/// ```ignore
/// fn weather() -> Tool {
///     #[derive(Deserialize, JsonSchema)]
///     struct Arguments {
///         /// The city to look at.
///         city: String,
///         /// How many days.
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
///     Tool::new("weather", "Tells the weather.", |Args(arguments): Args<Arguments>, cx: Context| {
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
/// `Cancelled`, `Context`, `Deadline`, `Grants`, `Logger`, `Outlet`, `Peer`, `Principal`, `SessionInfo`, `Trace`, or `Args<…>`, `State<…>`.
/// `#[extract]` on a parameter says that its type is an extractor of yours (it implements `FromCall`);
/// `#[arg]` says that it is an argument although its type has one of these names.
///
/// An argument needs `Deserialize + JsonSchema`; `Option<T>` makes it optional.
/// It may be borrowed as a whole: `&str` is read as a `String`, `&[T]` as a `Vec<T>`, `&T` as a `T`.
/// Its doc comment is its description, and it may have
/// - `#[arg(description = "…", default, default = EXPR, rename = "…")]`;
/// - `#[serde(…)]` and `#[schemars(…)]`, which go to the field of the arguments type.
///
/// A function that takes `Args<T>` has its arguments in `T` and no others.
///
/// # Where it runs
/// An `async fn` gets a task of its own, a plain `fn` a thread of the blocking pool.
/// `inline` keeps it on the connection's task (for microseconds), `blocking` sends an `async fn` to the pool.
///
/// # Options
/// | Option | What it does |
/// |---|---|
/// | `name = "…"` | the name; the function's without it |
/// | `title = "…"`, `description = "…"` | the name for people; the description, in place of the doc comment |
/// | `read_only`, `destructive`, `idempotent`, `open_world` | hints of MCP; `= false` denies one |
/// | `inline`, `blocking` | where it runs |
/// | `timeout = "5s"` | its own bound: `ms`, `s`, `m`, `h` |
/// | `task = "optional"` | whether it may run as a task: `forbidden`, `optional`, `required` |
/// | `json` | the result is data: `Json` is put around it |
/// | `output = Type` | the schema of its structured content |
/// | `deny_unknown_fields` | arguments it does not have are refused |
/// | `security(…)` | what it does to the world (MGP §4), see below |
///
/// `security(risk = "safe|moderate|dangerous", permissions("shell.execute", …), side_effects("process", …),
/// validator = "sandbox", code_safety(level = "strict", language = "python", max_code_size_bytes = 10_000,
/// blocked_imports("os", …), blocked_patterns("…", …), allowed_imports("math", …)), confirmation, reversible)`:
/// only `risk` is required, and words are checked when the macro runs.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(options.into(), item.into()).into()
}

/// Turns the functions of an impl block that have `#[tool]` into tools of the type.
///
/// The block stays as it is, and the type implements `IntoTools`, so that `Server::tool` takes a value of it.
///
/// ```ignore
/// struct Weather { home: String }
///
/// #[tools]
/// impl Weather {
///     /// Tells the weather at home.
///     #[tool(read_only)]
///     async fn home(&self) -> String {
///         format!("sun in {}", self.home)
///     }
/// }
///
/// Server::new("weather", "1.0").tool(Weather { home: "Kyoto".into() })
/// ```
///
/// It writes, besides the block:
///
/// ```ignore
/// impl IntoTools for Weather {
///     fn into_tools(self) -> Vec<Tool> {
///         let this = Arc::new(self);
///         vec![{
///             let this = Arc::clone(&this);
///             Tool::new("home", "Tells the weather at home.", move || {
///                 let this = Arc::clone(&this);
///                 async move { Self::home(&this).await }
///             })
///             .annotations(hints)
///         }]
///     }
/// }
/// ```
///
/// A tool takes `&self`, `self: Arc<Self>`, or no `self` at all; everything else is as with `#[tool]` on a function.
/// `#[tools(prefix = "weather_")]` puts something before each name.
#[proc_macro_attribute]
pub fn tools(options: TokenStream, item: TokenStream) -> TokenStream {
    tools::expand(options.into(), item.into()).into()
}
