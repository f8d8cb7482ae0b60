//! MPI's suites, on any number of MPIs, without the door and with everything through it (`castell mpi --always`).

use super::outcome;
use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const EXAMPLES: &str = "\
Example:
  cargo xtask install --prefix /tmp/castell --mpi mpicc.openmpi --mpi mpicc.mpich
  cargo xtask suites mpi --prefix /tmp/castell --mpi mpich=mpicc.mpich:mpiexec.mpich --mpich-tests mpich-4.0.2/test/mpi

Exit code: 0 if everything that passes without castell passes with it, else 1.";

/// Arguments of `cargo xtask suites mpi`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where castell is installed, with the libraries for these MPIs
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// An MPI, as mpich=mpicc.mpich:mpiexec.mpich (repeatable)
    #[arg(long = "mpi", value_name = "NAME=MPICC:MPIRUN", required = true, value_parser = Mpi::parse)]
    mpis: Vec<Mpi>,
    /// MPICH's `test/mpi`: the lines of `coll/testlist.in`, whose sources are compiled
    #[arg(long, value_name = "DIR")]
    mpich_tests: Option<PathBuf>,
    /// mpi4py's source folder: `test_cco*` and `test_ngh*`, with the `python` beside the MPI's compiler
    #[arg(long, value_name = "DIR")]
    mpi4py: Option<PathBuf>,
    /// Folder with Intel's IMB-MPI1 and IMB-NBC, as they were built
    #[arg(long, value_name = "DIR")]
    imb: Option<PathBuf>,
    /// Folder with OSU's benchmarks as they were built: each `osu_*` below it, with validation
    #[arg(long, value_name = "DIR")]
    osu: Option<PathBuf>,
    /// Tests that want more ranks are left out
    #[arg(long, value_name = "N", default_value_t = 5)]
    ranks_max: u32,
    /// Ranks of tests that do not say
    #[arg(long, value_name = "N", default_value_t = 2)]
    ranks: u32,
    /// Seconds a test may take
    #[arg(long, value_name = "N", default_value_t = 120)]
    timeout: u32,
    /// Print JSON: per MPI and suite the sums, and each test
    #[arg(long)]
    json: bool,
}

#[derive(Clone)]
struct Mpi {
    name: String,
    compiler: String,
    launcher: String,
}

impl Mpi {
    fn parse(text: &str) -> Result<Mpi, String> {
        let parts = text.split_once('=').and_then(|(name, programs)| Some((name, programs.split_once(':')?)));
        let (name, (compiler, launcher)) = parts.ok_or("expected NAME=MPICC:MPIRUN")?;
        Ok(Mpi { name: name.into(), compiler: compiler.into(), launcher: launcher.into() })
    }

    /// Intel's programs want to know where they lie; the others do not look.
    fn root(&self) -> String {
        let root = Path::new(&self.compiler).parent().and_then(Path::parent);
        format!("I_MPI_ROOT={}", root.unwrap_or(Path::new("/usr")).display())
    }

    /// What starts so many ranks.
    fn launch(&self, ranks: u32) -> anyhow::Result<Vec<String>> {
        let output = Command::new(&self.launcher).arg("--version").output();
        let output = output.with_context(|| format!("{}: {}", self.name, self.launcher))?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_open = version.contains("Open MPI") || version.contains("OpenRTE");
        let flags: &[&str] = if is_open { &["--allow-run-as-root", "--oversubscribe"] } else { &[] };
        let words = [self.launcher.as_str()].into_iter().chain(flags.iter().copied()).chain(["-n"]);
        Ok(words.map(str::to_owned).chain([ranks.to_string()]).collect())
    }
}

/// A test: what runs on how many ranks, and how it says that it has passed.
struct Test {
    suite: &'static str,
    name: String,
    ranks: u32,
    words: Vec<String>,
    folder: PathBuf,
    says: fn(&str) -> bool,
}

/// What came of it.
struct Verdict {
    test: String,
    suite: &'static str,
    without: bool,
    with: bool,
    calls: u64,
    through: u64,
}

/// Runs everything and says what came out.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let castell = std::path::absolute(args.prefix.join("bin/castell"))?;
    if !castell.is_file() {
        bail!(
            "there is no {}: `cargo xtask install --prefix DIR --mpi MPICC` puts it there",
            castell.display()
        );
    }
    let mut all = Vec::new();
    let mut is_fine = true;
    for mpi in &args.mpis {
        let built = root.join("target/suites/mpi").join(&mpi.name);
        std::fs::create_dir_all(&built).with_context(|| built.display().to_string())?;
        let tests = tests(args, mpi, &built)?;
        let mut results = Vec::new();
        for test in tests.iter().filter(|test| test.ranks <= args.ranks_max) {
            let result = run_test(args, mpi, test, &castell, &built)?;
            let words = |is_good| if is_good { "passes" } else { "fails" };
            if !args.json && result.without != result.with {
                println!(
                    "{}, {}: {} without castell, {} with it",
                    mpi.name,
                    result.test,
                    words(result.without),
                    words(result.with)
                );
            }
            results.push(result);
        }
        is_fine &= results.iter().all(|result| result.with || !result.without);
        all.push(summary(&mpi.name, &results, args.json));
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tests(args: &Args, mpi: &Mpi, built: &Path) -> anyhow::Result<Vec<Test>> {
    let mut tests = Vec::new();
    if let Some(folder) = &args.mpich_tests {
        tests.extend(mpich(&std::path::absolute(folder)?, mpi, built)?);
    }
    if let Some(folder) = &args.mpi4py {
        tests.extend(mpi4py(&std::path::absolute(folder)?, mpi, args.ranks)?);
    }
    if let Some(folder) = &args.imb {
        let folder = std::path::absolute(folder)?;
        for program in ["IMB-MPI1", "IMB-NBC"] {
            let options = ["-iter", "20", "-time", "0.2", "-msglog", "0:16"].map(str::to_owned);
            let words =
                [folder.join(program).to_string_lossy().into_owned()].into_iter().chain(options).collect();
            tests.push(test("IMB", program.to_owned(), args.ranks, words, &folder, |said| {
                said.contains("# All processes entering MPI_Finalize")
            }));
        }
    }
    if let Some(folder) = &args.osu {
        for program in programs(&std::path::absolute(folder)?)? {
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let options: &[&str] =
                if name.contains("barrier") { &["-i", "50"] } else { &["-i", "20", "-m", "65536", "-c"] };
            let program = program.to_string_lossy().into_owned();
            let words =
                [program.as_str()].into_iter().chain(options.iter().copied()).map(str::to_owned).collect();
            tests.push(test("OSU", name, args.ranks, words, folder, |said| !said.contains("Fail")));
        }
    }
    if tests.is_empty() {
        bail!("which suites? --mpich-tests, --mpi4py, --imb or --osu");
    }
    Ok(tests)
}

fn test(
    suite: &'static str,
    name: String,
    ranks: u32,
    words: Vec<String>,
    folder: &Path,
    says: fn(&str) -> bool,
) -> Test {
    Test { suite, name, ranks, words, folder: folder.to_owned(), says }
}

/// The executable `osu_*` below a folder.
fn programs(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.metadata()?);
        if kind.is_dir() {
            found.extend(programs(&path)?);
        } else if kind.permissions().mode() & 0o111 != 0
            && entry.file_name().to_string_lossy().starts_with("osu_")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn mpi4py(folder: &Path, mpi: &Mpi, ranks: u32) -> anyhow::Result<Vec<Test>> {
    let python = Path::new(&mpi.compiler).with_file_name("python").to_string_lossy().into_owned();
    let tests = folder.join("test");
    let entries = std::fs::read_dir(&tests).with_context(|| tests.display().to_string())?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>, _>>()?;
    names.retain(|name| name.starts_with("test_cco") && name.ends_with(".py"));
    names.sort();
    let module = |name: String| {
        let words = vec![
            python.clone(),
            "main.py".to_owned(),
            "-q".to_owned(),
            "-i".to_owned(),
            format!("^{}$", name.replace(".py", "")),
        ];
        test("mpi4py", name, ranks, words, &tests, |said| said.contains("OK") && !said.contains("FAILED"))
    };
    Ok(names.into_iter().map(module).collect())
}

/// What MPICH's configure finds out, for the tests of collective calls on Linux.
const CONFIGURED: &str =
    "#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX\n#define SIZEOF_VOID_P 8\n#define STDC_HEADERS 1\n";
const HEADERS_AND_TYPES: [&str; 30] = [
    "STDLIB_H",
    "STDINT_H",
    "STRING_H",
    "UNISTD_H",
    "STDARG_H",
    "INTTYPES_H",
    "PTHREAD_H",
    "LIMITS_H",
    "SYS_TIME_H",
    "SYS_RESOURCE_H",
    "SYS_TYPES_H",
    "SYS_STAT_H",
    "LONG_LONG",
    "LONG_DOUBLE",
    "INT8_T",
    "INT16_T",
    "INT32_T",
    "INT64_T",
    "UINT8_T",
    "UINT16_T",
    "UINT32_T",
    "UINT64_T",
    "FLOAT__COMPLEX",
    "DOUBLE__COMPLEX",
    "LONG_DOUBLE__COMPLEX",
    "_BOOL",
    "STRDUP",
    "USLEEP",
    "GETRUSAGE",
    "MEMSET",
];

/// MPICH's tests of collective calls: one source and one line each.
fn mpich(folder: &Path, mpi: &Mpi, built: &Path) -> anyhow::Result<Vec<Test>> {
    let list = folder.join("coll/testlist.in");
    let list = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let mut configured = CONFIGURED.to_owned();
    for name in HEADERS_AND_TYPES {
        configured += &format!("#define HAVE_{name} 1\n");
    }
    // The second one is looked for in the folder above.
    std::fs::create_dir_all(built.join("below"))?;
    for name in ["mpitestconf.h", "dtpoolsconf.h"] {
        std::fs::write(built.join(name), &configured)?;
    }
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let includes: Vec<String> =
        [".".to_owned(), "below".to_owned(), path("include"), path("dtpools/include"), path("util")]
            .iter()
            .map(|place| format!("-I{place}"))
            .collect();
    let mut common: Vec<String> = ["mtest.c", "mtest_common.c", "dtypes.c", "mtest_thread.c"]
        .map(|name| path(&format!("util/{name}")))
        .to_vec();
    for entry in std::fs::read_dir(folder.join("dtpools/src"))? {
        let source = entry?.path();
        if source.extension().is_some_and(|extension| extension == "c") {
            common.push(source.to_string_lossy().into_owned());
        }
    }
    let compile = |arguments: &[String]| {
        let mut words =
            vec!["env".to_owned(), mpi.root(), mpi.compiler.clone(), "-w".to_owned(), "-O1".to_owned()];
        words.extend(includes.iter().chain(arguments).cloned());
        outcome(&words, built, 120)
    };
    let (is_built, said) = compile(&[&["-c".to_owned()], &common[..]].concat())?;
    if !is_built {
        bail!("{}: what MPICH's tests share cannot be compiled:\n{said}", mpi.name);
    }
    let objects = common.iter().map(|source| {
        Path::new(source).with_extension("o").file_name().unwrap_or_default().to_string_lossy().into_owned()
    });
    let objects: Vec<String> = objects.chain(["-lm".to_owned(), "-lpthread".to_owned()]).collect();
    let mut tests = Vec::new();
    for (name, ranks, arguments) in list.lines().filter_map(line_of) {
        let source = path(&format!("coll/{name}.c"));
        let program = built.join(name);
        if !Path::new(&source).is_file() {
            continue;
        }
        if !program.is_file()
            && !compile(&[&[source, "-o".to_owned(), name.to_owned()], &objects[..]].concat())?.0
        {
            println!("{}: {name}.c cannot be compiled", mpi.name);
            continue;
        }
        let mut words = vec![program.to_string_lossy().into_owned()];
        words.extend(arguments);
        let label = format!("{} {ranks}", [&[name.to_owned()], &words[1..]].concat().join(" "));
        tests.push(test("MPICH", label, ranks, words, built, |said| said.contains("No Errors")));
    }
    Ok(tests)
}

/// Name, ranks and arguments of a line of a list of tests.
fn line_of(line: &str) -> Option<(&str, u32, Vec<String>)> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|name| !name.starts_with(['#', '@']))?;
    let ranks = words.next()?.parse().ok()?;
    Some((name, ranks, words.filter_map(|word| word.strip_prefix("arg=")).map(str::to_owned).collect()))
}

fn run_test(args: &Args, mpi: &Mpi, test: &Test, castell: &Path, built: &Path) -> anyhow::Result<Verdict> {
    let launch = [mpi.launch(test.ranks)?, test.words.clone()].concat();
    let environment = vec!["env".to_owned(), mpi.root()];
    let (ended, said) = outcome(&[environment.clone(), launch.clone()].concat(), &test.folder, args.timeout)?;
    let without = ended && (test.says)(&said);
    let file = built.join("stats.json");
    let _ = std::fs::remove_file(&file);
    let door = [&castell.to_string_lossy(), "mpi", "--always", "--json", &file.to_string_lossy(), "--"];
    let door = door.map(str::to_owned).to_vec();
    let (ended, said) = outcome(&[environment, door, launch].concat(), &test.folder, args.timeout)?;
    let with = ended && (test.says)(&said) && !said.contains("runs without castell");
    if !with && without && !args.json {
        println!("{said}");
    }
    let stats =
        std::fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let count = |name: &str| stats.as_ref().and_then(|stats| stats[name].as_u64()).unwrap_or(0);
    let (calls, through) = (count("collective_calls"), count("through_castell"));
    Ok(Verdict {
        test: format!("{} {}", test.suite, test.name),
        suite: test.suite,
        without,
        with,
        calls,
        through,
    })
}

/// Prints the sums of an MPI's suites, or returns all as JSON.
fn summary(mpi: &str, results: &[Verdict], is_json: bool) -> Value {
    let mut suites: Vec<&str> = results.iter().map(|result| result.suite).collect();
    suites.dedup();
    let mut sums = Vec::new();
    for suite in suites {
        let of: Vec<&Verdict> = results.iter().filter(|result| result.suite == suite).collect();
        let count = |is: fn(&Verdict) -> bool| of.iter().filter(|result| is(result)).count();
        let (without, with) = (count(|result| result.without), count(|result| result.with));
        let lost = count(|result| result.without && !result.with);
        let calls: u64 = of.iter().map(|result| result.calls).sum();
        let through: u64 = of.iter().map(|result| result.through).sum();
        let share = 100.0 * through as f64 / calls.max(1) as f64;
        if !is_json {
            println!(
                "{mpi}, {suite}: {} tests, {without} pass without castell, {with} with it, {lost} only without; \
                 {through} of {calls} collective calls through castell ({share:.1} %)",
                of.len()
            );
        }
        sums.push(
            json!({"suite": suite, "tests": of.len(), "without": without, "with": with, "only_without": lost,
            "collective_calls": calls, "through_castell": through}),
        );
    }
    let tests = results.iter().map(|result| {
        json!({"test": result.test, "without": result.without, "with": result.with, "collective_calls": result.calls,
            "through_castell": result.through})
    });
    json!({"mpi": mpi, "suites": sums, "tests": tests.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_list_are_read() {
        assert_eq!(
            line_of("allred 4 arg=-count=10 timeLimit=30"),
            Some(("allred", 4, vec!["-count=10".to_owned()]))
        );
        assert_eq!(line_of("# allred 4"), None);
        assert_eq!(line_of("@largetest@gather_big 8 mem=20.1"), None);
        assert_eq!(line_of(""), None);
        assert!(Mpi::parse("mpich=mpicc").is_err());
    }
}
