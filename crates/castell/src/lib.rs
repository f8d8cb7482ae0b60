//! castell: see ARCHITECTURE.md.
