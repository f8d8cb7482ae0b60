//! capi: see ARCHITECTURE.md.
