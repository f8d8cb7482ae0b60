//! Gives metrics to whoever asks for them with HTTP: `GET /metrics`, and nothing else. Each connection has one request, a bounded head, and a
//! bounded time; who comes when too many are here is sent away.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a request's line and headers.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// For a whole request, and again for the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests at a time.
const AT_A_TIME_MAX: usize = 8;
/// After the system has refused a connection: it has no descriptors left, for example.
const REST: Duration = Duration::from_millis(100);

/// What answers are called.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Serves in threads of its own as long as the process lives; `gather` makes the text, at any number of times at once.
pub fn expose(listener: TcpListener, gather: impl Fn() -> String + Send + Sync + 'static) {
    let (gather, here) = (Arc::new(gather), Arc::new(AtomicUsize::new(0)));
    thread::spawn(move || {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(REST);
                continue;
            };
            let guest = Guest::enter(&here);
            if guest.is_too_many() {
                let _ =
                    answer(&stream, "503 Service Unavailable", PLAIN, "too many requests at a time\n", true);
                continue;
            }
            let gather = gather.clone();
            thread::spawn(move || {
                let _guest = guest;
                // Who has gone needs no answer.
                let _ = serve(&stream, &*gather);
            });
        }
    });
}

/// Counted as long as it is here.
struct Guest(Arc<AtomicUsize>, usize);

impl Guest {
    fn enter(here: &Arc<AtomicUsize>) -> Guest {
        Guest(here.clone(), here.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn is_too_many(&self) -> bool {
        self.1 > AT_A_TIME_MAX
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(stream: &TcpStream, gather: &dyn Fn() -> String) -> io::Result<()> {
    let head = match head(stream) {
        Ok(head) => head,
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            return answer(
                stream,
                "431 Request Header Fields Too Large",
                PLAIN,
                "a request has 8 KiB\n",
                true,
            );
        }
        Err(error) => return Err(error),
    };
    let line = head.lines().next().unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else {
        return answer(stream, "400 Bad Request", PLAIN, "this is no request of HTTP\n", true);
    };
    let has_body = method != "HEAD";
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        _ if !version.starts_with("HTTP/1.") => {
            answer(stream, "505 HTTP Version Not Supported", PLAIN, "HTTP/1.1 is spoken here\n", true)
        }
        ("GET" | "HEAD", "/metrics") => answer(stream, "200 OK", OPEN_METRICS, &gather(), has_body),
        ("GET" | "HEAD", _) => answer(stream, "404 Not Found", PLAIN, "metrics are at /metrics\n", has_body),
        _ => answer(stream, "405 Method Not Allowed", PLAIN, "metrics can be read only\n", true),
    }
}

/// The request's line and headers, until the empty line.
fn head(mut stream: &TcpStream) -> io::Result<String> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => head.extend(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n") {
            return Ok(String::from_utf8_lossy(&head).into_owned());
        }
        if head.len() > HEAD_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
    }
}

fn answer(mut stream: &TcpStream, status: &str, kind: &str, body: &str, has_body: bool) -> io::Result<()> {
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    stream.set_write_timeout(Some(PATIENCE))?;
    let body = if has_body { body } else { "" };
    stream.write_all(format!("{head}{body}").as_bytes())?;
    stream.shutdown(Shutdown::Write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    fn exposed(gather: impl Fn() -> String + Send + Sync + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        expose(listener, gather);
        address
    }

    fn said(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        // It may be answered, and closed, before all of it is said.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn metrics_are_read_and_nothing_else() {
        let address = exposed(|| "up 1\n# EOF\n".to_owned());
        let whole = said(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            whole.starts_with("HTTP/1.1 200 OK\r\n") && whole.ends_with("\r\n\r\nup 1\n# EOF\n"),
            "{whole}"
        );
        assert!(
            whole.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n")
        );
        assert!(said(address, "GET /metrics?x=1 HTTP/1.0\n\n").ends_with("# EOF\n"));
        let head = said(address, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 11\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics HTTP/2\r\n\r\n", "505"),
            ("nonsense\r\n\r\n", "400"),
        ] {
            assert!(said(address, request).starts_with(&format!("HTTP/1.1 {status} ")), "{request}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(HEAD_BYTES_MAX + 2000));
        let long = said(address, &long);
        assert!(long.is_empty() || long.starts_with("HTTP/1.1 431 "), "{long}");
    }

    #[test]
    fn who_comes_when_too_many_are_here_is_sent_away() {
        let (go, may_go) = channel::<()>();
        let (begun, begins) = channel();
        let (may_go, begun) = (Mutex::new(may_go), Mutex::new(begun));
        let address = exposed(move || {
            let _ = begun.lock().expect("nobody panics").send(());
            let _ = may_go.lock().expect("nobody panics").recv();
            "# EOF\n".to_owned()
        });
        let ask = move || said(address, "GET /metrics HTTP/1.1\r\n\r\n");
        let first: Vec<_> = (0..AT_A_TIME_MAX).map(|_| thread::spawn(ask)).collect();
        (0..AT_A_TIME_MAX).for_each(|_| begins.recv().expect("all of them begin"));
        assert!(ask().contains("too many requests at a time"));
        drop(go);
        for one in first {
            assert!(one.join().expect("no panic").ends_with("# EOF\n"));
        }
    }
}
