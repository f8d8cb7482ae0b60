//! trace: see ARCHITECTURE.md.
