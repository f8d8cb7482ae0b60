//! Which events give the bytes on each link, for each microarchitecture: `crates/prof/events`.

use super::Processor;
use castell_host::perf::Event;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Events that are counted at the same times.
pub const GROUP_EVENTS_MAX: usize = 5;

/// A table of events.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The microarchitecture.
    pub name: String,
    vendor: String,
    models: Vec<[u32; 3]>,
    /// The document that the numbers come from.
    pub source: String,
    /// Where the table was compared with a real processor, or that it was not.
    pub checked: String,
    /// What the events leave out.
    pub note: String,
    /// Bytes of a line.
    pub line_bytes: f64,
    /// Bytes that a load is taken to have.
    pub load_bytes: f64,
    /// Names of events, counted together.
    pub groups: Vec<Vec<String>>,
    events: BTreeMap<String, [u64; 2]>,
    /// The events of each link.
    pub links: Links,
}

/// Names of events whose sum flows on a link.
#[derive(Clone, Debug, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// From memory into the last-level cache.
    pub memory_llc: Vec<String>,
    /// From the last-level cache into L2.
    pub llc_l2: Vec<String>,
    /// From L2 into L1.
    pub l2_l1: Vec<String>,
    /// From L1 into the core.
    pub l1_core: Vec<String>,
}

const FILES: [&str; 9] = [
    include_str!("../../events/amd-zen2.toml"),
    include_str!("../../events/amd-zen3.toml"),
    include_str!("../../events/amd-zen4.toml"),
    include_str!("../../events/amd-zen5.toml"),
    include_str!("../../events/intel-skylake.toml"),
    include_str!("../../events/intel-skylake-server.toml"),
    include_str!("../../events/intel-icelake.toml"),
    include_str!("../../events/intel-icelake-server.toml"),
    include_str!("../../events/intel-sapphire-rapids.toml"),
];

impl Table {
    /// All tables.
    pub fn all() -> Vec<Table> {
        FILES.map(|text| toml::from_str(text).expect("a test reads them all")).into()
    }

    /// The table of a processor, if there is one.
    pub fn of(processor: &Processor) -> Option<Table> {
        let fits = |models: &[u32; 3]| {
            models[0] == processor.family && (models[1]..=models[2]).contains(&processor.model)
        };
        Table::all()
            .into_iter()
            .find(|table| table.vendor == processor.vendor && table.models.iter().any(fits))
    }

    /// The kernel's own events for caches: what they count differs between processors.
    pub fn generic() -> Table {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Table {
            name: "the kernel's generic events".to_owned(),
            vendor: String::new(),
            models: Vec::new(),
            source: "perf_event_open(2)".to_owned(),
            checked: "on no processor".to_owned(),
            note: "the kernel's generic cache events mean different things on different processors: no table knows this one"
                .to_owned(),
            line_bytes: 64.0,
            load_bytes: 8.0,
            groups: vec![
                names(&["cycles", "instructions", "L1-dcache-load-misses", "cache-references", "cache-misses"]),
                names(&["L1-dcache-loads"]),
            ],
            events: BTreeMap::new(),
            links: Links {
                memory_llc: names(&["cache-misses"]),
                llc_l2: names(&["cache-references"]),
                l2_l1: names(&["L1-dcache-load-misses"]),
                l1_core: names(&["L1-dcache-loads"]),
            },
        }
    }

    /// An event by its name.
    pub fn event(&self, name: &str) -> Option<Event> {
        Some(match name {
            "cycles" => Event::generic(0),
            "instructions" => Event::generic(1),
            "cache-references" => Event::generic(2),
            "cache-misses" => Event::generic(3),
            "L1-dcache-loads" => Event::cache(0, 0, 0),
            "L1-dcache-load-misses" => Event::cache(0, 0, 1),
            _ => {
                let [code, mask] = self.events.get(name)?;
                Event::raw(*code, *mask)
            }
        })
    }
}

/// What the kernel counts itself, on every machine.
pub const SOFTWARE: [(&str, Event); 4] = [
    ("task-clock", Event::software(1)),
    ("page-faults", Event::software(2)),
    ("context-switches", Event::software(3)),
    ("cpu-migrations", Event::software(4)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_whole() {
        for table in Table::all().into_iter().chain([Table::generic()]) {
            let grouped: Vec<&String> = table.groups.iter().flatten().collect();
            assert!(table.groups.iter().all(|group| group.len() <= GROUP_EVENTS_MAX), "{}", table.name);
            let links =
                [&table.links.memory_llc, &table.links.llc_l2, &table.links.l2_l1, &table.links.l1_core];
            for name in links.into_iter().flatten() {
                assert!(grouped.contains(&name), "{}: {name} is in no group", table.name);
            }
            for name in &grouped {
                assert!(table.event(name).is_some(), "{}: {name} is no event", table.name);
                assert_eq!(
                    grouped.iter().filter(|other| other == &name).count(),
                    1,
                    "{}: {name} twice",
                    table.name
                );
            }
            assert!(
                table.events.keys().all(|name| grouped.contains(&name)),
                "{}: an event for nothing",
                table.name
            );
            assert!(
                ["cycles", "instructions"].iter().all(|name| table.groups[0].iter().any(|own| own == name))
            );
            assert!(table.source.len() > 10 && table.line_bytes == 64.0);
        }
    }

    #[test]
    fn processors_find_their_tables() {
        let of = |vendor: &str, family, model| {
            let processor = Processor { vendor: vendor.to_owned(), family, model, ..Processor::default() };
            Table::of(&processor).map(|table| table.name)
        };
        let known = [
            ("AuthenticAMD", 23, 49, "AMD Zen 2"),
            ("AuthenticAMD", 25, 1, "AMD Zen 3"),
            ("AuthenticAMD", 25, 17, "AMD Zen 4"),
            ("AuthenticAMD", 26, 2, "AMD Zen 5"),
            ("GenuineIntel", 6, 94, "Intel Skylake to Comet Lake"),
            ("GenuineIntel", 6, 85, "Intel Skylake and Cascade Lake, server"),
            ("GenuineIntel", 6, 106, "Intel Ice Lake, server"),
            ("GenuineIntel", 6, 143, "Intel Sapphire Rapids and Emerald Rapids"),
        ];
        for (vendor, family, model, name) in known {
            assert_eq!(of(vendor, family, model).as_deref(), Some(name));
        }
        assert_eq!(of("AuthenticAMD", 23, 1), None, "Zen 1 has other events");
        assert_eq!(of("HygonGenuine", 24, 0), None);
        // No model is claimed twice.
        let tables = Table::all();
        for (vendor, family) in
            [("AuthenticAMD", 23), ("AuthenticAMD", 25), ("AuthenticAMD", 26), ("GenuineIntel", 6)]
        {
            for model in 0..=255 {
                let fits =
                    |models: &[u32; 3]| models[0] == family && (models[1]..=models[2]).contains(&model);
                let claims =
                    tables.iter().filter(|table| table.vendor == vendor && table.models.iter().any(fits));
                assert!(claims.count() <= 1, "{vendor} {family} {model}");
            }
        }
    }
}
