//! Where strategies come from: castell's own, and files.

use anyhow::{Context as _, bail};
use castell_base::Time;
use castell_luau::Script;
use castell_luau::sandbox::SCRIPT_BYTES_MAX;
use castell_luau::shipped;
use std::io::Read as _;

/// A strategy as it is asked for: a shipped one's name or a file, and parameters behind a colon.
#[derive(Clone, Debug)]
pub struct Source {
    /// As it was written.
    pub asked: String,
    /// What was found there.
    pub found: castell_daemon::Source,
}

/// How long one call of a script may take: far more than its steps need even on a busy machine, so that this stops only what a library
/// does slowly.
const CALL_MAX: Time = Time(60 * 1_000_000_000_000);

impl Source {
    /// Finds it.
    pub fn find(asked: &str) -> anyhow::Result<Source> {
        let (name, parameters) = match asked.split_once(':') {
            // A colon in a file's name.
            Some(_) if std::path::Path::new(asked).exists() => (asked, ""),
            Some((name, parameters)) => (name, parameters),
            None => (asked, ""),
        };
        let parameters = castell_kernels::protocol::parameters(parameters)
            .map_err(|reason| anyhow::anyhow!("`{asked}`: {reason}"))?;
        let script = match shipped::named(name) {
            Some(shipped) => shipped.text.to_owned(),
            None => read(name)?,
        };
        let found = castell_daemon::Source { name: name.into(), script, parameters };
        Ok(Source { asked: asked.into(), found })
    }

    /// A script ready to decide; the same source gives one like it every time.
    pub fn script(&self) -> anyhow::Result<Script> {
        Ok(self.found.script(CALL_MAX)?)
    }
}

/// A file's text, of which no more is read than a script may have.
fn read(name: &str) -> anyhow::Result<String> {
    let names = || shipped::ALL.map(|shipped| shipped.name).join(", ");
    let file = std::fs::File::open(name).with_context(|| {
        let near = crate::say::nearest(name, shipped::ALL.iter().map(|shipped| shipped.name));
        let near = near.map_or(String::new(), |near| format!(" (did you mean {near}?)"));
        format!("there is no strategy `{name}`{near}: it is one of {}, or a file with a script", names())
    })?;
    let mut bytes = Vec::new();
    file.take(SCRIPT_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {name}"))?;
    if bytes.len() > SCRIPT_BYTES_MAX {
        bail!("{name} has more than {} KiB: that is no script", SCRIPT_BYTES_MAX >> 10);
    }
    String::from_utf8(bytes).ok().with_context(|| format!("{name} is no text in UTF-8, so no script"))
}
