//! What was set before: read before anything is touched, measured beside the best at the end, and put back.

use super::Args;
use super::commands::{Commands, Failed, run};
use super::left::Left;
use anyhow::{Context as _, bail};
use castell_knobs::Space;

/// Variables of an environment.
pub type Variables = Vec<(String, String)>;

/// What was set before.
pub struct First {
    /// As far as somebody has said it.
    pub values: Option<Variables>,
    /// The command that puts it back, and what a killed run leaves for the next one.
    back: Option<(String, Left)>,
}

impl First {
    /// Reads it, and notes how it is put back.
    pub fn of(space: &Space, commands: &Commands, args: &Args) -> anyhow::Result<First> {
        let get = args.profile.as_ref().map(super::profile::Profile::get).or_else(|| args.get.clone());
        let values = get.map(|get| read(space, &get, commands)).transpose()?;
        let restore = args.restore.clone().or_else(|| commands.set.clone());
        let back = restore.map(|restore| {
            let left = Left::keep(&restore, values.as_deref().unwrap_or_default())?;
            anyhow::Ok((restore, left))
        });
        Ok(First { values, back: back.transpose()? })
    }

    /// One measurement of it.
    pub fn measure(&self, commands: &Commands) -> Result<f64, Failed> {
        let variables = self.values.clone().unwrap_or_default();
        if let Some((restore, _)) = &self.back {
            run(restore, &variables, commands.timeout, Some(&commands.signals))?;
        }
        commands.measure_unset(&variables)
    }

    /// Sets it again, for good.
    pub fn put_back(&self, commands: &Commands) -> anyhow::Result<()> {
        let Some((restore, left)) = &self.back else { return Ok(()) };
        let variables = self.values.clone().unwrap_or_default();
        // A second Ctrl-C does not leave it half done.
        match run(restore, &variables, commands.timeout, None) {
            Ok(_) => left.remove(),
            Err(Failed::Command(why)) => {
                bail!(
                    "what was set before cannot be put back: {why}; `castell tune knobs --undo` tries it again"
                )
            }
            Err(Failed::Signal(_)) => unreachable!("none was looked for"),
        }
    }
}

/// NAME=VALUE, one a line, for all knobs.
fn read(space: &Space, get: &str, commands: &Commands) -> anyhow::Result<Variables> {
    let said = match run(get, &[], commands.timeout, Some(&commands.signals)) {
        Ok(said) => said,
        Err(Failed::Command(why)) => bail!("what is set now cannot be read: {why}"),
        Err(Failed::Signal(_)) => bail!("interrupted before anything was set"),
    };
    let value_of = |knob: &castell_knobs::Knob| {
        let mut lines = said.lines().filter_map(|line| line.split_once('='));
        let found = lines.find(|(name, _)| [knob.name(), &knob.variable()].contains(&name.trim()));
        let (_, value) =
            found.with_context(|| format!("`{get}` does not say what {} is now", knob.name()))?;
        Ok((knob.variable(), value.trim().to_owned()))
    };
    space.knobs().iter().map(value_of).collect()
}
