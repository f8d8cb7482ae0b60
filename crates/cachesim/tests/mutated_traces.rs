//! Traces of accesses, changed a little at random: what has to hold for any bytes holds for these.

#[path = "../../../fuzz/src/access_trace.rs"]
mod properties;

use castell_cachesim::trace::{Event, TraceWriter};
use proptest::prelude::*;

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0u64..64).prop_map(Event::Block),
        1 => (0u64..1 << 60).prop_map(Event::Block),
        1 => (0u64..1 << 60).prop_map(Event::Thread),
        1 => (0u64..1 << 60).prop_map(Event::Repeats),
        1 => any::<u32>().prop_map(Event::Process),
    ];
    prop::collection::vec(event, 0..200)
}

proptest! {
    #[test]
    fn any_trace_is_refused_or_read(
        events in events(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = Vec::new();
        let mut writer = TraceWriter::new(&mut bytes, 6).expect("memory can be written");
        events.iter().try_for_each(|event| writer.write(*event)).expect("memory can be written");
        writer.finish().expect("memory can be written");
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        properties::any_bytes(&bytes);
    }
}
