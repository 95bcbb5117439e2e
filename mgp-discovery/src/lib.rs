//! Configuration, registry and registration of Model General Protocol servers.
