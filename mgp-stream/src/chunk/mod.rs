//! Chunks of running calls. The sender numbers, paces and keeps them; the receiver puts them in order, and asks for a
//! pause if they arrive faster than they are read (MGP §12.4, §12.8, §12.9).

mod budget;
mod notification;
mod pace;
mod receiver;
mod sender;
mod too_long;

pub(crate) use budget::KeptBytes;
pub(crate) use notification::ChunkNotification;
pub(crate) use receiver::{ChunkReceiver, Delivered, ReceivedChunk};
pub(crate) use sender::{ChunkSender, Recipient};
