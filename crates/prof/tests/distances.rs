//! Real programs under the observer. `cargo xtask setup` builds it and installs Valgrind.

use castell_cachesim::{Histogram, MissRatioCurve};
use castell_prof::distances::{ObserveError, Observed, Options, Seen, observe, of_trace};
use castell_prof::prints::Prints;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const OPTIONS: Options = Options {
    block_bytes: 64,
    ignore_stack: true,
    functions: false,
    threads: false,
    sample: None,
    growth: false,
    trace: None,
    prints: Prints::ToOutput,
};

/// Compiles a C program; the folder keeps it.
fn compiled(folder: &Path, code: &str) -> PathBuf {
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&source, code).expect("a file");
    let status = Command::new("gcc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status();
    assert!(status.expect("gcc is there").success());
    program
}

fn observed(code: &str, options: &Options) -> Observed {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), code);
    observe(&[program.into_os_string()], options, |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn only(observed: Observed) -> Seen {
    assert_eq!(observed.programs.len(), 1, "{:?}", observed.programs);
    observed.programs.into_iter().next().expect("one program")
}

/// Accesses at distances of so many blocks.
fn between(seen: &Seen, from: u64, to: u64) -> f64 {
    seen.together
        .buckets()
        .filter(|bucket| bucket.from >= from && bucket.to <= to)
        .map(|bucket| bucket.accesses)
        .sum()
}

const ROUNDS: &str = "static volatile char memory[1 << 20];\n\
    int main(void) { for (int r = 0; r < 5; r++) for (int i = 0; i < 1 << 20; i += 64) memory[i] = 1; return 7; }";

#[test]
fn a_round_over_a_megabyte_has_its_size_as_distance() {
    let observed = observed(ROUNDS, &OPTIONS);
    assert_eq!(observed.status.code(), Some(7), "the exit code is the program's");
    let seen = only(observed);
    assert!(seen.is_complete);
    // 16,384 blocks: each of four further rounds touches each of them at that distance, but for what the loader touched.
    let far = between(&seen, 15_000, 18_000);
    assert!((4.0 * 16_384.0..4.0 * 16_384.0 + 200.0).contains(&far), "{far}");
    let curve = MissRatioCurve::of(&seen.together);
    let (small, large) = (curve.at(8192.0), curve.at(32_768.0));
    // What the loader touched may come again at the end, somewhat farther away.
    let beyond = between(&seen, 8192, 32_768);
    assert!((small - large - beyond / seen.together.accesses()).abs() < 1e-9, "{far} of {beyond}");
    assert_eq!(seen.together.accesses(), seen.accesses as f64);
}

#[test]
fn a_sample_estimates_the_same() {
    let exact = only(observed(ROUNDS, &OPTIONS));
    let sampled = only(observed(ROUNDS, &Options { sample: Some(0.1), ..OPTIONS }));
    let (error, accesses) = (sampled.error.expect("a sample has an error"), sampled.accesses);
    assert_eq!(accesses, exact.accesses);
    let ratio = |seen: &Seen| MissRatioCurve::of(&seen.together).at(8192.0);
    assert!(
        (ratio(&sampled) - ratio(&exact)).abs() <= 4.0 * error.max(0.01),
        "{} {}",
        ratio(&sampled),
        ratio(&exact)
    );
}

#[test]
fn threads_are_told_apart_and_together() {
    let code = "#include <pthread.h>\n#include <stdlib.h>\n\
        static void *work(void *blocks) { volatile char *memory = malloc((size_t)blocks * 64);\n\
        for (int r = 0; r < 4; r++) for (size_t i = 0; i < (size_t)blocks; i++) memory[i * 64] = 1; return 0; }\n\
        int main(void) { pthread_t threads[2]; for (size_t t = 0; t < 2; t++)\n\
        pthread_create(&threads[t], 0, work, (void *)(3000 + 3000 * t));\n\
        for (int t = 0; t < 2; t++) pthread_join(threads[t], 0); return 0; }";
    let seen = only(observed(code, &Options { threads: true, ..OPTIONS }));
    assert_eq!(seen.threads.len(), 3, "{:?}", seen.threads.keys());
    // Threads are numbered as they first run.
    for blocks in [3000.0, 6000.0] {
        let near = |size: u64| size as f64 >= blocks * 0.9 && size as f64 <= blocks * 1.1;
        let far = |own: &Histogram| -> f64 {
            own.buckets()
                .filter(|bucket| near(bucket.from) && near(bucket.to))
                .map(|bucket| bucket.accesses)
                .sum()
        };
        let most = seen.threads.values().map(far).fold(0.0, f64::max);
        assert!(most >= 3.0 * blocks * 0.95, "{blocks}: {most}");
    }
    let sum: f64 = seen.threads.values().map(|own| own.accesses()).sum();
    assert_eq!(sum, seen.accesses as f64);
}

#[test]
fn functions_are_told_apart() {
    let code = "static volatile char memory[1 << 18];\n\
        __attribute__((noinline)) void walks(void) { for (int i = 0; i < 1 << 18; i += 64) memory[i] = 1; }\n\
        __attribute__((noinline)) int stays(int s) { for (int i = 0; i < 9999; i++) s += memory[0] + memory[64]; return s; }\n\
        int main(void) { int s = 0; for (int r = 0; r < 4; r++) { walks(); s += stays(r); } return s > 99999; }";
    let seen = only(observed(code, &Options { functions: true, ..OPTIONS }));
    let of = |name: &str| seen.functions.get(name).unwrap_or_else(|| panic!("{:?}", seen.functions.keys()));
    let ratio = |name: &str| MissRatioCurve::of(of(name)).at(512.0);
    assert!(ratio("walks") > 0.95 && ratio("stays") < 0.01, "{} {}", ratio("walks"), ratio("stays"));
    assert!(of("stays").accesses() >= 4.0 * 2.0 * 9999.0);
}

#[test]
fn children_and_what_they_execute_are_observed() {
    let code = "#include <unistd.h>\n#include <sys/wait.h>\n\
        int main(void) { if (fork() == 0) execl(\"/bin/true\", \"true\", (char *)0); wait(0); return 0; }";
    let observed = observed(code, &OPTIONS);
    let names: Vec<&str> = observed.programs.iter().filter_map(|seen| seen.name.rsplit('/').next()).collect();
    assert_eq!(names, ["program", "program", "true"]);
    assert_eq!(observed.programs[1].parent, observed.programs[0].pid);
    assert!(observed.programs[0].is_complete && observed.programs[2].is_complete);
}

#[test]
fn a_program_that_is_killed_leaves_its_histogram() {
    let code = "#include <signal.h>\nstatic volatile char memory[1 << 20];\n\
        int main(void) { for (int i = 0; i < 1 << 20; i += 64) memory[i] = 1; raise(SIGTERM); return 0; }";
    let observed = observed(code, &OPTIONS);
    assert_eq!(observed.status.signal(), Some(libc::SIGTERM));
    let seen = only(observed);
    assert!(seen.is_complete && seen.blocks > 16_384, "{} blocks", seen.blocks);
}

#[test]
fn what_cannot_be_observed_says_why() {
    let refused = |words: &[&str], options: &Options| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        observe(&words, options, |_| {}).expect_err("refused")
    };
    assert!(matches!(refused(&["no-such-program"], &OPTIONS), ObserveError::NotFound(_)));
    assert!(matches!(
        refused(&["true"], &Options { block_bytes: 48, ..OPTIONS }),
        ObserveError::BlockBytes(48)
    ));
    let nowhere = Options { trace: Some(PathBuf::from("/nowhere/trace")), ..OPTIONS };
    assert!(matches!(refused(&["true"], &nowhere), ObserveError::TraceFile { .. }));
    assert!(matches!(refused(&["true"], &Options { sample: Some(0.0), ..OPTIONS }), ObserveError::Rate(_)));
}

#[test]
fn a_trace_has_the_same_distances_as_the_program_that_it_is_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), ROUNDS);
    let file = folder.path().join("trace");
    let options = Options { threads: true, trace: Some(file.clone()), ..OPTIONS };
    let observed = observe(&[program.into_os_string()], &options, |_| {}).expect("observed");
    assert!(observed.trace_error.is_none(), "{:?}", observed.trace_error);
    let bytes = std::fs::read(&file).expect("a trace");
    let (block_bytes, again) = of_trace(&bytes, None, true).expect("whole");
    assert_eq!((block_bytes, again.len()), (64, 1));
    let seen = only(observed);
    assert_eq!((again[0].accesses, again[0].blocks), (seen.accesses, seen.blocks));
    assert_eq!((&again[0].together, &again[0].threads), (&seen.together, &seen.threads));
    assert!(of_trace(&bytes[..bytes.len() - 3], None, false).is_err());
    let refused = of_trace(&bytes, Some(32), false);
    assert!(matches!(refused, Err(ObserveError::BlockOfTrace { kept: 64, asked: 32 })), "{refused:?}");
    // Rounds over a memory of twice as large blocks have half the distance.
    let (block_bytes, larger) = of_trace(&bytes, Some(128), false).expect("whole");
    assert_eq!((block_bytes, larger[0].accesses), (128, seen.accesses));
    assert!((seen.blocks / 2..seen.blocks * 2 / 3).contains(&larger[0].blocks), "{}", larger[0].blocks);
}

#[test]
fn a_full_disk_ends_the_trace_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), ROUNDS);
    let options = Options { trace: Some(PathBuf::from("/dev/full")), ..OPTIONS };
    let observed = observe(&[program.into_os_string()], &options, |_| {}).expect("observed");
    let error = observed.trace_error.as_ref().and_then(std::io::Error::raw_os_error);
    assert_eq!((error, observed.status.code()), (Some(libc::ENOSPC), Some(7)));
    assert!(only(observed).accesses > 81_920);
}

#[test]
fn instructions_that_the_observer_does_not_know_are_named() {
    // Assembled by hand, so that the test runs on any processor: vaddps zmm0, zmm0, zmm0.
    let code = "int main(void) { __asm__ volatile(\".byte 0x62,0xf1,0x7c,0x48,0x58,0xc0\"); return 0; }";
    let observed = observed(code, &OPTIONS);
    assert_eq!(observed.status.signal(), Some(libc::SIGILL));
    assert!(observed.complaints[0].contains("AVX-512"), "{:?}", observed.complaints);
    assert!(only(observed).accesses > 0, "what was seen before is there");
}

#[test]
fn sixty_four_threads_that_map_and_unmap_are_told_apart() {
    let code = "#include <pthread.h>\n#include <sys/mman.h>\n\
        static void *work(void *none) { for (int r = 0; r < 3; r++) {\n\
        volatile char *m = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n\
        for (int i = 0; i < 1 << 16; i += 64) m[i] = 1; munmap((void *)m, 1 << 16); } return none; }\n\
        int main(void) { pthread_t t[64]; for (int i = 0; i < 64; i++) pthread_create(t + i, 0, work, 0);\n\
        for (int i = 0; i < 64; i++) pthread_join(t[i], 0); return 0; }";
    let seen = only(observed(code, &Options { threads: true, ..OPTIONS }));
    let busy = seen.threads.values().filter(|own| own.accesses() >= 3.0 * 1024.0);
    assert!(seen.is_complete && busy.count() >= 64, "{:?}", seen.threads.len());
}
