//! SimGrid, where its library and a C++ compiler are installed.

use super::{BYTES, Program, Run, Simulator};
use crate::folder::Folder;
use crate::plain::find_program;
use anyhow::{Context as _, bail};

const SOURCE: &str = include_str!("../../../../benches/sim/simgrid.cpp");

pub struct SimGrid {
    folder: Folder,
    ranks_max: u32,
}

impl SimGrid {
    /// Compiles the driver.
    pub fn compile(ranks_max: u32) -> anyhow::Result<SimGrid> {
        let compiler = find_program("g++").context("SimGrid is left out: there is no g++")?;
        let folder = Folder::create()?;
        std::fs::write(folder.path().join("simgrid.cpp"), SOURCE)?;
        let mut command = folder.command(&compiler);
        command.args(["-std=c++17", "-O3", "-w", "simgrid.cpp", "-lsimgrid", "-o", "simgrid"]);
        if !command.output().context("could not start g++")?.status.success() {
            bail!("SimGrid is left out: install libsimgrid-dev for the comparison");
        }
        Ok(SimGrid { folder, ranks_max })
    }
}

impl Simulator for SimGrid {
    fn name(&self) -> String {
        "SimGrid s4u".into()
    }

    fn run(&mut self, program: &Program, _samples: u32) -> anyhow::Result<Option<Run>> {
        if program.is_file() || program.ranks > self.ranks_max {
            return Ok(None);
        }
        let mut command = self.folder.command(&self.folder.path().join("simgrid"));
        command.args([&program.name, &program.ranks.to_string(), &BYTES.to_string()]);
        command.arg("--cfg=contexts/stack-size:16");
        let output = command.output().context("could not start SimGrid's driver")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let run: Run = serde_json::from_slice(&output.stdout).context("no measurement")?;
        // Its network is another one.
        Ok(Some(Run { makespan_ps: None, ..run }))
    }
}
