//! Chunks of running calls. The sender numbers, paces and keeps them; the receiver puts them in order, and asks for a
//! pause if they arrive faster than they are read (MGP §12.4, §12.8, §12.9).

mod kept_bytes;
mod notification;
mod order;
mod pace;
mod receiver;
mod sender;
mod too_long;

pub(crate) use kept_bytes::KeptBytes;
pub(crate) use notification::ChunkNotification;
pub(crate) use order::ReceivedChunk;
pub(crate) use receiver::{ChunkReceiver, Delivered};
pub(crate) use sender::ChunkSender;
