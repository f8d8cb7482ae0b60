//! The page of a timeline in a real browser: Chromium without a window, driven by chromedriver (WebDriver).

#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_base::{Rank, Tag};
use castell_trace::{Activity, Message, Span, Timeline, write_html};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A browser with one page; it ends with this.
struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.answer("DELETE", "", &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Browser {
    /// `None` where there is no Chromium.
    fn start() -> Option<Browser> {
        // It chooses a port for one protocol of the internet and takes it for the other one, too, which another driver may have meanwhile:
        // then it ends.
        let mut said = String::new();
        let started = (0..5).find_map(|_| Browser::driver(&mut said).transpose());
        let (driver, port) =
            match started.unwrap_or_else(|| panic!("chromedriver says no port, five times: {said}")) {
                Ok(started) => started,
                Err(error) => {
                    skipped::skip("chromedriver", &error.to_string());
                    return None;
                }
            };
        let profile = tempfile::tempdir().expect("a folder");
        let mut browser = Browser { driver, port, session: String::new(), _profile: profile };
        let folder = format!("--user-data-dir={}", browser._profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1400,800",
            &folder,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}});
        let answer = browser.answer("POST", "", &wanted);
        browser.session =
            answer["sessionId"].as_str().unwrap_or_else(|| panic!("no browser: {answer}")).to_owned();
        Some(browser)
    }

    /// A driver and its port; `None` if it ended before it had one.
    fn driver(said: &mut String) -> std::io::Result<Option<(Child, u16)>> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        for line in lines {
            let port = line.split("successfully on port ").nth(1);
            if let Some(port) = port.and_then(|port| port.trim_end_matches('.').parse().ok()) {
                return Ok(Some((driver, port)));
            }
            said.push_str(&line);
            said.push('\n');
        }
        driver.wait()?;
        Ok(None)
    }

    /// One request; the value of its answer.
    fn answer(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let session = if self.session.is_empty() { String::new() } else { format!("/{}", self.session) };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("chromedriver listens");
        stream.set_read_timeout(Some(Duration::from_secs(240))).expect("a timeout");
        write!(
            stream,
            "{method} /session{session}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .expect("a request");
        let mut reader = BufReader::new(stream);
        let (mut line, mut bytes) = (String::new(), 0);
        while reader.read_line(&mut line).expect("a header") > 2 {
            if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                bytes = length.trim().parse().expect("a length");
            }
            line.clear();
        }
        let mut text = vec![0; bytes];
        reader.read_exact(&mut text).expect("the whole answer");
        serde_json::from_slice::<Value>(&text).expect("JSON")["value"].take()
    }

    fn open(&self, file: &Path) {
        let answer = self.answer("POST", "/url", &json!({"url": format!("file://{}", file.display())}));
        assert!(answer.is_null(), "{answer}");
        assert_eq!(self.run("return typeof window.castell"), "object");
    }

    /// What a script returns.
    #[track_caller]
    fn run(&self, script: &str) -> Value {
        let answer = self.answer("POST", "/execute/sync", &json!({"script": script, "args": []}));
        assert!(answer["error"].is_null(), "{script}: {answer}");
        answer
    }

    fn text(&self, script: &str) -> String {
        self.run(script).as_str().expect("a text").to_owned()
    }

    /// The pointer, as a hand would move it.
    fn point(&self, actions: Value) {
        let pointer = json!({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions});
        self.answer("POST", "/actions", &json!({"actions": [pointer]}));
    }

    fn click(&self, x: f64, y: f64) {
        self.point(json!([
            {"type": "pointerMove", "x": x.round() as i64, "y": y.round() as i64, "duration": 0},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0}
        ]));
    }

    fn wheel(&self, x: f64, y: f64, by: i64) {
        let scroll = json!({"type": "scroll", "x": x.round() as i64, "y": y.round() as i64, "deltaX": 0, "deltaY": by});
        self.answer(
            "POST",
            "/actions",
            &json!({"actions": [{"type": "wheel", "id": "wheel", "actions": [scroll]}]}),
        );
        self.run("castell.draw()");
    }

    fn press(&self, key: &str) {
        let keys = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        self.answer(
            "POST",
            "/actions",
            &json!({"actions": [{"type": "key", "id": "keys", "actions": keys}]}),
        );
    }

    /// Where a moment of a row is on the page.
    fn place(&self, rank: u32, ps: u64) -> (f64, f64) {
        let place = self.run(&format!(
            "const at = castell.layout(), box = document.getElementById('canvas').getBoundingClientRect();
             return [box.x + at.x({ps}), box.y + at.y({rank}) + at.row / 2]"
        ));
        (place[0].as_f64().expect("x"), place[1].as_f64().expect("y"))
    }

    /// Keeps what is seen, for people, where `CASTELL_SCREENSHOTS` names a folder.
    fn keep(&self, name: &str) {
        let Some(folder) = std::env::var_os("CASTELL_SCREENSHOTS") else { return };
        let picture = self.answer("GET", "/screenshot", &Value::Null);
        let file = Path::new(&folder).join(format!("{name}.png.base64"));
        std::fs::write(file, picture.as_str().expect("a picture")).expect("a file");
    }
}

fn written(timeline: &Timeline, folder: &tempfile::TempDir) -> std::path::PathBuf {
    let path = folder.path().join("timeline.html");
    let mut out = std::io::BufWriter::new(std::fs::File::create(&path).expect("a file"));
    write_html(timeline, &mut out).and_then(|()| out.flush()).expect("written");
    path
}

/// Rank 0 computes and sends, rank 1 waits and computes, rank 2 has its own work.
fn small() -> Timeline {
    let span = |rank, name: &str, activity, start_ns: u64, end_ns: u64| Span {
        rank: Rank(rank),
        name: name.into(),
        activity,
        start_ps: 1000 * start_ns,
        end_ps: 1000 * end_ns,
    };
    let spans = vec![
        span(0, "work: calc 400", Activity::Compute, 0, 400),
        span(0, "out: send 4096b to 1 tag 7", Activity::Send, 400, 450),
        span(1, "out: waits for rank 0", Activity::Wait, 0, 480),
        span(1, "in: recv 4096b from 0 tag 7", Activity::Recv, 480, 500),
        span(1, "after <b>: calc 500", Activity::Compute, 500, 1000),
        span(2, "own: calc 300", Activity::Compute, 100, 400),
    ];
    let message = Message {
        from: Rank(0),
        to: Rank(1),
        tag: Tag(7),
        bytes: 4096,
        sent_ps: 450_000,
        head_ps: 480_000,
        arrived_ps: 480_000,
        received_ps: 500_000,
        travel: None,
    };
    let (title, subtitle) = ("halo <i>".into(), "three ranks".into());
    Timeline { title, subtitle, ranks: 3, spans, messages: vec![message], ..Timeline::default() }
}

#[test]
fn the_page_does_what_it_says() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    browser.open(&written(&small(), &folder));
    assert_eq!(browser.text("return document.getElementById('title').textContent"), "halo <i>");
    let panel = || browser.text("return document.getElementById('panel').innerText");
    let summary = panel();
    assert!(summary.contains("6 operations, 1 messages, 3 ranks, 1 us."), "{summary}");
    assert!(summary.contains("critical path, 5 steps: computing 900 ns (90 %)"), "{summary}");

    // A click tells what an operation is, and its message.
    let (x, y) = browser.place(1, 490_000);
    browser.click(x, y);
    let told = panel();
    assert!(
        told.contains("in: recv 4096b from 0 tag 7")
            && told.contains("rank 1, recv: 480 ns .. 500 ns, 20 ns"),
        "{told}"
    );
    assert!(
        told.contains("from rank 0") && told.contains("4096 bytes") && told.contains("sent 450 ns"),
        "{told}"
    );
    browser.keep("selected");
    let (x, y) = browser.place(1, 700_000);
    browser.click(x, y);
    assert!(panel().contains("after <b>: calc 500"), "{}", panel());

    // The wheel zooms about the pointer, dragging moves, 0 shows all again.
    let shown = || {
        let view = browser.run("return [castell.view.from, castell.view.to]");
        (view[0].as_f64().expect("from"), view[1].as_f64().expect("to"))
    };
    let whole = shown();
    browser.wheel(x, y, -600);
    let near = shown();
    assert!(
        near.1 - near.0 < 0.6 * (whole.1 - whole.0) && near.0 < 700_000.0 && 700_000.0 < near.1,
        "{near:?}"
    );
    browser.point(json!([
        {"type": "pointerMove", "x": 900, "y": y.round() as i64, "duration": 0}, {"type": "pointerDown", "button": 0},
        {"type": "pointerMove", "x": 1000, "y": y.round() as i64, "duration": 50}, {"type": "pointerUp", "button": 0}
    ]));
    assert!(shown().0 < near.0, "{:?} {near:?}", shown());
    browser.press("0");
    assert_eq!(shown(), whole);

    // Keys walk the critical path.
    for (step, part) in [
        (1, "computing"),
        (2, "sending"),
        (3, "message"),
        (4, "receiving"),
        (5, "computing"),
        (5, "computing"),
    ] {
        browser.press("n");
        let told = browser.text("return document.getElementById('step').textContent");
        assert!(told.starts_with(&format!("step {step} of 5: {part}")), "{told}");
    }
    browser.press("p");
    browser.press("p");
    let told = browser.text("return document.getElementById('step').textContent");
    assert!(told.contains("message, 30 ns: 4096 bytes from rank 0 to 1, tag 7"), "{told}");
    browser.press("0");
    browser.run("castell.draw()");
    browser.keep("path");
    filters(&browser);
    // Whoever asked for some ranks sees these first, and can have the others.
    browser.open(&written(&Timeline { only: Some(vec![Rank(1), Rank(2)]), ..small() }, &folder));
    assert_eq!(browser.text("return document.getElementById('ranks').value"), "1-2");
    assert_eq!(browser.run("castell.draw(); return castell.layout().all.count"), 2);
    browser.run("const field = document.getElementById('ranks'); field.value = ''; field.dispatchEvent(new Event('input'))");
    assert_eq!(browser.run("castell.draw(); return castell.layout().all.count"), 3);
}

/// Ranks, kinds and words leave others out.
fn filters(browser: &Browser) {
    let drawn = || browser.run("castell.draw(); return castell.drawnSpans");
    let type_in = |field: &str, text: &str| {
        browser.run(&format!(
            "const field = document.getElementById('{field}'); field.value = '{text}'; field.dispatchEvent(new Event('input'))"
        ));
    };
    assert_eq!(drawn(), 6);
    type_in("ranks", "0, 2-9");
    assert_eq!((drawn(), browser.run("return castell.layout().all.count")), (3.into(), 2.into()));
    type_in("ranks", "");
    type_in("find", "calc");
    assert_eq!(drawn(), 3);
    type_in("find", "");
    browser.run("document.querySelector('input[data-kind=compute]').click()");
    assert_eq!(drawn(), 3);
}

#[test]
fn a_million_operations_are_drawn_and_nothing_is_asked_of_anybody() {
    let Some(browser) = Browser::start() else { return };
    let (ranks, each) = (64u32, 15_625u64);
    let spans = (0..ranks).flat_map(|rank| {
        (0..each).map(move |at| {
            let start_ps = at * 10_000 + u64::from(rank) * 13;
            let activity = Activity::ALL[(at % 4) as usize];
            Span {
                rank: Rank(rank),
                name: format!("op{}", at % 97),
                activity,
                start_ps,
                end_ps: start_ps + 9_000,
            }
        })
    });
    let messages = (0..200_000u64).map(|at| {
        let (from, sent_ps) = ((at % 64) as u32, at * 700);
        let (to, received_ps) = ((from + 1) % 64, sent_ps + 2_000);
        Message {
            from: Rank(from),
            to: Rank(to),
            tag: Tag(1),
            bytes: 8,
            sent_ps,
            head_ps: sent_ps + 1_500,
            arrived_ps: sent_ps + 1_500,
            received_ps,
            travel: None,
        }
    });
    let (spans, messages) = (spans.collect(), messages.collect());
    let timeline = Timeline { title: "a million".into(), ranks, spans, messages, ..Timeline::default() };
    let folder = tempfile::tempdir().expect("a folder");
    browser.open(&written(&timeline, &folder));
    assert_eq!(browser.run("return castell.spans.start.length"), 1_000_000);
    browser.keep("million");
    let drawn = |from: u64, to: u64| {
        let script = format!(
            "castell.view.from = {from}; castell.view.to = {to}; castell.draw(); return [castell.drawnSpans, castell.drawnMs]"
        );
        let told = browser.run(&script);
        println!("{from} .. {to} ps: {} boxes in {} ms", told[0], told[1]);
        told[0].as_u64().expect("a number")
    };
    // What a screen shows is bounded by its pixels, however much there is; close by, all is there.
    let whole = drawn(0, 156_000_000);
    assert!(whole > 60 && whole < 64 * 4 * 3000, "{whole}");
    let (first, last) = (100_000_000, 100_100_000);
    let expected = timeline
        .spans
        .iter()
        .filter(|span| span.rank.0 < 32 && span.start_ps <= last && span.end_ps >= first)
        .count();
    // So many ranks fit on the screen.
    browser.run("castell.shown.ranks = [...Array(32).keys()]");
    assert_eq!(drawn(first, last), expected as u64);
    browser.keep("near");
    // The page itself is all that was loaded.
    assert_eq!(browser.run("return performance.getEntriesByType('resource').length"), 0);
}
