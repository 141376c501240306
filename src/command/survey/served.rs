//! A member on a host without a launcher: a process of `cxidiag serve`, which a coordinator on another
//! host has summoned.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::PollFlags;

use super::asked::{self, Asked};
use super::member::{self, Place};
use crate::device::{DeviceKind, DeviceName};
use crate::error::{Context, Failure};
use crate::interrupt;
use crate::meeting_point::Coordinator;
use crate::session::control_line::{ControlLine, Order, Ready};
use crate::session::{Caller, summons};
use crate::token::Token;
use crate::tools::TOOLS;

/// Joins the survey of the client of this process, when it is the client's turn. `own` has the NIC of
/// the server, with which the process measures if the coordinator names none and the NIC is a software
/// NIC.
///
/// # Errors
///
/// A coordinator that ends or refuses this process, and an interruption.
pub fn run(own: Asked) -> Result<(), Failure> {
    const LOST: &str = "cannot use the connection to cxidiag serve";
    let socket = UnixStream::from(copy(io::stdout()).environment(LOST)?);
    let mut line = ControlLine::new(socket);
    let Order::Serve { peer, version } = next(&mut line)? else {
        return Err(Failure::environment("cxidiag serve has sent no client"));
    };
    let stream = TcpStream::from(copy(io::stdin()).environment(LOST)?);
    let caller = Caller::new(stream, peer, version)?;
    let mut plan = asked::plan(&TOOLS[0], &[])?;
    plan.admission.token = Token::of_environment();
    let summons::Summons {
        rank,
        size,
        port,
        token,
        arguments,
    } = caller.summons(&plan)?;
    let arguments: Vec<_> = arguments.into_iter().map(Into::into).collect();
    let Some(mut asked) = asked::parse(&arguments)? else {
        return Err(Failure::environment(
            "the coordinator has sent no arguments",
        ));
    };
    if asked.devices.is_empty() && own.devices.iter().any(is_software) {
        asked.devices = own.devices;
    }
    let token = token.and_then(|text| Token::new(text.as_ref()));
    let token = token.or(plan.admission.token);
    let token = token.ok_or_else(|| Failure::environment("the coordinator has sent no token"))?;
    line.send(&Ready {
        buffer_bytes: 0,
        asked_ms: None,
    })
    .environment(LOST)?;
    wait_for_turn(&mut line, &caller)?;
    let coordinator = Coordinator {
        host: peer.ip().to_string(),
        addresses: vec![(peer.ip(), port).into()],
        token,
    };
    member::run(&asked, Place::new(rank, size, None), |_| {
        Ok(coordinator.clone())
    })
}

fn is_software(device: &DeviceName) -> bool {
    device.kind == DeviceKind::Software
}

/// Waits until other clients of the NIC have measured.
fn wait_for_turn(line: &mut ControlLine, caller: &Caller) -> Result<(), Failure> {
    loop {
        match next(line)? {
            Order::Begin => return Ok(()),
            Order::Refuse(reason) => return Err(caller.refuse(Failure::environment(reason))),
            Order::Place(_) | Order::Serve { .. } => {}
        }
    }
}

/// Waits for the next order.
fn next(line: &mut ControlLine) -> Result<Order, Failure> {
    loop {
        if let Some(order) = line.message() {
            return Ok(order);
        }
        interrupt::wait(&*line, PollFlags::IN, None)?;
        if !line.read().environment("cannot read from cxidiag serve")? {
            return Err(Failure::environment("cxidiag serve has ended"));
        }
    }
}

/// Returns another descriptor of a socket.
fn copy(socket: impl AsFd) -> io::Result<OwnedFd> {
    socket.as_fd().try_clone_to_owned()
}
