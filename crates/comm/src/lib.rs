//! comm: see ARCHITECTURE.md.
