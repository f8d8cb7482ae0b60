"""A quarter of an hour of one node with two users: sessions and kernels under one daemon, which is killed in the middle.

    cargo build -p castell-cli -p castell-capi
    gcc -O2 -Iinclude -Iexamples examples/kernels/matrix.c -o target/matrix -Ltarget/debug -lcastell -lpthread -ldl
    python3 experiments/node-quarter-hour/run.py target/debug/castell target/matrix [MINUTES]    as root; writes transcript.txt

Alice (user 3001) has a simulation that runs all the time, on all processors; Bob (3002) comes now and then with an analysis. Both programs
have their matrix products computed on one core or on all, as the daemon says.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
USERS = {"alice": 3001, "bob": 3002, "root": 0}


class Node:
    def __init__(self, castell, matrix, minutes):
        self.begun = time.monotonic()
        self.minute_s = minutes * 60 / 15
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="castell-node-"))
        self.folder.chmod(0o755)
        # Where other users can read them.
        self.castell, self.matrix = (shutil.copy(path, self.folder) for path in (castell, matrix))
        shutil.copy(pathlib.Path(castell).parent / "libcastell.so", self.folder / "libcastell.so.0.1")
        self.transcript = open(HERE / "transcript.txt", "w", buffering=1)
        self.beside = []
        self.daemon, self.days = None, 0

    def say(self, text):
        print(text, flush=True)
        print(text, file=self.transcript)

    def stamp(self):
        passed = (time.monotonic() - self.begun) * 60 / self.minute_s
        return f"[{int(passed) // 60:02}:{int(passed) % 60:02}]"

    def command(self, user, words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("CASTELL", "XDG"))}
        environment |= {
            "CASTELL_DAEMON": str(self.folder / "daemon.sock"),
            "CASTELL_SESSION_SOCKET": str(self.folder / "daemon.sessions.sock"),
            "LD_LIBRARY_PATH": str(self.folder),
            "PATH": f"{self.folder}:{environment['PATH']}",
        }
        number = str(USERS[user])
        words = ["setpriv", "--reuid", number, "--regid", number, "--clear-groups", *words]
        return {"args": words, "env": environment, "cwd": "/", "stdin": subprocess.DEVNULL}

    def shown(self, user, text):
        prompt = "#" if user == "root" else "$"
        self.say(f"{self.stamp()} {user}{prompt} {text}")

    def does(self, user, *words):
        """Runs a command to its end."""
        self.shown(user, " ".join(words))
        done = subprocess.run(**self.command(user, words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.stdout.strip():
            self.say(done.stdout.rstrip())
        if done.returncode:
            self.say(f"(exit code {done.returncode})")

    def starts(self, user, *words):
        """Leaves a command running; what it says stands in the transcript when it ends."""
        self.shown(user, " ".join(words) + " &")
        log = open(self.folder / f"log-{len(self.beside)}", "w+")
        process = subprocess.Popen(**self.command(user, words), stdout=log, stderr=subprocess.STDOUT)
        self.beside.append((user, words, process, log))

    def start_daemon(self):
        self.days += 1
        day = self.folder / f"day-{self.days}.jsonl"
        words = ["castell", "daemon", "--socket", str(self.folder / "daemon.sock"), "--allow", "3001,3002"]
        words += ["--session-policy", "surpass", "--forbid", "low:all_cores", "--record", str(day)]
        self.shown("root", f"castell daemon --allow 3001,3002 --session-policy surpass --forbid low:all_cores --record day-{self.days}.jsonl &")
        self.daemon = subprocess.Popen(**self.command("root", words), stderr=subprocess.DEVNULL)
        for words in (["castell", "strategy", "status"], ["castell", "session", "set", "--policy", "surpass"]):
            # Until both answer.
            while subprocess.run(**self.command("root", words), capture_output=True).returncode:
                time.sleep(0.05)

    def reap(self):
        for entry in [entry for entry in self.beside if entry[2].poll() is not None]:
            user, words, process, log = entry
            log.seek(0)
            lines = log.read().strip().splitlines()
            self.say(f"{self.stamp()} {user}: `{' '.join(words)}` has ended with {process.returncode}" + "".join(f"\n  {line}" for line in lines[-3:]))
            self.beside.remove(entry)

    def wait_until(self, minute):
        while time.monotonic() - self.begun < minute * self.minute_s:
            self.reap()
            time.sleep(0.1)

    def look(self):
        self.does("root", "castell", "session", "list")
        self.does("root", "castell", "strategy", "status")


def main():
    castell, matrix = sys.argv[1:3]
    node = Node(castell, matrix, float(sys.argv[3]) if len(sys.argv) > 3 else 15)
    analysis = ["castell", "session", "run", "-n", "1", "--estimate", "30s", "--", "matrix", "512", "120", "1"]
    simulation = ["castell", "session", "run", "--estimate", "1h", "--", "sh", "-c", "while :; do matrix 384 400 3 >/dev/null; done"]
    try:
        node.start_daemon()
        node.starts("alice", *simulation)
        plan = [
            (1, lambda: node.look()),
            (1.5, lambda: node.starts("bob", *analysis)),
            (1.7, lambda: node.look()),
            (1.75, lambda: node.does("bob", "castell", "session", "list")),
            (2.9, lambda: node.does("root", "castell", "strategy", "load", "banking")),
            (3, lambda: node.does("alice", "castell", "session", "explain", "1")),
            (4, lambda: node.does("bob", "castell", "session", "stop", "1")),
            (4.1, lambda: node.does("bob", "castell", "strategy", "governor", "low")),
            (4.2, lambda: node.does("root", "castell", "strategy", "governor", "low")),
            (5, lambda: node.look()),
            (5.5, lambda: node.does("root", "castell", "strategy", "governor", "high")),
            (6, lambda: node.starts("bob", *analysis)),
            (6.2, lambda: (node.shown("root", "kill -KILL (the daemon)"), node.daemon.send_signal(signal.SIGKILL), node.daemon.wait())),
            (6.25, lambda: node.start_daemon()),
            (6.4, lambda: node.look()),
            (8, lambda: node.does("alice", "castell", "session", "stop", "1")),
            (8.2, lambda: node.look()),
            (9, lambda: node.does("alice", "castell", "session", "resume", "1")),
            (10, lambda: node.does("root", "castell", "session", "set", "--policy", "sidestep")),
            (10.5, lambda: node.starts("bob", *analysis)),
            (10.7, lambda: node.look()),
            (10.9, lambda: node.does("root", "castell", "top", "--once")),
            (13, lambda: node.does("alice", "castell", "session", "explain", "1")),
            (14, lambda: node.does("alice", "castell", "session", "end", "1")),
            (14.5, lambda: node.look()),
        ]
        for minute, act in plan:
            node.wait_until(minute)
            act()
        node.wait_until(14.9)
        node.shown("root", "kill -TERM (the daemon)")
        node.daemon.terminate()
        node.daemon.wait()
        for day in range(1, node.days + 1):
            os.chdir(node.folder)
            node.shown("root", f"castell strategy replay day-{day}.jsonl")
            words = ["castell", "strategy", "replay", str(node.folder / f"day-{day}.jsonl")]
            done = subprocess.run(**node.command("root", words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            node.say(done.stdout.rstrip())
    finally:
        for _, _, process, _ in node.beside:
            process.terminate()
        if node.daemon.poll() is None:
            node.daemon.terminate()
        for _, _, process, _ in node.beside:
            process.wait()
        shutil.rmtree(node.folder, ignore_errors=True)


main()
