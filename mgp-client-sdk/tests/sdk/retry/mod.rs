//! Tests of calls that are retried, through real gates and real servers (MGP §14.6).

mod contract;
mod hostile;
mod rounds;
mod traffic;
mod world;
