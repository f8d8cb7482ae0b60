//! Somebody who is asked again and again, in a thread of his own: one that is stopped, or on a node that cannot be reached, keeps nobody
//! else waiting.

use crate::session::words::time;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long an answer may take before the rest is shown without it.
const PATIENCE: Duration = Duration::from_secs(2);

type Answer<T> = Result<T, String>;

pub struct Source<T> {
    questions: Sender<()>,
    answers: Receiver<Answer<T>>,
    /// Since when an answer is due.
    asked: Option<Instant>,
    /// Who it is, as a sentence has it.
    who: &'static str,
}

impl<T: Send + 'static> Source<T> {
    pub fn new(who: &'static str, ask: impl Fn() -> Answer<T> + Send + 'static) -> Source<T> {
        let (questions, asked) = channel();
        let (post, answers) = channel();
        // It ends with this; one that waits for an answer, with the process.
        thread::spawn(move || {
            while asked.recv().is_ok() {
                if post.send(ask()).is_err() {
                    return;
                }
            }
        });
        Source { questions, answers, asked: None, who }
    }

    /// How it is now. Who has not answered is not asked anew, and waited for no longer.
    ///
    /// # Errors
    /// What was answered instead, or that nothing was: a sentence.
    pub fn next(&mut self) -> Answer<T> {
        let patience = if self.asked.is_some() { Duration::ZERO } else { PATIENCE };
        let asked = *self.asked.get_or_insert_with(|| {
            // Where the thread is gone, that is found below.
            let _ = self.questions.send(());
            Instant::now()
        });
        match self.answers.recv_timeout(patience) {
            Ok(answer) => {
                self.asked = None;
                answer
            }
            Err(RecvTimeoutError::Timeout) => {
                let so_long = time(asked.elapsed().as_millis() as u64);
                Err(format!("{} has not answered for {so_long}", self.who))
            }
            Err(RecvTimeoutError::Disconnected) => Err(format!("{} cannot be asked any more", self.who)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn who_does_not_answer_keeps_nobody_waiting() {
        let (go, may_go) = channel::<u32>();
        let may_go = Mutex::new(may_go);
        let mut source = Source::new("the one", move || {
            let number = may_go.lock().expect("one thread").recv().map_err(|_| "gone".to_owned())?;
            Ok(number)
        });
        go.send(1).expect("it listens");
        assert_eq!(source.next(), Ok(1));
        // Asked once more, it says nothing.
        for _ in 0..3 {
            let said = source.next().expect_err("no answer");
            assert!(said.starts_with("the one has not answered for "), "{said}");
        }
        go.send(2).expect("it listens");
        // The answer that was due comes; whatever is asked next is asked anew.
        while source.next() != Ok(2) {}
        drop(go);
        assert_eq!(source.next(), Err("gone".into()));
    }
}
