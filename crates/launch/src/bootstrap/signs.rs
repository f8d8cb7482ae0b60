//! What the environment says about the launcher.

use super::membership::{ALONE_VARIABLE, BootstrapError, JOB_FD_VARIABLE, RANK_VARIABLE};
use castell_base::Rank;
use std::os::fd::RawFd;

/// How to find the group.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    /// No launcher: a group of one.
    Alone,
    /// castell's launcher.
    Launcher { descriptor: RawFd, rank: Rank },
    /// A PMI-1 service.
    Pmi1(PmiPlace),
    /// A PMI-2 service.
    Pmi2(PmiPlace),
    /// A PMIx service; its library knows the rest.
    Pmix,
}

/// What a PMI launcher tells through the environment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PmiPlace {
    pub descriptor: RawFd,
    pub rank: Rank,
    pub ranks: u32,
    /// The job's name, where the launcher gives it one.
    pub job: Option<String>,
}

/// A variable by which a launcher shows that it started more than one process.
struct Sign {
    size_variable: &'static str,
    launcher: &'static str,
    why: &'static str,
    advice: &'static str,
}

const SIGNS: [Sign; 5] = [
    Sign {
        size_variable: "OMPI_COMM_WORLD_SIZE",
        launcher: "Open MPI's mpirun",
        why: "PMIX_NAMESPACE and PMIX_RANK, by which its PMIx service is found, are not set",
        advice: "pass the environment on unchanged, or use `castell launch -n N`",
    },
    Sign {
        size_variable: "PMI_SIZE",
        launcher: "a PMI launcher",
        why: "PMI_FD and PMI_RANK, by which its PMI service is found, are not both set",
        advice: "start the program directly from mpiexec (without -pmi-port), or use `castell launch -n N`",
    },
    Sign {
        size_variable: "SLURM_STEP_NUM_TASKS",
        launcher: "Slurm's srun",
        why: "srun was not asked to offer a PMI service",
        advice: "use `srun --mpi=pmi2` or `srun --mpi=pmix` (`srun --mpi=list` shows what is there)",
    },
    Sign {
        size_variable: "FLUX_JOB_SIZE",
        launcher: "Flux",
        why: "PMI_FD, PMI_RANK and PMI_SIZE are not set",
        advice: "use `flux run -o pmi=simple`, or `castell launch -n N`",
    },
    Sign {
        size_variable: "MPI_LOCALNRANKS",
        launcher: "a Hydra-based mpiexec",
        why: "PMI_FD, PMI_RANK and PMI_SIZE are not set",
        advice: "pass the environment on unchanged, or use `castell launch -n N`",
    },
];

/// Decides from the environment, which `lookup` reads.
pub(super) fn plan(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Plan, BootstrapError> {
    if lookup(ALONE_VARIABLE).is_some() {
        return Ok(Plan::Alone);
    }
    if let Some(plan) = own_launcher(lookup)? {
        return Ok(plan);
    }
    // mpirun inside a task of srun inherits the outer PMI variables; its own are the inner ones.
    let pmix = lookup("PMIX_NAMESPACE").is_some() && lookup("PMIX_RANK").is_some();
    if pmix && lookup("OMPI_COMM_WORLD_SIZE").is_some() {
        return Ok(if number(lookup, "OMPI_COMM_WORLD_SIZE")? == Some(1) { Plan::Alone } else { Plan::Pmix });
    }
    if let Some(plan) = pmi(lookup)? {
        return Ok(plan);
    }
    if pmix {
        return Ok(Plan::Pmix);
    }
    for sign in &SIGNS {
        if let Some(size @ 2..) = number(lookup, sign.size_variable)? {
            return Err(lost(sign, size));
        }
    }
    if let Some(rank) = lookup("PMIX_RANK").or_else(|| lookup("PMI_RANK")) {
        return Err(BootstrapError::Lost {
            sign: format!("its launcher calls it rank {rank}"),
            why: "neither PMIX_NAMESPACE nor PMI_FD and PMI_SIZE are set".into(),
            advice: advice("pass the environment on unchanged, or use `castell launch -n N`"),
        });
    }
    Ok(Plan::Alone)
}

fn own_launcher(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<Plan>, BootstrapError> {
    match (lookup(JOB_FD_VARIABLE), lookup(RANK_VARIABLE)) {
        (None, None) => Ok(None),
        (Some(descriptor), Some(rank)) => {
            let unusable = |found: String| BootstrapError::Inherited { found };
            let descriptor = descriptor.parse().ok().filter(|number| *number >= 0);
            let descriptor =
                descriptor.ok_or_else(|| unusable("the first is no descriptor's number".into()))?;
            let rank = rank.parse().map_err(|_| unusable("the second is no rank".into()))?;
            Ok(Some(Plan::Launcher { descriptor, rank: Rank(rank) }))
        }
        _ => Err(BootstrapError::Inherited { found: "only one of them".into() }),
    }
}

fn pmi(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<Plan>, BootstrapError> {
    let place = (lookup("PMI_FD"), number(lookup, "PMI_RANK")?, number(lookup, "PMI_SIZE")?);
    let (Some(descriptor), Some(rank), Some(ranks)) = place else { return Ok(None) };
    let descriptor: RawFd = descriptor.parse().map_err(|_| unreadable("PMI_FD", &descriptor))?;
    if ranks == 1 {
        return Ok(Some(Plan::Alone));
    }
    if rank >= ranks {
        return Err(unreadable("PMI_RANK", &format!("{rank}, with PMI_SIZE={ranks}")));
    }
    let place = PmiPlace { descriptor, rank: Rank(rank), ranks, job: lookup("PMI_JOBID") };
    // Slurm's service speaks PMI-2; Hydra's speaks both and is known best for PMI-1.
    let is_slurm = lookup("SLURM_STEP_ID").is_some() && lookup("MPI_LOCALNRANKS").is_none();
    Ok(Some(if is_slurm { Plan::Pmi2(place) } else { Plan::Pmi1(place) }))
}

/// A variable's value as a number, if it is set.
fn number(lookup: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<Option<u32>, BootstrapError> {
    lookup(name).map(|value| value.trim().parse().map_err(|_| unreadable(name, &value))).transpose()
}

fn lost(sign: &Sign, size: u32) -> BootstrapError {
    BootstrapError::Lost {
        sign: format!("{} set {}={size}", sign.launcher, sign.size_variable),
        why: sign.why.into(),
        advice: advice(sign.advice),
    }
}

fn unreadable(name: &str, value: &str) -> BootstrapError {
    BootstrapError::Lost {
        sign: format!("{name} is set"),
        why: format!("{name}={value} makes no sense"),
        advice: advice("pass the launcher's environment on unchanged"),
    }
}

fn advice(special: &str) -> String {
    format!("{special}; for a group of one on purpose, set {ALONE_VARIABLE}=1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(environment: &[(&str, &str)]) -> Result<Plan, String> {
        let lookup = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        plan(&lookup).map_err(|error| error.to_string())
    }

    #[test]
    fn nobody_and_everybody() {
        assert_eq!(plan_of(&[]), Ok(Plan::Alone));
        let place = PmiPlace { descriptor: 6, rank: Rank(1), ranks: 2, job: None };
        let pmi = [("PMI_FD", "6"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")];
        assert_eq!(plan_of(&pmi), Ok(Plan::Pmi1(place.clone())));
        let slurm = [pmi[0], pmi[1], pmi[2], ("SLURM_STEP_ID", "0"), ("PMI_JOBID", "7.0")];
        assert_eq!(plan_of(&slurm), Ok(Plan::Pmi2(PmiPlace { job: Some("7.0".into()), ..place })));
        let pmix = [("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "7"), ("OMPI_COMM_WORLD_SIZE", "4")];
        assert_eq!(plan_of(&pmix), Ok(Plan::Pmix));
        assert_eq!(plan_of(&[pmix[0], pmix[1], pmix[2], pmi[0], pmi[1], pmi[2]]), Ok(Plan::Pmix));
        let ours = [("CASTELL_JOB_FD", "3"), ("CASTELL_RANK", "5"), pmi[0], pmi[1], pmi[2]];
        assert_eq!(plan_of(&ours), Ok(Plan::Launcher { descriptor: 3, rank: Rank(5) }));
        assert_eq!(plan_of(&[pmi[0], ("PMI_RANK", "0"), ("PMI_SIZE", "1")]), Ok(Plan::Alone));
    }

    #[test]
    fn a_group_is_never_overlooked() {
        let cases = [
            (&[("OMPI_COMM_WORLD_SIZE", "2")][..], "Open MPI's mpirun set OMPI_COMM_WORLD_SIZE=2"),
            (&[("PMI_SIZE", "3"), ("PMI_RANK", "0")], "PMI_FD and PMI_RANK"),
            (&[("SLURM_STEP_NUM_TASKS", "8"), ("SLURM_PROCID", "1")], "srun --mpi=pmi2"),
            (&[("PMIX_RANK", "1")], "calls it rank 1"),
            (&[("MPI_LOCALNRANKS", "2")], "Hydra"),
            (&[("PMI_FD", "x"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")], "PMI_FD=x makes no sense"),
            (&[("PMI_FD", "3"), ("PMI_RANK", "2"), ("PMI_SIZE", "2")], "PMI_RANK=2, with PMI_SIZE=2"),
            (&[("CASTELL_RANK", "1")], "only one of them"),
            (&[("CASTELL_RANK", "1"), ("CASTELL_JOB_FD", "-1")], "no descriptor's number"),
        ];
        for (environment, expected) in cases {
            let error = plan_of(environment).expect_err(expected);
            assert!(error.contains(expected), "{error}");
            let alone: Vec<_> = environment.iter().copied().chain([("CASTELL_ALONE", "1")]).collect();
            assert_eq!(plan_of(&alone), Ok(Plan::Alone));
        }
    }

    #[test]
    fn one_task_is_a_group_of_one() {
        // A batch script sees the job's SLURM_NTASKS but is no step.
        assert_eq!(plan_of(&[("SLURM_NTASKS", "8"), ("SLURM_PROCID", "0")]), Ok(Plan::Alone));
        assert_eq!(plan_of(&[("SLURM_STEP_NUM_TASKS", "1")]), Ok(Plan::Alone));
        assert_eq!(plan_of(&[("OMPI_COMM_WORLD_SIZE", "1")]), Ok(Plan::Alone));
    }
}
