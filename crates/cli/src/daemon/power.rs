//! The governor's level by where the machine's power comes from, and the charge of its battery as a sensor.

use super::Args;
use anyhow::{Context as _, bail};
use castell_daemon::ask;
use castell_host::power::Supply;
use castell_host::say;
use castell_kernels::protocol::{FromDaemon, ToDaemon};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The sensor whose value the machine says itself, where none is given.
const BATTERY: &str = "battery";
/// How often the machine is asked.
const EVERY: Duration = Duration::from_secs(2);
/// A sensor that says less of a change is not told.
const STEP: f64 = 0.005;

/// What follows the machine's power.
pub struct Follower {
    on_battery: Option<String>,
    capped: Option<String>,
    /// What the sensor was last told, if it is to follow.
    charge: Option<f64>,
    sys: PathBuf,
}

impl Follower {
    /// What these arguments have follow; none where that is nothing.
    ///
    /// # Errors
    /// A sensor is to follow a battery that is not there.
    pub fn of(args: &Args) -> anyhow::Result<Option<Follower>> {
        let Args { on_battery, capped, sys, .. } = args;
        let supply = Supply::read(sys);
        let charge = match args.sensor.iter().any(|text| text == BATTERY) {
            true => Some(charge(&supply)?),
            false => None,
        };
        if on_battery.is_some() && supply.battery.is_none() {
            say("this machine has no battery: --on-battery changes nothing");
        }
        if capped.is_some() && supply.cap.is_none() {
            say("nobody says here what the processors may take (powercap): --capped changes nothing");
        }
        let follower = Follower {
            on_battery: on_battery.clone().filter(|_| supply.battery.is_some()),
            capped: capped.clone().filter(|_| supply.cap.is_some()),
            charge,
            sys: sys.clone(),
        };
        Ok(follower.has_work().then_some(follower))
    }

    fn has_work(&self) -> bool {
        self.on_battery.is_some() || self.capped.is_some() || self.charge.is_some()
    }

    /// Follows it from now on, and tells the daemon at this socket, as somebody would who looks after it.
    pub fn start(mut self, socket: &Path) {
        let socket = socket.to_owned();
        thread::spawn(move || {
            let mut level = Level::default();
            loop {
                // A daemon that does not answer has other sorrows, and is asked again.
                let _ = self.look(&mut level, &socket);
                thread::sleep(EVERY);
            }
        });
    }

    fn look(&mut self, level: &mut Level, socket: &Path) -> anyhow::Result<()> {
        let supply = Supply::read(&self.sys);
        if let (Some(told), Some(battery)) = (self.charge, supply.battery)
            && (battery.charge - told).abs() >= STEP
        {
            ask(socket, &ToDaemon::Sensor { name: BATTERY.into(), value: battery.charge })?;
            self.charge = Some(battery.charge);
        }
        let wanted = self.wanted(&supply);
        if level.imposed.as_deref() == wanted {
            return Ok(());
        }
        let FromDaemon::Status(status) = ask(socket, &ToDaemon::Status {})? else {
            bail!("the daemon gave another answer");
        };
        let mut next = level.clone();
        if let Some(set) = next.follow(wanted, &status.governor) {
            say(&format!("{}: governor {set}", why(&supply)));
            ask(socket, &ToDaemon::Governor { level: set })?;
        }
        *level = next;
        Ok(())
    }

    /// What the machine's power imposes.
    fn wanted(&self, supply: &Supply) -> Option<&str> {
        let discharges = supply.battery.is_some_and(|battery| battery.discharges);
        let is_capped = supply.cap.is_some_and(|cap| cap.is_low());
        let on_battery = self.on_battery.as_deref().filter(|_| discharges);
        on_battery.or(self.capped.as_deref().filter(|_| is_capped))
    }
}

/// How full the batteries are.
///
/// # Errors
/// There are none.
fn charge(supply: &Supply) -> anyhow::Result<f64> {
    let battery =
        supply.battery.context("this machine has no battery: say what it says, as in battery=0.9")?;
    Ok(battery.charge)
}

/// What a sensor says at the beginning that is named without a value.
///
/// # Errors
/// The machine says nothing of that name.
pub fn measured(name: &str, sys: &Path) -> anyhow::Result<f64> {
    match name {
        BATTERY => charge(&Supply::read(sys)),
        _ => bail!("write NAME=NUMBER, as in battery=0.9"),
    }
}

fn why(supply: &Supply) -> String {
    match (supply.battery, supply.cap) {
        (Some(battery), _) if battery.discharges => format!("on battery ({:.0} %)", 100.0 * battery.charge),
        (_, Some(cap)) if cap.is_low() => format!("capped at {:.0} of {:.0} W", cap.watts, cap.most_watts),
        _ => "on mains, and not capped".to_owned(),
    }
}

/// What was imposed, and what had been said before: whoever sets another level meanwhile has the last word.
#[derive(Clone, Debug, Default)]
struct Level {
    imposed: Option<String>,
    before: String,
}

impl Level {
    /// Another level is imposed, or none any more, where it is `now`: the level to set, if it changes.
    fn follow(&mut self, wanted: Option<&str>, now: &str) -> Option<String> {
        let set = match (self.imposed.as_deref(), wanted) {
            (None, Some(wanted)) => {
                self.before = now.to_owned();
                Some(wanted)
            }
            (Some(imposed), wanted) if imposed == now => Some(wanted.unwrap_or(&self.before)),
            _ => None,
        };
        let set = set.filter(|level| *level != now).map(str::to_owned);
        self.imposed = wanted.map(str::to_owned);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn the_level_comes_back_unless_somebody_has_set_another() {
        let mut level = Level::default();
        assert_eq!(level.follow(Some("low"), "high").as_deref(), Some("low"));
        assert_eq!(level.follow(Some("lower"), "low").as_deref(), Some("lower"));
        assert_eq!(level.follow(None, "lower").as_deref(), Some("high"));
        assert_eq!(level.follow(Some("low"), "high").as_deref(), Some("low"));
        assert_eq!(level.follow(None, "middle"), None, "somebody has said so");
        assert_eq!(level.follow(Some("low"), "low"), None);
        assert_eq!(level.follow(None, "low"), None, "it was so before");
    }
}
