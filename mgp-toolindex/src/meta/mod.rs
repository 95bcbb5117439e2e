//! The tools that the kernel lists to a model instead of all tools: the meta tools and, at some context levels, other
//! tools (MGP §16.3, §16.5).

mod call;
mod level;
mod summary;
#[cfg(test)]
mod tests;
mod tools;

pub use self::call::ForwardedCall;
pub(crate) use self::call::brief;
pub use self::level::{listed_tool, listed_tools, name_for};
pub use self::tools::{MetaTool, MetaTools};
