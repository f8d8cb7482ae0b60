//! Where a rank is, as it tells the others: what they find out from it is who can share memory with whom.

use super::keyvalue::{quote, unquote};
use castell_host::topology::Processors;
use std::fs;

/// Where a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whereabouts {
    /// Of castell.
    pub version: String,
    /// The running kernel's id. Containers have names of their own, but share it.
    pub boot: String,
    /// The host's name, for people.
    pub host: String,
    /// The namespace in which process numbers mean something.
    pub pid_namespace: String,
    /// The namespace in which names of abstract sockets mean something.
    pub net_namespace: String,
    /// Processors of the host that this process may use.
    pub processors: u32,
    /// What the program says of the host, if it does.
    pub number: Option<u64>,
}

impl Whereabouts {
    /// Where this process is.
    pub(super) fn of_this_process(number: Option<u64>) -> Whereabouts {
        let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned());
        let namespace = |path: &str| fs::read_link(path).unwrap_or_default().to_string_lossy().into_owned();
        Whereabouts {
            version: env!("CARGO_PKG_VERSION").into(),
            boot: read("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            host: read("/proc/sys/kernel/hostname").unwrap_or_default(),
            pid_namespace: namespace("/proc/self/ns/pid"),
            net_namespace: namespace("/proc/self/ns/net"),
            processors: Processors::usable().count() as u32,
            number,
        }
    }

    /// Whether memory can be handed from one to the other: through `/proc`, or through a socket. What nobody could read tells nothing.
    pub(super) fn can_share_memory(&self, other: &Whereabouts) -> bool {
        let is_same = |one: &str, other: &str| !one.is_empty() && one == other;
        is_same(&self.boot, &other.boot)
            && self.number == other.number
            && (is_same(&self.pid_namespace, &other.pid_namespace)
                || is_same(&self.net_namespace, &other.net_namespace))
    }

    /// As a value for a key-value space.
    pub(super) fn to_text(&self) -> String {
        let number = self.number.map_or(String::new(), |number| number.to_string());
        let processors = self.processors.to_string();
        let fields = [
            &self.version,
            &self.boot,
            &self.host,
            &self.pid_namespace,
            &self.net_namespace,
            &processors,
            &number,
        ];
        fields.map(|field| quote(field)).join(",")
    }

    /// Reads what [`Whereabouts::to_text`] wrote; `None`: it is something else.
    pub(super) fn from_text(text: &str) -> Option<Whereabouts> {
        let fields: Vec<String> = text.split(',').map(unquote).collect();
        let [version, boot, host, pid_namespace, net_namespace, processors, number] =
            <[String; 7]>::try_from(fields).ok()?;
        let number = if number.is_empty() { None } else { Some(number.parse().ok()?) };
        let processors = processors.parse().ok()?;
        Some(Whereabouts { version, boot, host, pid_namespace, net_namespace, processors, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_can_share_memory_is_found() {
        let here = Whereabouts::of_this_process(None);
        assert_eq!(Whereabouts::from_text(&here.to_text()).as_ref(), Some(&here));
        let numbered = Whereabouts { number: Some(u64::MAX), ..here.clone() };
        assert_eq!(Whereabouts::from_text(&numbered.to_text()).as_ref(), Some(&numbered));
        assert_eq!(Whereabouts::from_text("a,b,c"), None);
        let shares = |other: &Whereabouts| here.can_share_memory(other);
        assert!(shares(&here) && !shares(&numbered));
        assert!(shares(&Whereabouts { host: "a container".into(), ..here.clone() }));
        assert!(shares(&Whereabouts { pid_namespace: "another".into(), ..here.clone() }));
        assert!(shares(&Whereabouts { net_namespace: "another".into(), ..here.clone() }));
        let apart =
            Whereabouts { pid_namespace: "another".into(), net_namespace: "another".into(), ..here.clone() };
        assert!(!shares(&apart));
        assert!(
            !shares(&Whereabouts { boot: "another".into(), ..here.clone() }),
            "the same name is not enough"
        );
        let unknown = Whereabouts { boot: String::new(), ..here.clone() };
        assert!(!unknown.can_share_memory(&unknown));
    }
}
