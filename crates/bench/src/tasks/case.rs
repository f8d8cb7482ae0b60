//! Programs and their sizes: read from words, given to other programs as options.

use super::Params;
use anyhow::{Context as _, bail};
use castell::tasks::workloads::Workload;
use std::str::FromStr;

/// A program to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case(Workload);

/// Names, and sizes unless others are asked for. The last two only run where they are named: `sweeps` is
/// castell's alone, `potrf` measures OpenBLAS as well.
const CASES: [(&str, Workload); 9] = [
    ("empty", Workload::Empty { tasks: 200_000 }),
    ("axpy", Workload::Axpy { elements: 1 << 24, block: 64 }),
    ("fib", Workload::Fib { number: 22 }),
    ("chain", Workload::Chain { tasks: 50_000 }),
    ("chains", Workload::Chains { tasks: 50_000, chains: 64 }),
    ("wave", Workload::Wave { side: 200 }),
    ("chol", Workload::Cholesky { tiles: 48 }),
    ("sweeps", Workload::Sweeps { elements: 1 << 20, block: 1024, iterations: 10 }),
    ("potrf", Workload::Potrf { order: 4096, tile: 128 }),
];
/// A task more than this is no measurement any more.
const SIZE_MAX: u64 = 1 << 40;

impl Case {
    /// Each program without arithmetic, with its usual size.
    pub fn all() -> Vec<Case> {
        let empty = CASES
            .iter()
            .filter(|(_, workload)| !matches!(workload, Workload::Potrf { .. } | Workload::Sweeps { .. }));
        empty.map(|(_, workload)| Case(*workload)).collect()
    }

    /// A program that is measured otherwise.
    pub fn stencil(width: u64, steps: u64, spins: u64) -> Case {
        Case(Workload::Stencil { width, steps, spins })
    }

    /// What runs.
    pub fn workload(&self) -> Workload {
        self.0
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self.0 {
            Workload::Empty { .. } => "empty",
            Workload::Axpy { .. } => "axpy",
            Workload::Sweeps { .. } => "sweeps",
            Workload::Fib { .. } => "fib",
            Workload::Chain { .. } => "chain",
            Workload::Chains { .. } => "chains",
            Workload::Wave { .. } => "wave",
            Workload::Cholesky { .. } => "chol",
            Workload::Potrf { .. } => "potrf",
            Workload::Stencil { .. } => "metg",
        }
    }

    /// Its sizes.
    pub fn params(&self) -> Params {
        let sizes = self.sizes();
        sizes.into_iter().fold(Params::new(), |params, (name, size)| params.with(name, size))
    }

    /// Name and sizes.
    pub fn arguments(&self) -> Params {
        self.params().with("workload", self.name())
    }

    /// What [`Case::arguments`] names, if it is one of these.
    pub fn of(arguments: &Params) -> Option<Case> {
        let name = arguments.word("workload")?;
        let known = CASES.iter().find(|(known, _)| *known == name).map(|(_, workload)| *workload);
        let stencil = Workload::Stencil { width: 1, steps: 1, spins: 1 };
        let mut case = Case(known.or((name == "metg").then_some(stencil))?);
        for (size, at) in case.sizes_mut() {
            *at = arguments.number(size)?;
        }
        Some(case)
    }

    fn sizes(mut self) -> Vec<(&'static str, u64)> {
        self.sizes_mut().into_iter().map(|(name, at)| (name, *at)).collect()
    }

    fn sizes_mut(&mut self) -> Vec<(&'static str, &mut u64)> {
        match &mut self.0 {
            Workload::Empty { tasks } | Workload::Chain { tasks } => vec![("tasks", tasks)],
            Workload::Chains { tasks, chains } => vec![("tasks", tasks), ("chains", chains)],
            Workload::Axpy { elements, block } => vec![("elements", elements), ("block", block)],
            Workload::Sweeps { elements, block, iterations } => {
                vec![("elements", elements), ("block", block), ("iterations", iterations)]
            }
            Workload::Fib { number } => vec![("number", number)],
            Workload::Wave { side } => vec![("side", side)],
            Workload::Cholesky { tiles } => vec![("tiles", tiles)],
            Workload::Potrf { order, tile } => vec![("order", order), ("tile", tile)],
            Workload::Stencil { width, steps, spins } => {
                vec![("width", width), ("steps", steps), ("spins", spins)]
            }
        }
    }
}

impl FromStr for Case {
    type Err = anyhow::Error;

    /// `chain`, or with other sizes than the usual `axpy:elements=65536,block=64`.
    fn from_str(text: &str) -> anyhow::Result<Case> {
        let (name, sizes) = text.split_once(':').unwrap_or((text, ""));
        let names = CASES.map(|(name, _)| name).join(", ");
        let found = CASES.iter().find(|(known, _)| *known == name);
        let (_, workload) = found.with_context(|| format!("no program `{name}`: there are {names}"))?;
        let mut case = Case(*workload);
        for size in sizes.split(',').filter(|size| !size.is_empty()) {
            let (key, value) =
                size.split_once('=').with_context(|| format!("`{size}`: expected NAME=NUMBER"))?;
            let number = value.parse().ok().filter(|number| (1..=SIZE_MAX).contains(number));
            let number =
                number.with_context(|| format!("`{size}`: expected a number from 1 to {SIZE_MAX}"))?;
            let mut known = case.sizes_mut();
            let names = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let at = known.iter_mut().find(|(known, _)| *known == key);
            let (_, at) = at.with_context(|| format!("{name} has no size `{key}`: it has {names}"))?;
            **at = number;
        }
        if let Workload::Potrf { order, tile } = case.0
            && (tile > order || order > 1 << 16)
        {
            bail!(
                "potrf:order={order},tile={tile}: a tile is at most the matrix, which has at most 65536 rows"
            );
        }
        if let Workload::Fib { number } = case.0
            && number > 40
        {
            bail!("fib:number={number}: 40 is the most, some 330 million tasks");
        }
        Ok(case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_from_words() {
        let axpy: Case = "axpy:block=128".parse().expect("a size");
        assert_eq!(axpy.workload(), Workload::Axpy { elements: 1 << 24, block: 128 });
        assert_eq!(Case::of(&axpy.arguments().with("workers", 2)), Some(axpy));
        let refused =
            ["", "axpi", "axpy:block", "axpy:block=0", "axpy:tiles=3", "fib:number=41", "potrf:tile=8192"];
        for text in refused {
            assert!(text.parse::<Case>().is_err(), "{text}");
        }
        for case in
            Case::all().into_iter().chain([Case::stencil(4, 100, 7), "potrf:tile=64".parse().expect("sizes")])
        {
            assert_eq!(Case::of(&case.arguments()), Some(case));
        }
    }
}
