//! Models and networks as the command line takes them: as text, or the name of a TOML file.

use anyhow::{Context, bail};
use castell_collectives::decision::TuningFile;
use castell_comm::tuning;
use castell_model::noise::NoisyModel;
use castell_model::topology::Topology;
use castell_model::{Levels, Model};
use std::path::Path;
use std::sync::Arc;

/// What stands for the model that `castell tune` found on this machine.
const TUNED: &str = "tuned";

/// A model from its text, or from a file whose name ends in `.toml`; parameters may vary. Files that the model names are
/// found from where castell was started, or beside the TOML file that names them.
pub fn noisy(text: &str) -> anyhow::Result<NoisyModel> {
    if text == TUNED {
        return tuned().map(NoisyModel::from);
    }
    let path = Path::new(text);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Ok(NoisyModel::parse(text, &mut |name| read(Path::new(name)))?);
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let toml = read(path).map_err(anyhow::Error::msg)?;
    // The whole message in one: the parser of arguments prints only the outermost.
    NoisyModel::from_toml(&toml, &mut |name| read(&folder.join(name)))
        .map_err(|error| anyhow::anyhow!("{text}: {error}"))
}

/// The same, for commands that need numbers: nothing may vary.
pub fn constant(text: &str) -> anyhow::Result<Model> {
    let noisy = noisy(text)?;
    if !noisy.noise.is_none() {
        bail!(
            "{noisy}: parameters that vary have no single value here; give numbers, such as {}",
            noisy.mean()
        );
    }
    Ok(noisy.model)
}

/// What this machine was tuned to.
fn tuned() -> anyhow::Result<Model> {
    let path = tuning::own_path().context("no tuning file: neither XDG_CONFIG_HOME nor HOME is set")?;
    let name = path.display();
    let Ok(text) = std::fs::read_to_string(&path) else {
        bail!("this machine was not tuned yet: `castell tune` writes {name}, with a model");
    };
    let file = TuningFile::parse(&text).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    let model = file.model.with_context(|| {
        format!("{name} has no model: what `castell tune` measured fitted none; give one, such as loggps")
    });
    Ok(Model::Plb(model?))
}

/// Models of two levels from a file.
pub fn levels(file: &Path) -> anyhow::Result<Levels> {
    let text = read(file).map_err(anyhow::Error::msg)?;
    Levels::from_toml(&text).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))
}

/// A network from its text.
pub fn network(text: &str) -> anyhow::Result<Arc<Topology>> {
    Ok(Arc::new(Topology::parse(text, &mut |name| read(Path::new(name)))?))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_ends_in_toml_is_a_file_and_names_files_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let toml = folder.path().join("model.toml");
        std::fs::write(&toml, "model = 'logp'\nL = 'sample(times.txt,us)'\no = '1us'\n").unwrap();
        std::fs::write(folder.path().join("times.txt"), "1 2 3").unwrap();
        let name = toml.to_str().unwrap();
        let found = noisy(name).unwrap();
        assert_eq!(found.mean().to_string(), "logp:L=2us,o=1us,g=1us");
        let error = constant(name).unwrap_err().to_string();
        assert!(
            error.contains("have no single value here; give numbers, such as logp:L=2us,o=1us,g=1us"),
            "{error}"
        );
        std::fs::write(&toml, "model = 'logp'\nX = '1us'\n").unwrap();
        let error = noisy(name).unwrap_err().to_string();
        assert!(error.ends_with("model.toml: logp has no parameter `X`: expected one of L, o, g"), "{error}");
        assert!(noisy("missing.toml").unwrap_err().to_string().starts_with("cannot read missing.toml"));
    }

    #[test]
    fn other_texts_are_models() {
        assert_eq!(constant("plb").unwrap().name(), "plb");
        assert!(network("ring").unwrap_err().to_string().starts_with("unknown network `ring`"));
    }
}
