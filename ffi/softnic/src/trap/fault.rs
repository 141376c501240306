//! The handler of SIGSEGV: emulates stores to doorbells, and passes other faults on.

use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use super::range::{TrapState, open, place_of, ring, state};
use super::store::{Store, StoredValue, decode};
use crate::doorbell::Preload;
use crate::pages::page_size;

/// The action of the program for SIGSEGV, which gets all faults that are not stores to doorbells.
/// Where [`Preload`] is loaded, it knows this action instead.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// The code of a fault by an access that the protection of the page forbids.
const ACCESS: c_int = 2;

/// Bytes below the stack pointer that belong to the interrupted function.
const RED_ZONE: usize = 128;

/// Positions of the general registers in the context of a signal, by their numbers in instructions.
const REGISTERS: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Installs the handler at the first call.
pub fn install() {
    PREVIOUS.get_or_init(|| {
        let previous = current();
        // SAFETY: all fields are integers or an optional function, for which zero is a value.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = on_fault as *const () as usize;
        // On the alternate stack if the program handles overflows of its stacks there, or may do so
        // later.
        action.sa_flags = libc::SA_SIGINFO
            | match Preload::get() {
                Some(_) => libc::SA_ONSTACK,
                None => previous.sa_flags & libc::SA_ONSTACK,
            };
        // Handlers of other signals could ring doorbells, or need what this one has locked.
        // SAFETY: the set is writable.
        unsafe { libc::sigfillset(&mut action.sa_mask) };
        // SAFETY: `on_fault` returns to code that did nothing wrong.
        unsafe { replace_handler(libc::SIGSEGV, &action) };
        previous
    });
}

/// Whether the handler is installed. Asks the kernel: where [`Preload`] is loaded, sigaction(2) of
/// libc knows the program's action.
pub fn is_installed() -> bool {
    // Handler, flags, restorer and mask.
    let mut action = [0_usize; 4];
    // SAFETY: the kernel writes these four words, of which the mask has 8 bytes. Without success
    // they stay zero.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            libc::SIGSEGV,
            null::<usize>(),
            action.as_mut_ptr(),
            8,
        )
    };
    action[0] == on_fault as *const () as usize
}

fn current() -> libc::sigaction {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the place is writable. Without success it stays zero.
    unsafe { libc::sigaction(libc::SIGSEGV, null(), action.as_mut_ptr()) };
    // SAFETY: all fields are integers or an optional function, for which zero is a value.
    unsafe { action.assume_init() }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the function needs nothing.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: errno is a variable of this thread.
    let before = unsafe { *errno };
    // SAFETY: the kernel passes a valid description of the signal, which nothing changes.
    let cause = unsafe { &*info };
    let code = cause.si_code;
    // SAFETY: a description has room for an address, which means nothing unless the code is
    // `ACCESS`.
    let address = unsafe { cause.si_addr() }.addr();
    // SAFETY: the kernel passes the context that the thread continues with. The end of this type,
    // which the kernel's has not, is not accessed.
    let continued = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if code != ACCESS || !emulate(address, continued) {
        pass_on(signal, info, continued);
    }
    // SAFETY: errno is a variable of this thread.
    unsafe { *errno = before };
}

/// Emulates a store to a doorbell, or opens its page so that the store succeeds when it is
/// repeated. False if the fault has another cause.
fn emulate(address: usize, context: &mut libc::ucontext_t) -> bool {
    let Some(place) = place_of(address) else {
        return false;
    };
    match state(place) {
        TrapState::Unused => return false,
        // Another thread opened the page after the fault.
        TrapState::Open => return true,
        TrapState::Armed => {}
    }
    let at = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    let mut bytes = at..;
    let store = decode(|| {
        let byte = std::ptr::with_exposed_provenance::<u8>(bytes.next().unwrap_or(at));
        // SAFETY: the processor has just read this instruction, and `decode` reads only its bytes.
        unsafe { byte.read_volatile() }
    });
    let is_handled = |store: &Store| {
        let value = value(store, address, context);
        on_stack_of_thread(context, &mut || ring(place, address % page_size(), value))
    };
    let Some(store) = store.filter(is_handled) else {
        return open(place);
    };
    let registers = &mut context.uc_mcontext.gregs;
    if let StoredValue::Exchange(number) = store.value {
        // What a doorbell reads as is not specified.
        registers[REGISTERS[usize::from(number)] as usize] = 0;
    }
    registers[libc::REG_RIP as usize] += i64::from(store.length);
    true
}

/// The word that an instruction stores to `address`; `None` if it stores less, or the word cannot
/// be found.
fn value(store: &Store, address: usize, context: &libc::ucontext_t) -> Option<u64> {
    if !address.is_multiple_of(8) || store.width < 8 {
        return None;
    }
    match store.value {
        StoredValue::Register(number) | StoredValue::Exchange(number) => {
            let register = REGISTERS[usize::from(number)];
            Some(context.uc_mcontext.gregs[register as usize] as u64)
        }
        StoredValue::Immediate(value) => Some(value),
        StoredValue::Vector(number) => {
            let vectors = context.uc_mcontext.fpregs;
            // SAFETY: the kernel saved the vector registers of the thread there.
            let vector = unsafe { vectors.as_ref() }?._xmm[usize::from(number)].element;
            Some(u64::from(vector[0]) | u64::from(vector[1]) << 32)
        }
        StoredValue::Elsewhere => None,
    }
}

/// Calls `work` on the stack of the interrupted code, if the handler runs on the alternate stack:
/// that is often too small for the engine.
///
/// The kernel treats the alternate stack as free meanwhile. All signals that could use it are
/// blocked.
fn on_stack_of_thread(context: &libc::ucontext_t, mut work: &mut dyn FnMut() -> bool) -> bool {
    let here = stack_pointer();
    let alternate = &context.uc_stack;
    let start = alternate.ss_sp.addr();
    let interrupted = context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
    let on_alternate = |address: usize| address.wrapping_sub(start) < alternate.ss_size;
    if !on_alternate(here) || on_alternate(interrupted) {
        return work();
    }
    let mut call = StackCall { work: &mut work, result: false };
    let stack = (interrupted - RED_ZONE) & !15;
    // SAFETY: below its red zone the stack of the interrupted code is unused while this handler
    // runs, and `call_back` returns to this place with R12 unchanged.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, {stack}",
            "call {call_back}",
            "mov rsp, r12",
            stack = in(reg) stack,
            call_back = sym call_back,
            in("rdi") &raw mut call,
            out("r12") _,
            clobber_abi("C"),
        );
    }
    call.result
}

/// The stack pointer. The address of a variable would not do: AddressSanitizer keeps variables
/// elsewhere.
fn stack_pointer() -> usize {
    let pointer;
    // SAFETY: the instruction copies a register.
    unsafe { asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

struct StackCall<'a, 'b> {
    work: &'a mut &'b mut dyn FnMut() -> bool,
    result: bool,
}

extern "C" fn call_back(call: *mut StackCall<'_, '_>) {
    // SAFETY: `on_stack_of_thread` passes a call that it does not access meanwhile.
    let call = unsafe { &mut *call };
    call.result = (call.work)();
}

fn default_action(previous: &libc::sigaction) -> libc::sigaction {
    libc::sigaction { sa_sigaction: libc::SIG_DFL, ..*previous }
}

/// Puts an action in place of this handler, or of what was there before it.
///
/// # Safety
/// As for sigaction(2): the action is complete, and its handler may run at any instruction.
unsafe fn replace_handler(signal: c_int, action: &libc::sigaction) {
    match Preload::get() {
        // SAFETY: the caller answers for the action.
        Some(preload) => unsafe { preload.take_faults(action) },
        None => {
            // SAFETY: the caller answers for the action.
            unsafe { libc::sigaction(signal, action, null_mut()) };
        }
    }
}

/// Does what the program's own action for SIGSEGV would do.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: &mut libc::ucontext_t) {
    let previous = Preload::get().map(Preload::action_of_program);
    let Some(previous) = previous.or_else(|| PREVIOUS.get().copied()) else {
        return;
    };
    let previous = &previous;
    // SAFETY: the kernel passes a valid description of the signal.
    let was_sent = unsafe { (*info).si_code } <= 0;
    let action = previous.sa_sigaction;
    if action == libc::SIG_IGN && was_sent {
        return;
    }
    if action == libc::SIG_IGN || action == libc::SIG_DFL {
        // SAFETY: the default action needs nothing of the program.
        unsafe { replace_handler(signal, &default_action(previous)) };
        // A fault is repeated when the handler returns; a signal that was sent is not.
        if was_sent {
            // SAFETY: the signal is blocked until the handler returns.
            unsafe { libc::raise(signal) };
        }
        return;
    }
    if previous.sa_flags & libc::SA_RESETHAND != 0 {
        // Of the program's actions: where `Preload` is loaded, this handler stays.
        // SAFETY: the default action needs nothing of the program.
        unsafe { libc::sigaction(signal, &default_action(previous), null_mut()) };
    }
    let mut mask = context.uc_sigmask;
    for number in 1..=libc::SIGRTMAX() {
        // SAFETY: the set is initialized, and other numbers are refused.
        if unsafe { libc::sigismember(&previous.sa_mask, number) } == 1 {
            // SAFETY: the set is initialized, and the number is a signal of the mask.
            unsafe { libc::sigaddset(&mut mask, number) };
        }
    }
    if previous.sa_flags & libc::SA_NODEFER == 0 {
        // SAFETY: the set is initialized.
        unsafe { libc::sigaddset(&mut mask, signal) };
    }
    // SAFETY: the mask is that with which the kernel would call the program's handler; the kernel
    // restores the mask of the thread when this handler returns.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask, null_mut()) };
    let context: *mut libc::ucontext_t = context;
    if previous.sa_flags & libc::SA_SIGINFO != 0 {
        type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
        // SAFETY: the program installed this address as a handler with three arguments.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(action) };
        handler(signal, info, context.cast());
    } else {
        // SAFETY: the program installed this address as a handler with one argument.
        let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(action) };
        handler(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_alternate_stack_for_that_of_interrupted_code() {
        // SAFETY: all fields are integers or pointers, for which zero is a value.
        let mut context: libc::ucontext_t = unsafe { MaybeUninit::zeroed().assume_init() };
        let interrupted = vec![0_u8; 1 << 20];
        let range = interrupted.as_ptr_range();
        context.uc_mcontext.gregs[libc::REG_RSP as usize] = range.end.addr() as i64;
        let run = |context: &libc::ucontext_t| {
            let mut place = 0;
            let mut work = || {
                place = stack_pointer();
                true
            };
            assert!(on_stack_of_thread(context, &mut work));
            place
        };
        let range = range.start.addr()..range.end.addr();
        assert!(!range.contains(&run(&context)));
        // The stack of this thread becomes the alternate one.
        let size = 1 << 16;
        context.uc_stack.ss_sp = std::ptr::without_provenance_mut(stack_pointer() - size);
        context.uc_stack.ss_size = 2 * size;
        assert!(range.contains(&run(&context)));
    }
}
