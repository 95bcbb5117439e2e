//! Every method as a type, and one table of all of them (MGP §1.5).
//!
//! Applies to: both.

mod info;
mod member;
mod table;
mod tool;

pub use info::{Direction, Kind, MethodInfo, Notification, Request};
pub use member::{MEMBERS, MemberInfo};
pub use table::*;
pub use tool::{KERNEL_TOOLS, KernelTool, method_of_tool, tool_spelling};
