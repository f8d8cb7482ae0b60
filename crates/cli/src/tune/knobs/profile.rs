//! Knobs that are known: their values, and how they are read and set.

use castell_knobs::Knob;
use std::str::FromStr;

/// One of them.
#[derive(Clone)]
pub enum Profile {
    /// For how long the kernel looks at a network device for a socket that waits: `net.core.busy_poll` and `busy_read`, in microseconds.
    BusyPoll,
    /// Interrupt coalescing of a network interface; the ranges are those of ESPGOAL's figure 6.1.
    Ethtool(String),
}

const COALESCING: [(&str, u32); 8] = [
    ("rx-usecs", 1023),
    ("rx-frames", 255),
    ("rx-usecs-irq", 1023),
    ("rx-frames-irq", 255),
    ("tx-usecs", 1023),
    ("tx-frames", 255),
    ("tx-usecs-irq", 1023),
    ("tx-frames-irq", 255),
];

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Profile, String> {
        // What goes into a command of a shell.
        let is_interface = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        };
        match text.split_once('=') {
            None if text == "busy-poll" => Ok(Profile::BusyPoll),
            Some(("ethtool", name)) if is_interface(name) && !name.starts_with('-') => {
                Ok(Profile::Ethtool(name.to_owned()))
            }
            _ => Err(format!("`{text}` is neither busy-poll nor ethtool=INTERFACE")),
        }
    }
}

impl Profile {
    pub fn knobs(&self) -> Vec<Knob> {
        let texts: Vec<String> = match self {
            Profile::BusyPoll => ["busy_poll", "busy_read"].map(|name| format!("{name}=0..200")).to_vec(),
            Profile::Ethtool(_) => COALESCING.map(|(name, most)| format!("{name}=1..{most}")).to_vec(),
        };
        texts.iter().map(|text| Knob::parse(text).expect("a knob")).collect()
    }

    /// Prints NAME=VALUE, one a line.
    pub fn get(&self) -> String {
        match self {
            Profile::BusyPoll => "cd /proc/sys/net/core && for name in busy_poll busy_read; do echo \"$name=$(cat $name)\"; done".to_owned(),
            Profile::Ethtool(interface) => format!(
                "ethtool -c {interface} | sed -n 's/^\\([rt]x-[a-z-]*\\): *\\([0-9][0-9]*\\)$/\\1=\\2/p'"
            ),
        }
    }

    pub fn set(&self) -> String {
        match self {
            Profile::BusyPoll => {
                "cd /proc/sys/net/core && echo \"$busy_poll\" > busy_poll && echo \"$busy_read\" > busy_read"
                    .to_owned()
            }
            Profile::Ethtool(interface) => {
                let words = COALESCING.map(|(name, _)| format!("{name} \"${}\"", name.replace('-', "_")));
                // It fails where nothing changes, and says so with this code.
                format!("ethtool -C {interface} {} || test $? -eq 80", words.join(" "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_interfaces_get_into_the_command() {
        for text in ["ethtool=eth0; reboot", "ethtool=", "ethtool=-h", "ethtool", "busy-poll=1", "x=y"] {
            assert!(text.parse::<Profile>().is_err(), "{text}");
        }
        let profile: Profile = "ethtool=enp3s0f1.100".parse().expect("an interface");
        assert!(
            profile.set().contains("ethtool -C enp3s0f1.100 rx-usecs \"$rx_usecs\""),
            "{}",
            profile.set()
        );
        assert_eq!(profile.knobs().len(), 8);
    }
}
