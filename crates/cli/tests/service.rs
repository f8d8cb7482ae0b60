//! `castell daemon` under a service manager: its units, sockets that are handed over, and what it says when it is ready.

mod patience;

use patience::{said, until};
use std::io::{BufRead as _, BufReader};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");

/// It is killed with this.
struct Beside(Child);

impl Beside {
    fn start(command: &mut Command) -> Beside {
        Beside(command.stdin(Stdio::null()).spawn().expect("it starts"))
    }

    fn end(mut self) -> Option<i32> {
        let killed = Command::new("kill").arg(self.0.id().to_string()).status();
        assert!(killed.expect("kill").success());
        self.0.wait().expect("a child").code()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn daemon(folder: &Path) -> Command {
    let mut command = Command::new(CASTELL);
    command.arg("daemon").stderr(Stdio::piped());
    command.env("XDG_RUNTIME_DIR", folder).env_remove("CASTELL_DAEMON").env_remove("NOTIFY_SOCKET");
    command
}

fn status(socket: &Path) -> Output {
    let mut command = Command::new(CASTELL);
    command.args(["strategy", "status", "--socket"]).arg(socket).output().expect("castell starts")
}

#[test]
fn the_units_are_sound() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let folder = tempfile::tempdir().expect("a folder");
    // With the program where it is here, and a user for those that are for one.
    let copied: Vec<PathBuf> =
        std::fs::read_dir(&units).expect("units").map(|unit| unit.expect("a file").path()).collect();
    let copied: Vec<_> =
        copied.iter().filter(|unit| unit.extension().is_some_and(|ending| ending != "md")).collect();
    assert_eq!(copied.len(), 5, "{copied:?}");
    let mut names = Vec::new();
    for unit in copied {
        let name = unit.file_name().expect("a name").to_string_lossy().replace('@', "@root");
        let text = std::fs::read_to_string(unit).expect("text");
        assert!(name.ends_with(".socket") || text.contains("/usr/local/bin/castell daemon"), "{name}");
        let text = text.replace("/usr/local/bin/castell", CASTELL);
        std::fs::write(folder.path().join(&name), text).expect("a file");
        names.push(name);
    }
    for name in names {
        let mut verify = Command::new("systemd-analyze");
        verify.args(["--man=no", "verify"]).arg(folder.path().join(&name));
        let is_systems = name.contains('@') || name.contains("node");
        verify.args((!is_systems).then_some("--user")).env("XDG_RUNTIME_DIR", folder.path());
        let output = verify.output().expect("systemd-analyze starts");
        assert!(output.status.success() && said(&output).is_empty(), "{name}: {}", said(&output));
    }
}

#[test]
fn it_takes_the_socket_that_is_handed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("d.sock");
    let mut command = Command::new("systemd-socket-activate");
    command.arg("--listen").arg(&socket).args([CASTELL, "daemon", "--strategy", "long-term"]);
    command.stderr(Stdio::null()).env("XDG_RUNTIME_DIR", folder.path());
    let manager = Beside::start(&mut command);
    until("the manager listens", || socket.exists());
    // Whoever asks first starts it, and is answered.
    let first = status(&socket);
    assert!(said(&first).starts_with("long-term decides"), "{}", said(&first));
    let second = status(&socket);
    assert!(second.status.success(), "{}", said(&second));
    // The manager goes on to listen there, so the file stays.
    assert_eq!(manager.end(), Some(0));
    assert!(socket.exists());
}

#[test]
fn the_manager_hears_when_it_is_ready() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let hidden = format!("castell-test-{}", std::process::id());
    let abstract_name = SocketAddr::from_abstract_name(&hidden).expect("a name");
    let sockets = [
        (UnixDatagram::bind(&path).expect("a socket"), path.to_string_lossy().into_owned()),
        (UnixDatagram::bind_addr(&abstract_name).expect("a socket"), format!("@{hidden}")),
    ];
    for (notify, name) in sockets {
        notify.set_read_timeout(Some(Duration::from_secs(60))).expect("may wait");
        let heard = || {
            let mut bytes = [0; 64];
            let count = notify.recv(&mut bytes).expect("it is told");
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        };
        let socket = folder.path().join("d.sock");
        let started =
            Beside::start(daemon(folder.path()).arg("--socket").arg(&socket).env("NOTIFY_SOCKET", &name));
        assert_eq!(heard(), "READY=1");
        // It listens by then.
        assert!(status(&socket).status.success());
        assert_eq!(started.end(), Some(0));
        assert_eq!(heard(), "STOPPING=1");
        assert!(!socket.exists(), "nobody else listens there");
    }
}

#[test]
fn what_is_for_others_or_of_another_kind_is_not_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("d.sock");
    // For another process: a parent's, perhaps.
    let mut others = daemon(folder.path());
    others.arg("--socket").arg(&socket).env("LISTEN_PID", "1").env("LISTEN_FDS", "1");
    let mut started = Beside::start(&mut others);
    let mut line = String::new();
    BufReader::new(started.0.stderr.take().expect("piped")).read_line(&mut line).expect("text");
    assert!(line.contains(&format!("listens at {}", socket.display())), "{line}");
    assert_eq!(started.end(), Some(0));
    // A descriptor that is no socket.
    let mut shell = Command::new("sh");
    shell.args(["-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" daemon 3</dev/null", CASTELL]);
    let output = shell.env("XDG_RUNTIME_DIR", folder.path()).output().expect("sh starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("it is no Unix socket that listens"), "{}", said(&output));
}
