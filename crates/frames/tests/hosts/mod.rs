//! Network namespaces on a bridge, as hosts on one segment: real interfaces, real frames. This process is in a namespace of its own, in which
//! it may do that.

use crate::skipped::skip;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Says that this process is the one in a namespace of its own.
const INSIDE: &str = "CASTELL_TEST_INSIDE";

/// Runs a test of this name in a namespace of its own, as `unshare` makes it with these options, once more; true: this is it.
pub fn is_inside(name: &str, options: &[&str]) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let unshare = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(options).args(words);
        command
    };
    match unshare(&["ip", "link", "add", "name", "x0", "type", "veth", "peer", "name", "x1"]).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            skip("lab", &String::from_utf8_lossy(&output.stderr));
            return false;
        }
        Err(error) => {
            skip("lab", &error.to_string());
            return false;
        }
    }
    let me = std::env::current_exe().expect("a program knows its path");
    let output = unshare(&[])
        .arg(me)
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output();
    let output = output.expect("it starts");
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    println!("{said}");
    assert!(output.status.success() && said.contains("1 passed"), "{}", output.status);
    false
}

/// A shell alone in its network namespace, which ends when nobody writes to it any more.
struct Host {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    namespace: File,
}

pub struct Hosts {
    hosts: Vec<Host>,
    home: File,
}

/// Runs `ip`, which has to succeed.
pub fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output().expect("`ip` is there");
    assert!(output.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Host {
    fn start(index: usize, mtu: usize, bridged: bool) -> Host {
        let mut child = Command::new("unshare")
            .args(["-n", "sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`unshare` is there");
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut host = |mut input: ChildStdin, command: &str| {
            writeln!(input, "{command} && echo done").expect("the shell reads");
            let mut line = String::new();
            output.read_line(&mut line).expect("the shell answers");
            assert_eq!(line, "done\n", "{command}");
            input
        };
        let input = host(input.expect("a pipe"), "true");
        let (pid, line) = (child.id().to_string(), format!("v{index}"));
        let mtu = mtu.to_string();
        ip(&[
            "link", "add", "name", &line, "mtu", &mtu, "type", "veth", "peer", "name", "e0", "mtu", &mtu,
            "netns", &pid,
        ]);
        if bridged {
            ip(&["link", "set", &line, "master", "bridge"]);
        }
        ip(&["link", "set", &line, "up"]);
        let input = host(input, "ip link set e0 up");
        let namespace = File::open(format!("/proc/{pid}/ns/net")).expect("a namespace");
        Host { child, input: Some(input), output, namespace }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
        let _ = self.output.get_mut();
    }
}

impl Hosts {
    /// So many, each with an interface `e0`, the other ends of which are `v0`, `v1`, … here: on a bridge, or with nothing between them.
    pub fn new(count: usize, mtu: usize, bridged: bool) -> Hosts {
        let home = File::open("/proc/thread-self/ns/net").expect("a namespace");
        ip(&[
            "link",
            "add",
            "bridge",
            "type",
            "bridge",
            "stp_state",
            "0",
            "forward_delay",
            "0",
            "mcast_snooping",
            "0",
        ]);
        ip(&["link", "set", "bridge", "mtu", &mtu.to_string(), "up"]);
        Hosts { hosts: (0..count).map(|index| Host::start(index, mtu, bridged)).collect(), home }
    }

    /// Does something on a host.
    pub fn on<R>(&self, host: usize, action: impl FnOnce() -> R) -> R {
        let enter = |namespace: &File| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("it may be entered");
        };
        enter(&self.hosts[host].namespace);
        let outcome = action();
        enter(&self.home);
        outcome
    }
}
