//! Things that are tools: one, or a block of them.

use super::Tool;

/// One or more tools, for [`Server::tool`](crate::Server::tool).
///
/// `#[tools]` implements it for the type of its impl block.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a `Tool`, and not a type with `#[tools]` on its impl block",
    note = "a function with `#[tool]` returns its tool when it is called: `.tool(weather())`",
    note = "a type whose impl block has `#[tools]` is a set of tools: `.tool(Weather::new())`"
)]
pub trait IntoTools {
    /// Converts the value to tools.
    fn into_tools(self) -> Vec<Tool>;
}

impl IntoTools for Tool {
    fn into_tools(self) -> Vec<Tool> {
        vec![self]
    }
}

impl<T: IntoTools> IntoTools for Vec<T> {
    fn into_tools(self) -> Vec<Tool> {
        self.into_iter().flat_map(IntoTools::into_tools).collect()
    }
}
