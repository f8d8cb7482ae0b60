//! What an agent needs to know of a launch, as words.

use crate::launch::{Binding, Launch};
use castell_host::topology;
use castell_shm::job::{Net, Progress};
use std::time::Duration;

/// The words.
pub(super) fn to_words(launch: &Launch) -> Vec<Vec<u8>> {
    let binding = match &launch.binding {
        Binding::None => "none".into(),
        Binding::Core => "core".into(),
        Binding::List(list) => topology::print_list(list),
    };
    let mut words = vec![
        format!("net={}", launch.job.net),
        format!("progress={}", launch.job.progress.name()),
        format!("stall_ms={}", launch.job.stall_ms),
        format!("eager_bytes={}", launch.job.eager_bytes),
        format!("queue_slots={}", launch.job.queue_slots),
        format!("grace_ms={}", launch.grace.as_millis()),
        format!("prefix={}", launch.prefix),
        format!("verbose={}", launch.verbose),
        format!("bind={binding}"),
    ];
    words.extend(launch.isolation.map(|isolation| format!("isolate={isolation}")));
    words.into_iter().map(String::into_bytes).collect()
}

/// What carries messages, of those words.
pub(super) fn net_of(words: &[Vec<u8>]) -> Net {
    let mut of_net = words.iter().filter_map(|word| word.strip_prefix(b"net="));
    let named = of_net.next().and_then(|net| std::str::from_utf8(net).ok()?.parse().ok());
    named.unwrap_or_default()
}

/// Reads them into a launch; the words that are none.
///
/// # Errors
/// Which word says nothing.
pub(super) fn from_words(words: &[Vec<u8>], launch: &mut Launch) -> Result<(), String> {
    for word in words {
        let text = String::from_utf8_lossy(word).into_owned();
        set(launch, &text).ok_or(text)?;
    }
    Ok(())
}

fn set(launch: &mut Launch, word: &str) -> Option<()> {
    let (name, value) = word.split_once('=')?;
    match name {
        "net" => launch.job.net = value.parse::<Net>().ok()?,
        "progress" => launch.job.progress = value.parse::<Progress>().ok()?,
        "stall_ms" => launch.job.stall_ms = value.parse().ok()?,
        "queue_slots" => launch.job.queue_slots = value.parse().ok()?,
        "eager_bytes" => launch.job.eager_bytes = value.parse().ok()?,
        "grace_ms" => launch.grace = Duration::from_millis(value.parse().ok()?),
        "prefix" => launch.prefix = value.parse().ok()?,
        "verbose" => launch.verbose = value.parse().ok()?,
        "bind" => launch.binding = value.parse().ok()?,
        "isolate" => launch.isolation = Some(value.parse().ok()?),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_it_all() {
        let mut launch = Launch::new(3);
        launch.binding = Binding::List(vec![0, 2]);
        let esp = "esp=eth0".parse().expect("a network");
        (launch.prefix, launch.job.net, launch.job.stall_ms) = (true, esp, 7);
        launch.isolation = Some("2,user,pid,scatter".parse().expect("an isolation"));
        let mut other = Launch::new(3);
        from_words(&to_words(&launch), &mut other).expect("all are known");
        assert_eq!(format!("{launch:?}"), format!("{other:?}"));
        assert_eq!(net_of(&to_words(&launch)), esp);
        assert_eq!(from_words(&[b"colour=red".to_vec()], &mut other), Err("colour=red".into()));
    }
}
