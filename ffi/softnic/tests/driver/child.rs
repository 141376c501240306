//! Child processes made by fork(2), users and environment of this process.

/// Forks, runs `child` in the child process and returns its process id. The child exits with
/// status 0 if `child` returns true.
pub fn fork(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the thread of the test is the only one of this process that holds locks.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: alarm(2) has no requirements; it ends a child that hangs.
        unsafe { libc::alarm(30) };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: _exit(2) has no requirements.
        unsafe { libc::_exit(i32::from(!outcome.unwrap_or(false))) };
    }
    pid
}

/// Runs `child` in a child process, which must return true.
pub fn in_child(child: impl FnOnce() -> bool) {
    let pid = fork(child);
    let mut status = 0;
    // SAFETY: `pid` is a child of this process, and `status` lives through the call.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the child failed");
}

/// Whether this process has the privileges of root.
pub fn is_root() -> bool {
    // SAFETY: geteuid(2) has no requirements.
    unsafe { libc::geteuid() == 0 }
}

/// Continues as a user without privileges, who has to open devices of their own.
pub fn become_ordinary() {
    if is_root() {
        // SAFETY: setresuid(2) has no requirements.
        assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
    }
}

/// Sets an environment variable for devices that this process and its partners open later.
pub fn set(variable: &str, value: &str) {
    // SAFETY: this process has no other thread that reads or writes the environment.
    unsafe { std::env::set_var(variable, value) };
}
