//! The memory through which an application asks where its kernels may run. The protocol is in README.md; [`Words`] carries it out,
//! here is where its memory comes from.

mod words;

pub use words::{SLOTS, Slot, State, Words};

#[cfg(not(loom))]
mod shared {
    use super::words::{WORDS, Words};
    use crate::KernelsError;
    use castell_host::shm::Segment;
    use std::os::fd::{BorrowedFd, OwnedFd};

    /// A mailbox in memory that two processes share.
    #[derive(Debug)]
    pub struct Mailbox {
        memory: Segment,
    }

    impl Mailbox {
        /// Makes one, all of whose slots are free.
        ///
        /// # Errors
        /// There is no memory.
        pub fn create() -> Result<Mailbox, KernelsError> {
            let mailbox = Mailbox { memory: Segment::create("castell-kernels", WORDS * size_of::<u32>())? };
            mailbox.words().begin();
            Ok(mailbox)
        }

        /// Maps another process's.
        ///
        /// # Errors
        /// It is none, or memory that could be taken away.
        pub fn open(descriptor: OwnedFd) -> Result<Mailbox, KernelsError> {
            let memory = Segment::from_fd(descriptor)?;
            if memory.len() < WORDS * size_of::<u32>() {
                return Err(KernelsError::NoMailbox);
            }
            let mailbox = Mailbox { memory };
            if mailbox.words().is_sound() { Ok(mailbox) } else { Err(KernelsError::NoMailbox) }
        }

        /// What is in it.
        pub fn words(&self) -> Words<'_> {
            Words::new(self.memory.short_words())
        }

        /// To be handed to whoever decides.
        pub fn descriptor(&self) -> BorrowedFd<'_> {
            self.memory.fd()
        }
    }
}
#[cfg(not(loom))]
pub use shared::Mailbox;
