//! Sessions that run beside a test.

use std::process::{Child, Command};

/// `castell session run`, which ends with this.
pub struct Beside(pub Child);

impl Beside {
    /// Its exit code, when it has ended.
    pub fn code(mut self) -> Option<i32> {
        self.0.wait().expect("a child").code()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // It ends its program, too, which it could not if it was killed.
        if let Ok(None) = self.0.try_wait() {
            let _ = Command::new("kill").arg(self.0.id().to_string()).status();
            let _ = self.0.wait();
        }
    }
}
