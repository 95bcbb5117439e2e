//! Tool search, session cache and context budget for the Model General Protocol.
