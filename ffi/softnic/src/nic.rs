//! One open device: the engine, and what those who run it agree on.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::sched_yield;

use crate::engine::Engine;
use crate::fabric::{Fabric, Port};
use crate::fork;
use crate::fork_marks::Marking;

/// Environment variable that leaves the gets of rendezvous puts to software if it is "0", as a parameter of
/// the driver does it for hardware (nic.md 14.2).
const RENDEZVOUS_GETS: &str = "CXIDIAG_RDZV_GET";

/// A thread that has polled in vain so often, some tens of microseconds, offers its CPU to others, of
/// which one may be the peer that it waits for. Alone on its CPU it loses next to nothing.
const PATIENCE: u32 = 1024;

/// An open device, shared by its handles and the engine thread.
pub struct Nic {
    /// None once the device is closed.
    engine: Mutex<Option<Engine<Fabric>>>,
    port: Arc<Port>,
    /// Calls of `progress` in a row that found nothing to do.
    misses: AtomicU32,
    /// Counts calls of `progress`, so that the engine thread sees whether anybody polls.
    calls: AtomicU64,
    generation: u32,
    /// What mapped memory is kept from children.
    pub marking: Marking,
}

impl Nic {
    /// Opens a NIC with this address.
    pub fn open(nid: u32) -> Result<Self, Errno> {
        let fabric = Fabric::join(nid)?;
        let port = fabric.port();
        let mut engine = Engine::new(fabric);
        engine.rendezvous_gets = std::env::var_os(RENDEZVOUS_GETS).is_none_or(|value| value != "0");
        Ok(Self {
            port,
            engine: Mutex::new(Some(engine)),
            misses: AtomicU32::new(0),
            calls: AtomicU64::new(0),
            generation: fork::generation(),
            marking: Marking::from_environment(),
        })
    }

    /// Whether this is the process that opened the device.
    #[inline]
    pub fn is_ours(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Works on the engine; EIO if the device is closed, inherited, or broke down.
    pub fn with<T>(
        &self,
        work: impl FnOnce(&mut Engine<Fabric>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if !self.is_ours() {
            return Err(Errno::IO);
        }
        work(self.lock()?.as_mut().ok_or(Errno::IO)?)
    }

    /// Runs the engine once in a thread that waits for events.
    #[inline]
    pub fn progress(&self) {
        if !self.is_ours() {
            return;
        }
        // Before the lock, so that an engine thread that holds it sees that it is not needed.
        // A count lost between two such threads does no harm: the number has changed.
        self.calls.store(
            self.calls.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        // Senders need not wake anybody now.
        let parked = self.port.parked();
        if parked.load(Ordering::Relaxed) != 0 {
            parked.store(0, Ordering::Relaxed);
        }
        if self.poll() {
            self.misses.store(0, Ordering::Relaxed);
            return;
        }
        let misses = self.misses.load(Ordering::Relaxed).wrapping_add(1);
        self.misses.store(misses, Ordering::Relaxed);
        if misses.is_multiple_of(PATIENCE) {
            sched_yield();
        }
    }

    /// Runs the engine once. True if there was anything to do.
    #[inline]
    pub fn poll(&self) -> bool {
        let Ok(mut engine) = self.lock() else {
            return false;
        };
        engine.as_mut().is_some_and(Engine::poll)
    }

    /// Looks for dead partners, if anything depends on them.
    pub fn probe(&self) {
        if let Ok(mut engine) = self.lock()
            && let Some(engine) = engine.as_mut()
            && engine.depends_on_others()
        {
            engine.probe();
        }
    }

    /// How long there is nothing to do but to wait for a packet on its way; `None` if none is known.
    pub fn rest(&self) -> Option<Duration> {
        let engine = self.lock().ok()?;
        let rest = engine.as_ref()?.wire.rest()?;
        Some(Duration::from_nanos(rest))
    }

    /// Calls of `progress` so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Our port, whose `parked` word the engine thread sleeps on.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Ends the engine; its objects cease to exist.
    pub fn close(&self) {
        let engine = self.lock().ok().and_then(|mut engine| engine.take());
        drop(engine);
    }

    /// A panic while the engine was locked leaves it in an unknown state: no more of it.
    #[inline]
    fn lock(&self) -> Result<MutexGuard<'_, Option<Engine<Fabric>>>, Errno> {
        self.engine.lock().map_err(|_| Errno::IO)
    }
}
