//! Commands decoded to a place that held another one.

use proptest::prelude::*;

use super::*;

/// A command of any type, size and opcode.
fn command() -> impl Strategy<Value = RingCommand> {
    prop::array::uniform32(any::<u64>()).prop_map(RingCommand::from_words)
}

/// A command that is often accepted: its type, size and opcode fit, and its length is the length of
/// an immediate put or atomic operation.
fn plausible() -> impl Strategy<Value = RingCommand> {
    let opcodes = [C_CMD_PUT, C_CMD_SMALL_MESSAGE, C_CMD_ATOMIC, C_CMD_FETCHING_ATOMIC];
    let immediate = opcodes.map(|opcode| (C_CMD_TYPE_IDC, C_CMD_SIZE_64B, opcode));
    let dma = [
        (C_CMD_TYPE_IDC, C_CMD_SIZE_32B, C_CMD_PUT),
        (C_CMD_TYPE_IDC, C_CMD_SIZE_32B, C_CMD_ATOMIC),
        (C_CMD_TYPE_DMA, C_CMD_SIZE_32B, C_CMD_NOMATCH_PUT),
        (C_CMD_TYPE_DMA, C_CMD_SIZE_32B, C_CMD_NOMATCH_GET),
        (C_CMD_TYPE_DMA, C_CMD_SIZE_64B, C_CMD_PUT),
        (C_CMD_TYPE_DMA, C_CMD_SIZE_64B, C_CMD_GET),
        (C_CMD_TYPE_DMA, C_CMD_SIZE_64B, C_CMD_RENDEZVOUS_PUT),
        (C_CMD_TYPE_DMA, C_CMD_SIZE_128B, C_CMD_ATOMIC),
        (C_CMD_TYPE_DMA, C_CMD_SIZE_128B, C_CMD_FETCHING_ATOMIC),
    ];
    let headers = prop::sample::select([&immediate[..], &dma].concat());
    let words = prop::array::uniform32(any::<u64>());
    (words, headers, prop::sample::select(vec![32_u64, 64])).prop_map(
        |(mut words, (cmd_type, size, opcode), length)| {
            let header = u64::from(cmd_type | size << 2 | opcode << 4);
            words[0] = words[0] & !0xffff | header | length << 8;
            RingCommand::from_words(words)
        },
    )
}

proptest! {
    /// No field of the earlier command is left, except the rendezvous fields, which only rendezvous
    /// puts have.
    #[test]
    fn decoding_replaces_the_fields_of_an_earlier_command(
        earlier in prop_oneof![1 => command(), 4 => plausible()],
        later in prop_oneof![1 => command(), 4 => plausible()],
        context in prop::array::uniform4(any::<u64>()),
    ) {
        let context = CStateCmd::from_words(context);
        let (mut used, mut fresh) = (Operation::new(), Operation::new());
        let _ = used.decode(&earlier, &context);
        let decoded = used.decode(&later, &context);
        prop_assert_eq!(decoded, fresh.decode(&later, &context));
        if decoded.is_ok() {
            if used.kind != PacketKind::Rendezvous {
                used.rendezvous = Rendezvous::default();
                fresh.rendezvous = Rendezvous::default();
            }
            prop_assert_eq!(used, fresh);
        }
    }
}
