//! What a heading is called in links: by mdBook as on the pages of the repository.

/// The anchor of a heading's text.
pub fn slug(heading: &str) -> String {
    let text = heading.trim();
    let kept = text.chars().filter_map(|c| match c {
        c if c.is_whitespace() => Some('-'),
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}
