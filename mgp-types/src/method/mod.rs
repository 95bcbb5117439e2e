//! Methods as types, and the table of all methods (MGP §1.5).

mod info;
mod member;
#[cfg(feature = "schema")]
mod shape;
mod table;
mod tool;

pub use info::{Direction, Kind, MethodInfo, Notification, Request};
pub use member::{MEMBERS, MemberInfo};
#[cfg(feature = "schema")]
pub(crate) use shape::Shape;
#[cfg(feature = "schema")]
pub(crate) use table::shapes;
pub use table::*;
pub use tool::{
    AUDIT_REPLAY, CALL_MANY, KERNEL_TOOLS, KernelToolName, READ_MORE, TOOLS_CALL, find_kernel_tool,
    tool_spelling,
};
