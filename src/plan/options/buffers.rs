//! The options of the data buffers.

use super::tool_option::{DATA, Def, LIST_BUFFERS, ToolOption, process, run};
use super::values::{HUGE_PAGES, gpu_index, huge_page, set_lists, words};
use crate::run_options::MAX_ALIGNMENT;
use cli::usage::{Completion, Value};
use cli::values::names;
use cxi::gpu::GpuType;
use facts::number::bytes_within;
use node::gpu;

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
    run(LIST_BUFFERS, |tool| {
        let default = tool.defaults.lists.map_or(0, |lists| lists.max_buffer);
        let text = format!(
            "Largest buffer in bytes, such as 64M; longer lists reuse it from the start \
             (default: {default})\n\n\
             BUF_SIZE may have K, M or G as in --size. The buffer is smaller if all \
             operations of a list, each aligned to BUF_ALIGN, fit into less."
        );
        Def::text("buf-sz", "BUF_SIZE", |typed, value| {
            let max_buffer = bytes_within(value, 1..=u64::MAX)?;
            set_lists(typed, |lists| lists.max_buffer = max_buffer)
        })
        .explained(text)
    })
    .legacy(),
    run(LIST_BUFFERS, |tool| {
        let default = tool.defaults.lists.map_or(0, |lists| lists.alignment);
        let text = format!(
            "Spacing of operations in the buffers in bytes (default: {default})\n\n\
             BUF_ALIGN may have K, M or G as in --size; at most 4 GiB."
        );
        Def::text("buf-align", "BUF_ALIGN", |typed, value| {
            let alignment = bytes_within(value, 1..=MAX_ALIGNMENT)?;
            set_lists(typed, |lists| lists.alignment = alignment)
        })
        .explained(text)
    })
    .legacy(),
    run(DATA, |tool| {
        let nodes = if tool.has_peer() {
            "Both sides use them. The pages must have been reserved on both nodes; before"
        } else {
            "The pages must have been reserved; before"
        };
        Def::text("use-hp", "SIZE", |typed, value| {
            typed.run.huge_page = Some(huge_page(value).ok_or("expected 2M or 1G")?);
            Ok(())
        })
        .completed_by(Completion::Words(|| names(&HUGE_PAGES)))
        .explained(format!(
            "Huge pages for the data buffers: 2M or 1G (default: ordinary pages)\n\n\
             {nodes} anything is allocated, the tool compares the number of pages that it needs \
             with the number that is free."
        ))
    })
    .legacy(),
    process(DATA, |tool| {
        let text = if tool.has_peer() {
            let implied = if tool.defaults.use_idc { "; implies --no-idc" } else { "" };
            format!(
                "GPU that holds the transmit buffer of this side (default: system \
                 memory){implied}\n\n\
                 0 is the first GPU of its type. The other side chooses its own buffers. Data in \
                 GPU memory is never part of the command itself."
            )
        } else {
            "GPU that holds the source of the writes (default: system memory)\n\n\
             0 is the first GPU of its type."
                .into()
        };
        Def::new("tx-gpu", Some(Value::new("GPU", Completion::Nothing)), |typed, value| {
            typed.gpus.tx = Some(gpu_index(value)?);
            // The CPU cannot read GPU memory, and so cannot put the data into the command.
            typed.run.use_idc = false;
            Ok(())
        })
        .letter('t')
        .explained(text)
    })
    .legacy(),
    process(DATA, |tool| {
        let buffer =
            if tool.has_peer() { "receive buffer of this side" } else { "target of the writes" };
        Def::new("rx-gpu", Some(Value::new("GPU", Completion::Nothing)), |typed, value| {
            typed.gpus.rx = Some(gpu_index(value)?);
            Ok(())
        })
        .letter('r')
        .explained(format!(
            "GPU that holds the {buffer} (default: system memory)\n\n\
             0 is the first GPU of its type."
        ))
    })
    .legacy(),
    process(DATA, |_| {
        Def::text("gpu-type", "TYPE", |typed, value| {
            typed.gpus.kind = Some(gpu::named(value).ok_or(gpu::GPU_TYPES)?);
            Ok(())
        })
        .completed_by(Completion::Words(|| names(&GpuType::ALL)))
        .letter('g')
        .explained(
            "AMD, NVIDIA or INTEL (default: first type found)\n\n\
             A type is found if the machine has a GPU of this type and its runtime (HIP, CUDA, \
             Level Zero).",
        )
    })
    .legacy(),
    process(DATA, |_| {
        Def::text("gpu-map", "WAY", |typed, value| {
            let found = gpu::MAP_NAMES.iter().find(|(name, _)| *name == value);
            typed.gpus.map = found.ok_or(gpu::MAP_WAYS)?.1;
            Ok(())
        })
        .completed_by(Completion::Words(|| words(&gpu::MAP_NAMES)))
        .explained(
            "How the NIC reaches GPU memory: peer, dmabuf or auto (default: auto, the vendor's \
             usual way first)\n\n\
             'peer' is the peer-to-peer module of the vendor (nvidia-peermem, amdgpu), 'dmabuf' a \
             dma-buf that the runtime of the GPU exports. The usual way is 'peer' for AMD and \
             NVIDIA, 'dmabuf' for INTEL; 'auto' takes the other way if the driver refuses that \
             one. Libraries of a job may use another way than the legacy tools.",
        )
    }),
];
