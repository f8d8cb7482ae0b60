//! What of the book's commands is not run, what is run in their place, and what readers have that pages only name.

use super::lack::Lack::{
    self, Counters, Cuda, Hosts, Jq, Mpi4py, Mpich, OpenMpi, Rooms, Slurm, Tshark, TwoProcessors, Xdp,
};

/// Why a command is not run.
pub enum Why {
    Always(&'static str),
    Without(Lack),
}
use Why::{Always, Without};

/// A part of the commands that are not run here, and why. All others are run.
pub const NOT_RUN: &[(&str, Why)] = &[
    ("-ltampi", Always("a library of the reader's, which no package has")),
    ("fabric=verbs", Always("an InfiniBand network of the reader's")),
    ("castell lab", Without(Hosts)),
    ("--isolate", Without(Hosts)),
    ("--host", Without(Hosts)),
    ("-hosts", Without(Hosts)),
    ("-hosts", Without(Mpich)),
    ("ssh ", Without(Hosts)),
    ("castell xdp", Without(Xdp)),
    ("mpi4py", Without(Mpi4py)),
    ("castell mpi", Without(OpenMpi)),
    ("-- srun --mpi=pmi2", Without(Mpich)),
    ("srun --mpi=pmi2 -n 4", Without(Mpich)),
    ("srun", Without(Slurm)),
    ("salloc", Without(Slurm)),
    ("mpirun ./analysis", Without(Slurm)),
    ("mpirun ./analysis", Without(Mpich)),
    ("--slurm", Without(Slurm)),
    ("castell profile -p", Without(Counters)),
    ("jq ", Without(Jq)),
    ("tshark ", Without(Tshark)),
    ("tshark ", Without(Hosts)),
    ("jq ", Without(TwoProcessors)),
    ("castell tune knobs --profile", Without(Rooms)),
    ("castell tune knobs --knob swappiness", Without(Rooms)),
    ("castell session", Without(TwoProcessors)),
    ("castell slowdown", Without(TwoProcessors)),
    ("castell place --split ./a", Without(TwoProcessors)),
    (" cuda", Without(Cuda)),
];

/// Programs that pages only name, and those that reach hosts: hosts of a lab here.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("simulation", "exec sleep 600"),
    ("analysis", "exec sleep 600"),
    ("test", "exec sleep 600"),
    ("controller", "exit 0"),
    ("bt", "timeout .3 sha256sum /dev/zero; exit 0"),
    ("cg", "timeout .3 md5sum /dev/zero; exit 0"),
    ("a", "exec sleep 0.1"),
    ("b", "exec sleep 0.1"),
    ("first", "exec ./product 8 96"),
    ("second", "exec ./product 8 96"),
    ("ping-pong", "cat /proc/sys/net/core/busy_poll"),
    // It says what that one says, whatever it is given.
    (
        "LogGOPSim",
        "echo 'size: 2'; echo 'PERFORMANCE: Processes: 2 Events: 48'; echo 'Maximum finishing time at host 1: 9 (s)'",
    ),
    // Knobs of an interface, which most that are made of nothing do not have: in a file.
    (
        ".bin/ethtool",
        "case $1 in -c) cat .coalescing;; \
         -C) shift 2; while [ $# -gt 0 ]; do sed -i \"s/^$1: .*/$1: $2/\" .coalescing; shift 2; done;; esac",
    ),
    (
        ".bin/ssh",
        "while :; do case $1 in -o) shift 2;; -*) shift;; *) break;; esac; done; \
         case $1 in node1|a) host=h1;; *) host=h2;; esac; shift; CASTELL_LAB_HOSTS=h1,h2 exec castell lab --on $host -- sh -c \"$*\"",
    ),
    (
        ".bin/docker",
        "case $3 in web1) host=h1;; *) host=h2;; esac; shift 3; CASTELL_LAB_HOSTS=h1,h2 exec castell lab --on $host -- \"$@\"",
    ),
    // Daemons of Open MPI's on nodes that are one host make each other's folders, and now and then one crashes.
    (".mpich/mpirun", "exec mpirun.mpich \"$@\""),
];

/// Programs of the reader's that have to be compiled: how, and from what.
pub const COMPILED: &[(&str, &str, &str)] = &[
    ("app", "mpicc -fopenmp", MPI),
    ("mpi-program", "mpicc -fopenmp", MPI),
    ("app-of-mpich", "mpicc.mpich -fopenmp", MPI),
    ("openmp-program", "gcc -fopenmp", TASKS),
    ("bots/bin/fib.gcc.omp-tasks", "gcc -fopenmp", TASKS),
    ("triad", "gcc -O1", STREAM),
    ("cube", "gcc -O1", STREAM),
    ("cg.S", "gcc -O1", STREAM),
    ("is.S", "gcc -O1", STREAM),
];

/// Calls, and a task: nothing has to be preloaded to make it end well.
const MPI: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, sum = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int call = 0; call < 50; call++) MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    #pragma omp task
    printf("rank %d of %d\n", rank, size);
    #pragma omp taskwait
    MPI_Finalize();
    return sum != size * (size - 1) / 2;
}
"#;

/// As programs of BOTS' end.
const TASKS: &str = r#"
#include <stdio.h>
int main(void) {
    int sum = 0;
    #pragma omp parallel
    #pragma omp single
    for (int i = 1; i <= 100; i++)
        #pragma omp task
        {
            #pragma omp atomic
            sum += i;
        }
    puts("Time Program        = 0.25 seconds");
    return sum != 5050;
}
"#;

/// So many elements, so often: a hundredth of them, since it is observed.
const STREAM: &str = r#"
#include <stdlib.h>
int main(int count, char **words) {
    long elements = count > 1 ? atol(words[1]) / 100 + 1 : 1000, times = count > 2 ? atol(words[2]) : 1000;
    double *a = calloc(elements, 8), *b = calloc(elements, 8);
    for (long time = 0; time < times; time++)
        for (long i = 0; i < elements; i++) a[i] += 3 * b[i];
    return a[0] != 0;
}
"#;

/// Files of the reader's.
pub const FILES: &[(&str, &str)] = &[
    ("input.txt", "10\n"),
    (
        "simulation.py",
        "from mpi4py import MPI\nprint('sum', MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank))\n",
    ),
    (
        "target/mine.goal",
        "num_ranks 2\nrank 0 { a: send 8b to 1 tag 1 }\nrank 1 { b: recv 8b from 0 tag 1\n c: calc 1000\n c requires b }\n",
    ),
    ("a.csv", "1,40\n2,21\n4,12\n8,8\n16,7\n"),
    ("b.csv", "1,80\n2,41\n4,22\n8,11\n16,6\n"),
    (".knobs/swappiness", "60\n"),
    (".knobs/busy_poll", "0\n"),
    (".knobs/busy_read", "0\n"),
    (
        ".coalescing",
        "Coalesce parameters for eth0:\nrx-usecs: 3\nrx-frames: 1\nrx-usecs-irq: 1\nrx-frames-irq: 1\ntx-usecs: 3\ntx-frames: 1\n\
         tx-usecs-irq: 1\ntx-frames-irq: 1\n",
    ),
];

/// Commands that want a place of their own, and what runs them there.
pub const PLACES: &[(&str, &str)] = &[
    ("--host", IN_LAB),
    ("-hosts", IN_LAB),
    ("ssh ", IN_LAB),
    ("tune knobs --profile", IN_ROOM),
    ("swappiness", IN_ROOM),
];
/// For hosts with names. As if it was none: castell reaches its hosts as any others.
const IN_LAB: &str = "castell lab 2 -- env -u CASTELL_LAB_HOSTS bash";
/// Where what is set for this machine are files of the reader's.
const IN_ROOM: &str = "unshare -m bash .room";
/// The script for that: knobs lie over those of the machine.
pub const ROOM: &str = "set -e\nfor knob in vm/swappiness net/core/busy_poll net/core/busy_read; do\n  \
                        mount --bind .knobs/${knob##*/} /proc/sys/$knob\ndone\nbash \"$1\"\n";

/// What a reader has done before. With the page, as in [`NOT_RUN`].
pub const BEFORE: &[(&str, &str)] = &[
    (
        "trace.swf.gz",
        "castell session simulate djsb --nodes 4 --cores 40 --write trace.swf && gzip -f trace.swf",
    ),
    (
        "jq ",
        "castell profile --by distances --json -- ./triad > profile.json && castell distances --json -- ./triad > distances.json && \
         castell slowdown --pairs 7 --interval 20 --sizes 64K --json -- ./a > slowdown.json",
    ),
    // Two that run, one that may begin, and a wide one.
    (
        "castell place --slurm --slowdowns",
        "for job in '-J bt -w n1' '-J ep -w n2' '-J cg --begin=now+1hour' '-J wide -N 2 -n 2 --begin=now+1hour'; do \
         sbatch -n 1 --output=/dev/null $job --wrap 'exec sleep 600' || exit; done; \
         until [ $(squeue -h -t running -o %i | wc -l) = 2 ]; do sleep 0.1; done",
    ),
    (
        "predicting: castell session explain",
        "castell daemon --session-policy overbook >/dev/null 2>&1 & \
      until castell strategy status >/dev/null 2>&1; do sleep 0.05; done; \
      castell session run -n 1 -- sha256sum /dev/zero >/dev/null & until castell session list | grep -q 'running.*sha256sum'; do sleep 0.05; done; \
      castell session run -n 1 -- md5sum /dev/zero >/dev/null & until castell session list | grep -q 'running.*md5sum'; do sleep 0.05; done",
    ),
    ("castell predict --trace a=", "castell distances --trace a.trace -- ./triad && cp a.trace b.trace"),
    ("--partition shared", "scontrol create PartitionName=shared Nodes=ALL"),
    ("mpirun ./analysis", "export PATH=$PWD/.mpich:$PATH"),
];

/// What would take long, or wants what is not everybody's, and what is run instead.
pub const SMALLER: &[(&str, &str)] = &[
    ("--ops allreduce --ranks 4", "--samples 2 --rounds 1 --ops allreduce --ranks 4 --bytes 8"),
    ("castell bench collectives --", "castell bench collectives --samples 2 --rounds 1 --"),
    ("castell bench collectives", "castell bench collectives --samples 2 --rounds 1 --ops barrier"),
    ("castell bench pingpong", "castell bench pingpong --bytes 8 --samples 2 --rounds 1"),
    (
        "castell bench localops --bytes 4096,1048576 --samples 100 --rounds 9",
        "castell bench localops --bytes 64 --samples 1 --rounds 1",
    ),
    (
        "castell bench net --net tcp,tcp+tls,esp=eth0,fabric",
        "castell bench net --no-peers --per-host 1 --samples 1 --rounds 1 --ops barrier --net tcp,tcp+tls",
    ),
    (
        "castell bench net --hosts node1,node2 --per-host 1,8",
        "castell bench net --no-peers --samples 1 --rounds 1 --ops barrier --hosts node1,node2 --per-host 1",
    ),
    ("castell bench net", "castell bench net --no-peers --samples 2 --rounds 1 --ops barrier"),
    ("fib wave --workers 8", "fib:number=10 wave:side=10 --workers 2 --samples 1 --rounds 1"),
    ("castell bench omp", "castell bench omp --samples 1 --rounds 1"),
    (
        "chain axpy:elements=1073741824,block=1024",
        "chain:tasks=100 axpy:elements=1024,block=64 --no-peers --samples 1 --rounds 1",
    ),
    ("potrf:order=4096,tile=128", "potrf:order=128,tile=64 --no-peers --samples 1 --rounds 1"),
    (
        "castell bench tasks --scheduler",
        "castell bench tasks empty:tasks=100 --no-peers --samples 1 --rounds 1 --scheduler",
    ),
    ("castell bench tasks", "castell bench tasks --no-peers --samples 1 --rounds 1"),
    ("castell bench metg", "castell bench metg --workers 1 --no-peers --samples 1 --rounds 1"),
    ("castell bench sim --ranks 16384,262144", "castell bench sim --ranks 16 --samples 1 --rounds 1"),
    (
        "castell bench sim --ranks 16384 --trace sweep3d.goal",
        "castell bench sim --ranks 16 --samples 1 --rounds 1 --simgrid-max 1 --trace vectors/sim/sweep3d-4.goal",
    ),
    ("--busy", "--busy --runs 20"),
    ("castell tune knobs", "castell tune knobs --samples 8 --budget 8 --rounds 1"),
    ("castell tune hosts", "castell tune hosts --bytes 8"),
    ("castell tune export", "castell tune export"),
    ("castell tune", "castell tune --ops barrier --ranks 2 --rounds 1 --no-peers"),
    ("ls -lR /usr", "ls -l /usr"),
    ("castell probe --distance 1G", "castell probe --seconds 0.1 --distance 64M"),
    ("castell probe", "castell probe --seconds 0.1"),
    // Something that takes its time, and processes that run already.
    (
        "castell slowdown --who 4711,4712 -- ./program",
        "castell slowdown --pairs 7 --interval 20 --sizes 64K \
         --who $(sleep 600 >/dev/null & echo $!),$(sleep 600 >/dev/null & echo $!) -- ./a",
    ),
    (
        "castell slowdown --svg curves.svg -- ./program",
        "castell slowdown --pairs 7 --interval 20 --sizes 64K --svg curves.svg -- ./a",
    ),
    // A folder like the kernel's, which no machine here has.
    (
        "castell slowdown --ways 0-3 -- ./program",
        "mkdir -p .resctrl/info/L3 && echo L3:0=7ff > .resctrl/schemata && echo 7ff > .resctrl/info/L3/cbm_mask && \
         castell slowdown --resctrl .resctrl --pairs 7 --interval 20 --sizes 64K --ways 0-3 -- ./a",
    ),
    ("castell slowdown -- ./program", "castell slowdown --pairs 7 --interval 20 --sizes 64K -- ./a"),
    ("castell slowdown", "castell slowdown --pairs 7 --interval 20 --sizes 64K"),
    (
        "castell profile -p 4711 --seconds 10",
        "castell profile -p $(sleep 600 >/dev/null & echo $!) --seconds 1",
    ),
    ("--split search cg:1000", "--split search cg:20 --cores 2"),
    ("./b --measure", "./b --measure --runs 1"),
    ("lublin:jobs=100000", "lublin:jobs=1000"),
    ("--every 5", "--every 1"),
    ("seq 300000", "seq 3000"),
    ("matrix 1024 100 4", "matrix 128 20 2"),
    ("castell predict --simulate", "castell predict --scale 64 --simulate"),
    ("YOUR_PROGRAM", "./app"),
    // One of a distribution that has two.
    ("mpiexec -hosts", "mpiexec.mpich -hosts"),
    ("pmi2 -n 4 ./app", "pmi2 -n 4 ./app-of-mpich"),
    ("pmi2 -N 2 -n 8 ./app", "pmi2 -N 2 -n 8 ./app-of-mpich"),
    ("mpirun -n 4 python", "$MPI4PY/mpirun -n 4 $MPI4PY/python"),
    // Slurm's plug-in for PMIx does not bear nodes that are one host; hosts_launchers.rs has some that are not.
    ("pmix -N 2 -n 8", "pmix -N 1 -n 4"),
    // It is built: cargo finds what is to be, and no more.
    ("cargo build --release", "cargo tree --locked --offline --depth 0"),
    (
        "cargo xtask install --prefix /opt/castell",
        "cargo xtask install --profile $PROFILE --destdir $PWD/.installed --prefix /opt/castell",
    ),
    ("cargo xtask install", "cargo xtask install --profile $PROFILE --destdir $PWD/.installed"),
];

/// Whose numbers are those of a machine or of a moment.
pub const MEASURES: &[&str] = &[
    "castell session",
    "castell strategy status",
    "castell strategy replay",
    "castell strategy simulate --recorded",
    "castell cpus",
    "castell xdp",
    "./matrix",
    "./product",
    "-v -- ./program",
    "--ways -- ./program",
];

/// Where nothing of what is printed has to be the same elsewhere.
pub const VARIES: &[&str] = &["castell ways --explain", "castell tune knobs"];

/// What a command has started, or ended, is there, or gone, when another one succeeds: readers type more slowly.
pub const AFTER: &[(&str, &str)] = &[
    ("castell daemon", "castell strategy status"),
    ("kill %1", "! castell strategy status"),
    ("castell session run", "castell session list | grep -qF \"PROGRAM\""),
    ("castell omp --malleable", "castell cpus | grep -q $!"),
    ("CASTELL_TASKS_MAILBOX", "castell cpus | grep -q $!"),
];
