//! Target queues: commands that change list entries and portals table entries (nic.md 3.13).

use cxi_sys::records::{CqStatus, SetStateCmd, TargetCmd};

use crate::encode;
use crate::error::{EmitError, Error};
use crate::event_queue::EventQueue;
use crate::lni::Lni;
use crate::queue::CommandQueue;

/// A queue of target commands. The commands report to the event queue of the portals table entry
/// that they name.
pub struct TargetQueue {
    commands: CommandQueue,
}

impl TargetQueue {
    /// Allocates a queue of at least `slots` slots, like
    /// [`TransmitQueue::new`](crate::TransmitQueue::new). The NIC reports refused commands to
    /// `failures`, if given.
    ///
    /// # Errors
    ///
    /// See libcxi.md 8.2.
    pub fn new(lni: &Lni, slots: u32, failures: Option<&EventQueue>) -> Result<Self, Error> {
        let commands = CommandQueue::allocate(lni.handle(), slots, 0, None, failures)?;
        Ok(Self { commands })
    }

    /// The number of slots of 64 bytes; 5 of them are never used (nic.md 2.4).
    pub fn slots(&self) -> u32 {
        self.commands.slots()
    }

    /// The status that the NIC wrote last (nic.md 2.2).
    pub fn status(&self) -> CqStatus {
        self.commands.status()
    }

    /// Begins a batch of commands.
    #[inline]
    pub fn batch(&mut self) -> TargetBatch<'_> {
        TargetBatch { wp: self.commands.write_pointer(), commands: &mut self.commands }
    }

    /// Destroys the queue.
    ///
    /// # Errors
    ///
    /// The errors of `cxil_destroy_cmdq`.
    pub fn close(mut self) -> Result<(), Error> {
        self.commands.release()
    }
}

/// Commands being written into a [`TargetQueue`]; dropping the batch discards them. Target queues
/// have no low-latency path (nic.md 2.8).
#[must_use = "commands are discarded unless committed"]
pub struct TargetBatch<'queue> {
    commands: &'queue mut CommandQueue,
    wp: u32,
}

impl TargetBatch<'_> {
    /// Adds an APPEND, UNLINK, SEARCH or SEARCH_AND_DELETE, by the opcode of `command` (nic.md
    /// 3.13).
    ///
    /// # Errors
    ///
    /// [`EmitError::QueueFull`].
    #[inline]
    pub fn emit_target(&mut self, command: &TargetCmd) -> Result<(), EmitError> {
        self.emit(encode::target(command).bytes())
    }

    /// Adds a command that sets the state of a portals table entry (nic.md 3.13, 8.2).
    ///
    /// # Errors
    ///
    /// [`EmitError::QueueFull`].
    #[inline]
    pub fn emit_set_state(&mut self, command: &SetStateCmd) -> Result<(), EmitError> {
        self.emit(encode::set_state(command).bytes())
    }

    /// Adds a command as it is, of any type and opcode, even one that the NIC refuses.
    ///
    /// # Errors
    ///
    /// [`EmitError::QueueFull`].
    ///
    /// # Panics
    ///
    /// Panics unless the command is 64 bytes long.
    pub fn emit_bytes(&mut self, command: &[u8]) -> Result<(), EmitError> {
        self.emit(command.try_into().expect("a command of 64 bytes"))
    }

    /// The bytes of the commands so far as the NIC will read them, padding included.
    pub fn bytes(&self) -> Vec<u8> {
        self.commands.bytes(self.wp)
    }

    /// Hands the commands to the NIC by doorbell. An empty batch stores nothing.
    #[inline]
    pub fn commit_doorbell(self) {
        self.commands.commit_doorbell(self.wp);
    }

    #[inline]
    fn emit(&mut self, command: &[u8; TargetCmd::SIZE]) -> Result<(), EmitError> {
        self.wp = self.commands.write(self.wp, 2, command, &[])?;
        Ok(())
    }
}
