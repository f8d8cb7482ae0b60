//! What is simulated: the options that commands about strategies share.

use anyhow::{Context as _, bail};
use castell_base::Time;
use castell_daemon::recording::{Day, day};
use castell_host::say;
use castell_strategy::applications::{Applications, Arrivals, INSTANCES_MAX};
use castell_strategy::simulate::{Change, Machine, Scenario};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Applications, machine, governor, sensors.
#[derive(clap::Args, Clone, Debug)]
pub struct ScenarioArgs {
    /// Table of applications: what each takes where (CSV: application, instances, RESOURCE_s, ...)
    #[arg(long, value_name = "FILE", required_unless_present = "recorded")]
    apps: Option<String>,
    /// What a daemon has recorded (castell daemon --record): who registered what and when, as long as it took then, with the governor
    /// and the sensors of that day
    #[arg(long, value_name = "FILE", conflicts_with_all = ["apps", "instances", "governor", "forbid", "sensor"])]
    recorded: Option<PathBuf>,
    /// Other numbers of instances than the table's, as in lama_cg=24; 0 leaves an application out
    #[arg(long, value_name = "APPLICATION=N", value_parser = instances)]
    instances: Vec<(String, u32)>,
    /// The governor's level, and what it becomes when: high, low or any word, as in high,low@60 (seconds)
    #[arg(long, value_name = "LEVEL[,LEVEL@S]", default_value = "high")]
    governor: String,
    /// Resources that a level of the governor forbids, as in low:gpu
    #[arg(long, value_name = "LEVEL:RESOURCE,..")]
    forbid: Vec<String>,
    /// What a sensor says, and when, as in battery=0.9,0.2@60 (seconds)
    #[arg(long, value_name = "NAME=VALUE[,VALUE@S]")]
    sensor: Vec<String>,
    /// Watts of a resource while something runs there and while nothing does, as in gpu=9.5,1; energy is counted if all have some
    #[arg(long, value_name = "RESOURCE=W[,W]")]
    power: Vec<String>,
    /// Processor cores that resources share: what asks for more together is slowed down evenly. Needs --uses
    #[arg(long, value_name = "N", requires = "uses", value_parser = clap::value_parser!(u32).range(1..=65536))]
    cores: Option<u32>,
    /// How many of the shared cores a resource keeps busy, as in all_cores=4
    #[arg(long, value_name = "RESOURCE=N", requires = "cores", value_parser = instances)]
    uses: Vec<(String, u32)>,
}

impl ScenarioArgs {
    /// Reads the table, or the recording, and all that belongs to it.
    pub fn scenario(&self) -> anyhow::Result<Scenario> {
        match (&self.recorded, &self.apps) {
            (Some(path), _) => self.recorded(path),
            (None, Some(path)) => self.table(path),
            (None, None) => bail!("what is to be simulated? --apps names a table, --recorded a recording"),
        }
    }

    fn recorded(&self, path: &Path) -> anyhow::Result<Scenario> {
        let file =
            File::open(path).with_context(|| format!("cannot read the recording {}", path.display()))?;
        let day = day(BufReader::new(file)).with_context(|| path.display().to_string())?;
        let Day { mut scenario, replay, done, withdrawn, unknown } = day;
        say(&format!(
            "recorded: {done} collections done within {}; left out: {withdrawn} whose application had gone, {unknown} kernels whose \
             time nobody knows",
            replay.until
        ));
        if scenario.applications.is_empty() {
            bail!("{}: nothing was registered there that could be simulated", path.display());
        }
        self.furnish(&mut scenario.machine)?;
        Ok(scenario)
    }

    fn table(&self, path: &str) -> anyhow::Result<Scenario> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the table of applications `{path}`"))?;
        let mut applications =
            Applications::read(&text).map_err(|error| anyhow::anyhow!("{path}: {error}"))?;
        let mut machine = Machine::of(&applications);
        for (name, count) in &self.instances {
            let all = &mut applications.all;
            let names =
                || all.iter().map(|application| application.name.to_string()).collect::<Vec<_>>().join(", ");
            let Some(at) = all.iter().position(|application| *application.name == **name) else {
                bail!("--instances: there is no application `{name}` in {path}; there are {}", names());
            };
            if let Arrivals::Regular { count: instances, .. } = &mut all[at].arrivals {
                *instances = *count;
            }
        }
        applications.all.retain(|application| application.arrivals.count() > 0);
        let counts = applications.all.iter().map(|application| u64::from(application.arrivals.count()));
        let count: u64 = counts.sum();
        if count == 0 || count > INSTANCES_MAX.into() {
            bail!("{path}: {count} instances to simulate; there have to be 1 to {INSTANCES_MAX}");
        }
        self.furnish(&mut machine)?;
        Ok(Scenario { applications: applications.all, machine, changes: self.changes()? })
    }

    fn furnish(&self, machine: &mut Machine) -> anyhow::Result<()> {
        machine.cores = self.cores;
        for (name, cores) in &self.uses {
            let at = place(machine, name, "--uses")?;
            machine.resources[at].cores = *cores;
        }
        for text in &self.power {
            let wrong = || {
                format!("--power {text}: write RESOURCE=WATTS or RESOURCE=WATTS,IDLE_WATTS, as in gpu=9.5,1")
            };
            let (name, watts) = text.split_once('=').with_context(wrong)?;
            let (active, idle) = watts.split_once(',').unwrap_or((watts, "0"));
            let number = |text: &str| {
                text.parse().ok().filter(|watts: &f64| (0.0..1e9).contains(watts)).with_context(wrong)
            };
            let at = place(machine, name, "--power")?;
            machine.resources[at].power = Some((number(active)?, number(idle)?));
        }
        for text in &self.forbid {
            let (level, names) = text
                .split_once(':')
                .with_context(|| format!("--forbid {text}: write LEVEL:RESOURCE, as in low:gpu"))?;
            let names: Vec<_> = names.split(',').map(|name| name.trim().to_owned()).collect();
            for name in &names {
                place(machine, name, "--forbid")?;
            }
            machine.forbids.push((level.into(), names));
        }
        Ok(())
    }

    fn changes(&self) -> anyhow::Result<Vec<(Time, Change)>> {
        let mut changes = Vec::new();
        for (level, at) in timed(&self.governor).with_context(|| format!("--governor {}", self.governor))? {
            changes.push((at, Change::Governor(level.into())));
        }
        for text in &self.sensor {
            let wrong = || {
                format!(
                    "--sensor {text}: write NAME=VALUE or NAME=VALUE,VALUE@SECONDS, as in battery=0.9,0.2@60"
                )
            };
            let (name, values) = text.split_once('=').with_context(wrong)?;
            for (value, at) in timed(values).with_context(wrong)? {
                let value = value.parse().ok().filter(|value: &f64| value.is_finite()).with_context(wrong)?;
                changes.push((at, Change::Sensor(name.into(), value)));
            }
        }
        Ok(changes)
    }
}

fn place(machine: &Machine, name: &str, option: &str) -> anyhow::Result<usize> {
    let names =
        || machine.resources.iter().map(|resource| resource.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = machine.resources.iter().position(|resource| resource.name == name);
    found.with_context(|| format!("{option}: there is no resource `{name}`; there are {}", names()))
}

/// `high,low@60`: values with the time from which on they hold.
fn timed(text: &str) -> anyhow::Result<Vec<(&str, Time)>> {
    text.split(',')
        .map(|part| {
            let (value, at) = part.split_once('@').unwrap_or((part, "0"));
            let at = Time::parse(&format!("{at}s"));
            if value.is_empty() {
                bail!("`{part}` has no value");
            }
            Ok((value, at.map_err(|_| anyhow::anyhow!("`{part}`: a time in seconds has to follow @"))?))
        })
        .collect()
}

fn instances(text: &str) -> Result<(String, u32), String> {
    let pair = text.split_once('=').and_then(|(name, count)| Some((name.to_owned(), count.parse().ok()?)));
    pair.ok_or_else(|| "write NAME=NUMBER, as in lama_cg=24".into())
}
