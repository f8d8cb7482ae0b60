//! Where a machine's power comes from, and whether somebody has capped it: `power_supply` and `powercap` of sysfs.

use std::fs;
use std::path::{Path, PathBuf};

/// What is known of a machine's power.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Supply {
    /// Its batteries together, if it has any.
    pub battery: Option<Battery>,
    /// What its processors may take, if anybody can say so.
    pub cap: Option<Cap>,
}

/// Batteries; those of mice and keyboards do not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Battery {
    /// How full they are, from 0 to 1.
    pub charge: f64,
    /// Whether the machine runs on them now.
    pub discharges: bool,
}

/// What all processor packages may take together over a long time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cap {
    /// Now, in watts.
    pub watts: f64,
    /// At most, in watts.
    pub most_watts: f64,
}

impl Supply {
    /// Reads below this folder, which is `/sys`. What cannot be read is not there.
    pub fn read(sys: &Path) -> Supply {
        Supply { battery: battery(&sys.join("class/power_supply")), cap: cap(&sys.join("class/powercap")) }
    }
}

impl Cap {
    /// Whether less is allowed than could be.
    pub fn is_low(&self) -> bool {
        // Firmware rounds.
        self.watts < 0.99 * self.most_watts
    }
}

fn battery(supplies: &Path) -> Option<Battery> {
    let (mut charges, mut discharges, mut mains) = (Vec::new(), false, false);
    for supply in folders(supplies) {
        let says = |name: &str| read(&supply, name);
        if says("scope").is_some_and(|scope| scope == "Device") {
            continue;
        }
        match says("type").as_deref() {
            Some("Battery" | "UPS") => {
                discharges |= says("status").is_some_and(|status| status == "Discharging");
                charges.extend(charge(&supply));
            }
            _ => mains |= says("online").is_some_and(|online| online == "1"),
        }
    }
    let (now, full) = charges.iter().fold((0.0, 0.0), |sum, charge| (sum.0 + charge.0, sum.1 + charge.1));
    // A battery may wear down while a weak charger is plugged in: that is no reason to hurry less.
    (full > 0.0)
        .then(|| Battery { charge: f64::clamp(now / full, 0.0, 1.0), discharges: discharges && !mains })
}

/// What is in a battery, and how much that could be, in the same unit.
fn charge(supply: &Path) -> Option<(f64, f64)> {
    let pairs = [("energy_now", "energy_full"), ("charge_now", "charge_full")];
    let known = pairs.into_iter().find_map(|(now, full)| Some((number(supply, now)?, number(supply, full)?)));
    known.filter(|(_, full)| *full > 0.0).or_else(|| Some((number(supply, "capacity")?, 100.0)))
}

fn cap(zones: &Path) -> Option<Cap> {
    let package = |zone: &PathBuf| read(zone, "name").is_some_and(|name| name.starts_with("package"));
    let limit = |zone: PathBuf| {
        let watts = |name: &str| Some(number(&zone, name)? / 1e6).filter(|watts| *watts > 0.0);
        let most = watts("constraint_0_max_power_uw")?;
        let is_on = number(&zone, "enabled") != Some(0.0);
        Some((if is_on { watts("constraint_0_power_limit_uw")?.min(most) } else { most }, most))
    };
    let limits: Vec<(f64, f64)> = folders(zones).into_iter().filter(package).filter_map(limit).collect();
    let sum = |part: fn(&(f64, f64)) -> f64| limits.iter().map(part).sum();
    (!limits.is_empty()).then(|| Cap { watts: sum(|limit| limit.0), most_watts: sum(|limit| limit.1) })
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn read(folder: &Path, name: &str) -> Option<String> {
    Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned())
}

fn number(folder: &Path, name: &str) -> Option<f64> {
    read(folder, name)?.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sys(tempfile::TempDir);

    impl Sys {
        fn new() -> Sys {
            Sys(tempfile::tempdir().expect("a folder"))
        }

        fn put(&self, folder: &str, files: &[(&str, &str)]) {
            let folder = self.0.path().join("class").join(folder);
            fs::create_dir_all(&folder).expect("a folder");
            for (name, says) in files {
                fs::write(folder.join(name), format!("{says}\n")).expect("a file");
            }
        }

        fn read(&self) -> Supply {
            Supply::read(self.0.path())
        }
    }

    #[test]
    fn without_batteries_and_caps_nothing_is_known() {
        let sys = Sys::new();
        assert_eq!(sys.read(), Supply::default());
        sys.put("power_supply/AC", &[("type", "Mains"), ("online", "1")]);
        sys.put("power_supply/mouse", &[("type", "Battery"), ("scope", "Device"), ("capacity", "5")]);
        sys.put("powercap/intel-rapl", &[("enabled", "1")]);
        assert_eq!(sys.read(), Supply::default());
    }

    #[test]
    fn batteries_count_together() {
        let sys = Sys::new();
        sys.put("power_supply/AC", &[("type", "Mains"), ("online", "0")]);
        let half = [("type", "Battery"), ("energy_now", "15000000"), ("energy_full", "30000000")];
        sys.put("power_supply/BAT0", &[&half[..], &[("status", "Discharging")]].concat());
        sys.put("power_supply/BAT1", &[&half[..], &[("status", "Not charging"), ("capacity", "7")]].concat());
        assert_eq!(sys.read().battery, Some(Battery { charge: 0.5, discharges: true }));
        sys.put("power_supply/BAT1", &[("energy_now", "30000000")]);
        sys.put("power_supply/AC", &[("online", "1")]);
        assert_eq!(sys.read().battery, Some(Battery { charge: 0.75, discharges: false }));
        // One that tells no more than that.
        let sys = Sys::new();
        sys.put("power_supply/ups", &[("type", "UPS"), ("status", "Discharging"), ("capacity", "20")]);
        assert_eq!(sys.read().battery, Some(Battery { charge: 0.2, discharges: true }));
        sys.put("power_supply/ups", &[("capacity", "much")]);
        assert_eq!(sys.read().battery, None);
    }

    #[test]
    fn caps_are_those_of_packages() {
        let sys = Sys::new();
        let zone = |name: &str, limit: &str| {
            let constraint =
                [("constraint_0_power_limit_uw", limit), ("constraint_0_max_power_uw", "125000000")];
            sys.put(
                &format!("powercap/{name}"),
                &[&constraint[..], &[("name", "package-0"), ("enabled", "1")]].concat(),
            );
        };
        zone("intel-rapl:0", "125000000");
        zone("intel-rapl:1", "125000000");
        let cap = sys.read().cap.expect("two packages");
        assert_eq!((cap, cap.is_low()), (Cap { watts: 250.0, most_watts: 250.0 }, false));
        zone("intel-rapl:1", "65000000");
        sys.put("powercap/intel-rapl:1:0", &[("name", "core"), ("constraint_0_max_power_uw", "1")]);
        let cap = sys.read().cap.expect("two packages");
        assert_eq!((cap, cap.is_low()), (Cap { watts: 190.0, most_watts: 250.0 }, true));
        sys.put("powercap/intel-rapl:1", &[("enabled", "0")]);
        assert!(!sys.read().cap.expect("two packages").is_low());
    }
}
