//! What libfabric's providers offer on this host, and lack.

use castell_fabric::{LibraryError, Offer, Reach};
use serde_json::{Value, json};

/// What one provider offers at several devices.
struct Provider {
    name: String,
    domains: Vec<String>,
    offers: Vec<&'static str>,
    notes: Vec<String>,
    lacks: Option<String>,
}

/// What there is.
pub(super) struct Fabrics {
    found: Result<((u32, u32), Vec<Provider>), LibraryError>,
}

impl Fabrics {
    /// Asks the library, if it is there.
    pub(super) fn look() -> Fabrics {
        let version = castell_fabric::library_version();
        let found = version.and_then(|version| Ok((version, castell_fabric::offers(Reach::ThisHost)?)));
        Fabrics { found: found.map(|(version, offers)| (version, providers(&offers))) }
    }

    pub(super) fn to_text(&self) -> String {
        let (version, providers) = match &self.found {
            Ok(found) => found,
            Err(error) => return format!("--net fabric: {error}\n"),
        };
        let mut lines =
            vec![format!("--net fabric: libfabric {}.{} offers here, its best first:", version.0, version.1)];
        for Provider { name, domains, offers, notes, lacks } in providers {
            let said = match lacks {
                Some(lacks) => format!("not used, {lacks}"),
                None => {
                    let notes = notes.iter().map(|note| format!("; {note}"));
                    format!("{}{}", offers.join(", "), notes.collect::<String>())
                }
            };
            lines.push(format!("  {name} at {}: {said}", domains.join(", ")));
        }
        if providers.is_empty() {
            lines.push("  nothing that castell can use".into());
        }
        lines.push(String::new());
        lines.join("\n")
    }

    pub(super) fn to_json(&self) -> Value {
        match &self.found {
            Err(error) => json!({ "error": error.to_string() }),
            Ok((version, providers)) => json!({
                "version": format!("{}.{}", version.0, version.1),
                "providers": providers.iter().map(|provider| json!({
                    "provider": provider.name, "devices": provider.domains, "offers": provider.offers,
                    "notes": provider.notes, "lacks": provider.lacks,
                })).collect::<Vec<_>>(),
            }),
        }
    }
}

/// Those that say the same of several devices are one.
fn providers(offers: &[Offer]) -> Vec<Provider> {
    let mut found: Vec<Provider> = Vec::new();
    for offer in offers {
        let is_there = |other: &Offer| {
            (&other.provider, &other.domain) == (&offer.provider, &offer.domain) && other.lacks.is_none()
        };
        // Some addresses of a device may be of no use: the others are told.
        if offer.lacks.is_some() && offers.iter().any(is_there) {
            continue;
        }
        let can = [
            (offer.messages, "messages"),
            (offer.tagged, "tagged messages"),
            (offer.remote_writes, "writes to other ranks' memory"),
        ];
        let can: Vec<&str> = can.into_iter().filter(|(can, _)| *can).map(|(_, what)| what).collect();
        let is_same = |other: &&mut Provider| {
            other.name == offer.provider
                && other.offers == can
                && other.notes == offer.notes
                && other.lacks == offer.lacks
        };
        match found.iter_mut().find(is_same) {
            Some(provider) if provider.domains.contains(&offer.domain) => {}
            Some(provider) => provider.domains.push(offer.domain.clone()),
            None => found.push(Provider {
                name: offer.provider.clone(),
                domains: vec![offer.domain.clone()],
                offers: can,
                notes: offer.notes.clone(),
                lacks: offer.lacks.clone(),
            }),
        }
    }
    found
}
