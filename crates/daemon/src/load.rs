//! A strategy is read and tried out aside; only what is sound takes over.

use castell_base::Time;
use castell_host::clock;
use castell_luau::Script;
use castell_luau::sandbox::Limits;
use castell_strategy::check::{Finding, Report, check, check_own};
use castell_strategy::{Fault, Kernels, Node, Strategy};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Random nodes that a strategy is tried on before it takes over.
const NODES: u64 = 20;
/// How long one call of a script may take, in a daemon that others wait for.
const CALL_MAX: Time = Time(2 * 1_000_000_000_000);
/// What a call of an application's own strategy may use up. The clock is for what a library does slowly: at the lowest priority a second
/// is soon over.
const OWN_CALL_MAX: Time = Time(30 * 1_000_000_000_000);
const OWN_STEPS_MAX: u64 = 1_000_000;
const OWN_MEMORY_BYTES_MAX: usize = 8 << 20;

/// Where a strategy comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// What errors call it.
    pub name: String,
    /// The script.
    pub script: String,
    /// Parameters that are set, by name.
    pub parameters: Vec<(String, String)>,
}

impl Source {
    /// A script that is ready to decide; a call of it may take so long. The same source gives one like it every time.
    ///
    /// # Errors
    /// It is no strategy.
    pub fn script(&self, call_max: Time) -> Result<Script, Fault> {
        self.within(call_max, Limits::default())
    }

    fn within(&self, call_max: Time, limits: Limits) -> Result<Script, Fault> {
        let begin_ns = clock::now_ns();
        let now = Arc::new(move || Time((clock::now_ns() - begin_ns).wrapping_mul(1_000)));
        let limits = Limits { time: Some((now, call_max)), ..limits };
        let mut script = Script::load(&self.name, &self.script, limits)?;
        for (name, value) in &self.parameters {
            script.set_parameter(name, value).map_err(|message| Fault {
                strategy: self.name.clone(),
                during: castell_strategy::During::Load,
                message,
            })?;
        }
        Ok(script)
    }

    /// As the daemon has it.
    ///
    /// # Errors
    /// It is no strategy.
    pub fn strategy(&self) -> Result<Box<dyn Strategy>, Fault> {
        Ok(Box::new(self.script(CALL_MAX)?))
    }

    /// The same, after it was tried on random nodes.
    ///
    /// # Errors
    /// It is no strategy, it fails, or it decides differently when it is told the same: a sentence.
    pub fn checked(&self) -> Result<Box<dyn Strategy>, String> {
        let report = check(&mut || self.strategy(), clock::now_ns(), NODES);
        let checked = self.unless_wrong(report, || self.strategy());
        checked
            .map_err(|reason| format!("{reason}; castell strategy check {} shows on which node", self.name))
    }

    /// As the own of an application with these kernels, after it was tried on nodes like this one.
    ///
    /// # Errors
    /// See above.
    pub(crate) fn checked_own(
        &self,
        node: &Node,
        kernels: &[Arc<Kernels>],
    ) -> Result<Box<dyn Strategy>, String> {
        let limits = || Limits {
            steps_max: OWN_STEPS_MAX,
            memory_bytes_max: OWN_MEMORY_BYTES_MAX,
            ..Limits::default()
        };
        let mut make =
            || -> Result<Box<dyn Strategy>, Fault> { Ok(Box::new(self.within(OWN_CALL_MAX, limits())?)) };
        let report = check_own(node, kernels, &mut make, clock::now_ns(), NODES);
        self.unless_wrong(report, make)
    }

    fn unless_wrong(
        &self,
        report: Result<Report, Fault>,
        make: impl FnOnce() -> Result<Box<dyn Strategy>, Fault>,
    ) -> Result<Box<dyn Strategy>, String> {
        match report.map_err(|fault| fault.to_string())?.wrong.map(|wrong| wrong.what) {
            None => make().map_err(|fault| fault.to_string()),
            Some(Finding::Fault(fault)) => Err(fault.to_string()),
            Some(Finding::Differs { .. }) => {
                Err(format!("{} decides differently when it is told the same", self.name))
            }
        }
    }
}
