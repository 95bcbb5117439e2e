//! Permissions, tool security, access and audit for the Model General Protocol, as tower layers.
