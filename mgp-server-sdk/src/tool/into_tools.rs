//! Things that are tools: one, or a block of them.
//!
//! Applies to: inbound.

use super::Tool;

/// One tool or several, for [`Server::tool`](crate::Server::tool).
///
/// `#[tools]` implements it for the type of the block it stands on.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tool",
    label = "not a `Tool`, and not a type with `#[tools]` on its impl block",
    note = "a function with `#[tool]` gives its tool when it is called: `.tool(weather())`",
    note = "a type whose impl block has `#[tools]` gives all its tools: `.tool(Weather::new())`"
)]
pub trait IntoTools {
    /// Turns it into tools.
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
